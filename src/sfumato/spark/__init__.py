"""The operators over Spark frames, streaming and static.

`model` reads frames and columns, `crossing` moves rows between Spark and Python, `runtime` runs
operators, and `state` stores their state in streams. `rows` has the stateless functions. The
semantics are in `tables`.
"""
