"""Transfer of rows between Spark and Python.

`chunks` packs the rows of streams by bucket and carries counters and gauges next to the answers;
`whole_frames` sorts and processes static frames.
"""
