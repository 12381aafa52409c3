"""Queries: operators fused into chains, run on streams and static frames.

`run` runs an operator over frames; `fuse` records the operators of frames and plans the chain.
"""
