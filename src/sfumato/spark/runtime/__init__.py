"""Queries: operators fused into chains, run on streams and static frames.

`run` runs an operator over frames, `fuse` remembers the operators of frames and plans the chain.
"""
