"""The operators over Spark frames, streaming and static.

`model` reads frames and columns, `crossing` moves rows between Spark and Python, `runtime` runs
operators, with `state` for streams. `rows` has the functions without state. Semantics is left to
`tables`.
"""
