"""Rows of users' tables as operators read them, and results under user names.

`frame` describes a user's frame, `rows` reads it under fixed names, `chain` runs operators, and
`results` renames the answers. Used by all other folders of `tables`, `memory` and `spark`.
"""
