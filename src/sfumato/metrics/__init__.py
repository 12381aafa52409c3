"""Totals and state of running queries, from Spark's reports, for any display.

`progress` adds up reports, `figures` holds the metrics of all queries of a session, and `names`
defines the metrics. `exporters` writes them for Prometheus and OpenTelemetry and as JSON lines,
`serve` serves them.
"""
