"""What running queries did and what state they are in, from Spark's reports, for any display.

`progress` adds up reports, `figures` keeps those of all queries of a session, `names` defines the
metrics. `exporters` writes them for Prometheus and OpenTelemetry and as JSON lines, `serve` serves
them.
"""
