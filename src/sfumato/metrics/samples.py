"""Metrics as samples: a metric, the values of its labels, a number."""

from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple

from sfumato.metrics.figures import QueryFigures, SessionFigures
from sfumato.metrics.history import FIRST_BIN_S
from sfumato.metrics.names import METRICS, MetricDefinition, operator_counter
from sfumato.metrics.progress import REORDER, PartTotals
from sfumato.reports import ANSWERS_SUFFIX, OperatorPart

SIZE_NAMES = ("window_size", "window_rows")  # gauges exported as metrics of the same name
TIME_GAUGES = {  # gauges in microseconds
    "lag": "reorder_lag_seconds",
    "oldest": "reorder_oldest_timestamp_seconds",
    "punctuation": "reorder_punctuation_timestamp_seconds",
    "waited": "reorder_oldest_wait_seconds",
    "due": "ranking_due_timestamp_seconds",
}
OTHER_METRICS = ("held", "latency")  # counters exported under other names


class Sample(NamedTuple):
    """A value of a metric; `labels` in the order defined by the metric."""

    metric: MetricDefinition
    labels: tuple[str, ...]
    value: float


def samples(figures: SessionFigures) -> list[Sample]:
    """Return a consistent snapshot of all metrics."""
    with figures.locked():
        found = [sample for query in figures.queries() for sample in _of_query(query)]
    return [s._replace(labels=tuple(map(figures.hide, s.labels))) for s in found]


def _of_query(query: QueryFigures) -> Iterator[Sample]:
    name, newest = query.name, query.newest
    values: dict[str, float] = {
        "rows_in": query.rows_in,
        "rows_out": query.rows_out,
        "batches": query.batches,
        "batch_duration_seconds": query.busy,
        "active": query.active,
        "failed": query.error is not None,
    }
    if newest is not None and query.reported is not None:
        values["batch_seconds"] = newest.seconds
        values["batch_end_timestamp_seconds"] = query.reported
        values["state_memory_bytes"] = newest.state.get("memory", 0)
        values["state_disk_bytes"] = newest.state.get("disk", 0)
        values["state_rows"] = newest.state.get("rows", 0)
        for phase, seconds in newest.parts.items():
            yield Sample(METRICS["batch_part_seconds"], (name, phase), seconds)
    for metric, value in values.items():
        yield Sample(METRICS[metric], (name,), float(value))
    for part, totals in query.operators.items():
        if part.side == ANSWERS_SUFFIX:
            for ranking, count in totals.counters.items():
                labels = (name, part.operator, ranking)
                yield Sample(METRICS["ranking_answers"], labels, count)
        else:
            yield from _of_part(part, totals, (name, part.operator, part.side))


def _of_part(part: OperatorPart, totals: PartTotals, labels: tuple[str, ...]) -> Iterator[Sample]:
    counters, gauges = {**totals.counters, **totals.added}, totals.gauges
    for counter, count in counters.items():
        if counter not in OTHER_METRICS:
            yield Sample(operator_counter(counter), labels, count)
    values = {gauge: gauges.get(gauge) for gauge in SIZE_NAMES}
    for gauge, metric in TIME_GAUGES.items():
        values[metric] = None if gauges.get(gauge) is None else gauges[gauge] / 1e6
    values["operator_keys"] = totals.keys or None  # 0: no key
    if "latency" in counters:  # microseconds
        values["ranking_latency_seconds"] = counters["latency"] / 1e6
    if part.kind == REORDER:
        values["reorder_held_rows"] = counters.get("held")
        values["late_share"] = totals.late_share
    if totals.waits:
        values["reorder_wait_seconds_count"] = sum(totals.waits)
        *starts, everything = accumulate(totals.waits)
        for number, rows in enumerate(starts):
            end = str(FIRST_BIN_S * 2**number)
            yield Sample(METRICS["reorder_wait_seconds_bucket"], (*labels, end), rows)
        yield Sample(METRICS["reorder_wait_seconds_bucket"], (*labels, "+Inf"), everything)
    for metric, value in values.items():
        if value is not None:
            yield Sample(METRICS[metric], labels, float(value))
