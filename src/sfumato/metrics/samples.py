"""Every figure as a sample: a metric, the values of its labels, a number."""

from collections.abc import Iterator
from typing import NamedTuple

from sfumato.metrics import names
from sfumato.metrics.figures import Figures, QueryFigures, operator_of
from sfumato.metrics.names import Metric
from sfumato.metrics.progress import REORDER
from sfumato.metrics.waits import QUANTILES, quantile


class Sample(NamedTuple):
    """A value of a metric; `labels` in the order in which the metric names them."""

    metric: Metric
    labels: tuple[str, ...]
    value: float


def samples(figures: Figures) -> list[Sample]:
    """All figures as they are now, taken together."""
    with figures.locked():
        found = [sample for query in figures.queries() for sample in _of_query(query)]
    return [s._replace(labels=tuple(map(figures.hide, s.labels))) for s in found]


def _of_query(query: QueryFigures) -> Iterator[Sample]:
    name, progress, newest = query.name, query.progress, query.newest
    of_query = {
        names.ROWS_IN: progress.rows_in,
        names.ROWS_OUT: progress.rows_out,
        names.BATCHES: progress.batches,
        names.BUSY: query.busy,
        names.ACTIVE: query.active,
        names.FAILED: query.error is not None,
    }
    if newest is not None and query.reported is not None:
        of_query |= {
            names.LAST: newest.seconds,
            names.ENDED: query.reported,
            names.STATE_MEMORY: newest.state.get("memory", 0),
            names.STATE_DISK: newest.state.get("disk", 0),
            names.STATE_ROWS: newest.state.get("rows", 0),
        }
        for part, seconds in newest.parts.items():
            yield Sample(names.PART, (name, part), seconds)
    for metric, value in of_query.items():
        yield Sample(metric, (name,), float(value))
    for observed in progress.counters:
        yield from _of_operator(query, observed)


def _of_operator(query: QueryFigures, observed: str) -> Iterator[Sample]:
    operator = operator_of(observed)
    labels = (query.name, operator.name, operator.side)
    counts = query.progress.counters[observed]
    added = query.progress.added.get(observed, {})
    shown = query.gauges.get(observed, {})
    for counter, count in (counts | {n: of for n, of in added.items() if n != "new_keys"}).items():
        if operator.answers:
            yield Sample(names.answers(), (query.name, operator.name, counter), count)
        elif counter not in names.GATHERED:
            yield Sample(names.operator_counter(counter), labels, count)
    stands = {
        names.KEYS: query.progress.keys.get(observed) or None,  # 0: it has no key
        names.WINDOW_SIZE: shown.get("window_size"),
        names.WINDOW_ROWS: shown.get("window_rows"),
        names.DUE: None if shown.get("due") is None else shown["due"] / 1e6,
    }
    for metric, value in stands.items():
        if value is not None:
            yield Sample(metric, labels, value)
    if observed.startswith(REORDER):
        yield from _of_reorder(query, observed, labels)


def _of_reorder(query: QueryFigures, observed: str, labels: tuple[str, ...]) -> Iterator[Sample]:
    counts = query.progress.counters[observed]
    if "held" in counts:
        yield Sample(names.HELD, labels, counts["held"])
    share = query.late_share(observed)
    if share is not None:
        yield Sample(names.LATE_SHARE, labels, share)
    shown = query.gauges.get(observed, {})
    for key, metric in (
        ("lag", names.LAG),
        ("oldest", names.OLDEST),
        ("punctuation", names.PUNCTUATION),
        ("waited", names.WAITED),
    ):
        if shown.get(key) is not None:
            yield Sample(metric, labels, shown[key] / 1e6)
    if observed in query.waits:
        counts_of = query.waits[observed].counts
        for share in QUANTILES:
            seconds = quantile(counts_of, share)
            if seconds is not None:
                yield Sample(names.WAIT, (*labels, f"{share:g}"), seconds)
