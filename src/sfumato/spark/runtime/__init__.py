"""Queries: operators fused into chains, run on streams and static frames, with their lineage.

`run` runs an operator over frames, `fuse` plans the chain, `lineage` remembers the operators of
frames, `impute` and `where` run without state, `invalid_row_warnings` listens for invalid rows.
"""
