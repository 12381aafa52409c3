"""Rows on their way to Python and back: raw columns, buckets, chunks, counters and gauges.

Open to `static`, `state` and `runtime`.
"""
