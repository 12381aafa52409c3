"""Conversion between users' tables and the fixed names of operators.

`frame` describes a user's frame, `rows` reads it under fixed names, `chain` runs operators, and
`results` renames the answers. Used by all other folders of `tables`, `memory` and `spark`.
"""
