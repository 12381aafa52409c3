"""A Grafana dashboard of the metrics, and alerts worth having, as files for those tools."""

from typing import Any

RATE = "[5m]"
# Title, unit of Grafana's, and (expression, legend) of each line.
PANELS: tuple[tuple[str, str, tuple[tuple[str, str], ...]], ...] = (
    (
        "Rows a second",
        "rowsps",
        (
            (f"rate(sfumato_rows_in_total{RATE})", "{{query}} in"),
            (f"rate(sfumato_rows_out_total{RATE})", "{{query}} out"),
        ),
    ),
    (
        "Late share",
        "percentunit",
        (
            (
                f"rate(sfumato_operator_late_total{RATE})"
                f" / rate(sfumato_operator_rows_total{RATE})",
                "{{query}} {{operator}}",
            ),
        ),
    ),
    (
        "Punctuation behind the newest row held",
        "s",
        (("sfumato_reorder_lag_seconds", "{{query}} {{operator}}"),),
    ),
    (
        "How long rows are held",
        "s",
        (
            ("sfumato_reorder_wait_seconds", "{{query}} {{operator}} {{quantile}}"),
            ("sfumato_reorder_oldest_wait_seconds", "{{query}} {{operator}} oldest held"),
        ),
    ),
    ("Rows held", "short", (("sfumato_reorder_held_rows", "{{query}} {{operator}}"),)),
    ("Micro-batch", "s", (("sfumato_batch_seconds", "{{query}}"),)),
    ("Parts of a micro-batch", "s", (("sfumato_batch_part_seconds", "{{query}} {{part}}"),)),
    (
        "State",
        "bytes",
        (
            ("sfumato_state_memory_bytes", "{{query}} memory"),
            ("sfumato_state_disk_bytes", "{{query}} disk"),
        ),
    ),
    (
        "Rows set aside",
        "rowsps",
        (
            (f"rate(sfumato_operator_invalid_total{RATE})", "{{query}} {{operator}} invalid"),
            (f"rate(sfumato_operator_spoiled_total{RATE})", "{{query}} {{operator}} spoiled"),
            (f"rate(sfumato_operator_overflow_total{RATE})", "{{query}} {{operator}} overflow"),
        ),
    ),
    (
        "Window size against rows wanted",
        "short",
        (
            ("sfumato_window_size", "{{query}} {{operator}} held"),
            ("sfumato_window_rows", "{{query}} {{operator}} wanted"),
        ),
    ),
    (
        "Pruned share of a join's pairs",
        "percentunit",
        (
            (
                f"1 - rate(sfumato_operator_compared_total{RATE})"
                f" / rate(sfumato_operator_opposite_total{RATE})",
                "{{query}} {{operator}}",
            ),
        ),
    ),
    ("Keys", "short", (("sfumato_operator_keys", "{{query}} {{operator}}"),)),
    (
        "Pairs and imputed rows",
        "rowsps",
        (
            (f"rate(sfumato_operator_pairs_total{RATE})", "{{query}} {{operator}} pairs"),
            (f"rate(sfumato_operator_imputed_total{RATE})", "{{query}} {{operator}} imputed"),
            (
                f"rate(sfumato_operator_unimputable_total{RATE})",
                "{{query}} {{operator}} unimputable",
            ),
        ),
    ),
)
# Name, expression, how long it must hold, what it says.
ALERTS = (
    ("SfumatoQueryFailed", "sfumato_failed == 1", "0m", "{{ $labels.query }} has failed"),
    (
        "SfumatoQuerySilent",
        "sfumato_active == 1 and time() - sfumato_batch_end_timestamp_seconds > 300",
        "1m",
        "{{ $labels.query }} has run no micro-batch for five minutes",
    ),
    (
        "SfumatoNothingInOrder",
        "sfumato_reorder_held_rows > 0 and "
        "changes(sfumato_reorder_punctuation_timestamp_seconds[10m]) == 0",
        "5m",
        "{{ $labels.operator }} of {{ $labels.query }} holds rows and lets none out: is a source "
        "silent?",
    ),
    (
        "SfumatoMuchLate",
        "rate(sfumato_operator_late_total[15m]) / rate(sfumato_operator_rows_total[15m]) > 0.05",
        "15m",
        "more than 5% of the rows of {{ $labels.operator }} come late; set this to your DRATIO",
    ),
    (
        "SfumatoRowsWait",
        'sfumato_reorder_wait_seconds{quantile="0.99"} > 600',
        "10m",
        "one row in a hundred waits over ten minutes in {{ $labels.operator }}; set this to what "
        "you can wait",
    ),
    (
        "SfumatoRowsSpoiled",
        "increase(sfumato_operator_spoiled_total[10m]) > 0",
        "0m",
        "values that {{ $labels.operator }} could not read",
    ),
    (
        "SfumatoStateGrows",
        "predict_linear(sfumato_state_disk_bytes[6h], 86400) > 50e9",
        "1h",
        "the state of {{ $labels.query }} will be above 50 GB in a day: is FORGET missing?",
    ),
)


def dashboard() -> dict[str, Any]:
    """The dashboard, as Grafana imports it; it asks for the Prometheus source."""
    panels = [
        {
            "id": number + 1,
            "title": title,
            "type": "timeseries",
            "datasource": {"type": "prometheus", "uid": "${source}"},
            "gridPos": {"h": 8, "w": 8, "x": 8 * (number % 3), "y": 8 * (number // 3)},
            "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
            "targets": [
                {"expr": expression, "legendFormat": legend, "refId": chr(ord("A") + place)}
                for place, (expression, legend) in enumerate(lines)
            ],
        }
        for number, (title, unit, lines) in enumerate(PANELS)
    ]
    return {
        "title": "sfumato",
        "uid": "sfumato",
        "schemaVersion": 39,
        "refresh": "10s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {
            "list": [{"name": "source", "type": "datasource", "query": "prometheus"}],
        },
        "panels": panels,
    }


def alerts() -> str:
    """The alerts, as a file of Prometheus' rules."""
    lines = ["groups:", "  - name: sfumato", "    rules:"]
    for name, expression, lasting, said in ALERTS:
        lines += [
            f"      - alert: {name}",
            f"        expr: {expression}",
            f"        for: {lasting}",
            "        annotations:",
            f"          summary: '{said}'",
        ]
    return "\n".join(lines) + "\n"
