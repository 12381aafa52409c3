"""Transfer of rows between Spark and Python.

`chunks` packs rows by bucket and renames raw columns; `figures` carries counters and gauges next
to the answers. Used by `runtime`, `state` and `static`.
"""
