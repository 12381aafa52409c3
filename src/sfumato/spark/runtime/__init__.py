"""Queries: operators fused to chains, run on streams and static frames, and their lineage.

Open to `api`, and the lineage of frames to `sql`.
"""
