"""The join of incomplete streams: objects are imputed only where the join needs it.

`incomplete_join` steers the others, which narrow down a match step by step.
Open to the operators of joins.
"""
