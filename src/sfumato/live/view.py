"""The content of the page: the state of each query, as JSON values."""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sfumato.metrics.anomalies import anomalies
from sfumato.metrics.history import Point, merge_neighbours, quantiles
from sfumato.metrics.progress import WAITS, PartTotals, late_and_rows
from sfumato.metrics.session_metrics import QueryMetrics, SessionMetrics, hide_secrets
from sfumato.reports import REORDER, OperatorPart

MAX_SHOWN = 240  # maximum number of points in a chart
SILENT_SECONDS = 60.0  # seconds without a micro-batch after which a query is silent


SHOWN = ("name", "active", "error", "batches", "rows_in", "rows_out", "held", "busy", "reported")


@dataclass(frozen=True)
class ResultRows:
    """The newest results. A cell is its text and, for a probability, the value, otherwise None."""

    columns: Sequence[str] = ()
    rows: Sequence[Sequence[tuple[str, float | None]]] = ()


@dataclass(frozen=True)
class About:
    """Facts about a query that are not metrics.

    sql, plan : its SQL, and the output of EXPLAIN     target : its target share of late rows
    answers : returns its newest results
    """

    sql: str = ""
    plan: str = ""
    target: float | None = None
    answers: Callable[[], ResultRows] = field(default=ResultRows)


def view(metrics: SessionMetrics, about: Mapping[str, About]) -> dict[str, Any]:
    """Return the state of all queries."""
    now = time.time()
    with metrics.locked():
        queries = []
        for query in metrics.queries():
            query.detect_stalls()
            queries.append(_query(query, about.get(query.name, About()), now))
    shown: dict[str, Any] = hide_secrets({"now": now, "queries": queries}, metrics.hide)
    return shown


def _query(query: QueryMetrics, about: About, now: float) -> dict[str, Any]:
    newest, answers, operators = query.newest, about.answers(), query.operators.values()
    late, of = late_and_rows(query.counters)
    return {
        **{name: getattr(query, name) for name in SHOWN},
        "late": late,
        "late_share": _share(late, of),
        "target": about.target,
        "lag": max(_seconds_of(operators, "lag"), default=None),
        "punctuation": min(_seconds_of(operators, "punctuation"), default=None),
        "waits": quantiles(totals.recent_waits.counts for totals in operators),
        "waited": max(_seconds_of(operators, "waited"), default=None),
        "seconds": None if newest is None else newest.seconds,
        "state": {} if newest is None else newest.state,
        "said": list(_messages(query, about.target, now)),
        "operators": [_operator(part, totals) for part, totals in query.operators.items()],
        "points": list(_points(query.points)),
        "answers": {
            "columns": list(answers.columns),
            "rows": [[list(cell) for cell in row] for row in answers.rows],
        },
        "sql": about.sql,
        "plan": about.plan,
    }


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _seconds_of(operators: Iterable[PartTotals], gauge: str) -> Iterator[float]:
    for totals in operators:
        if totals.gauges.get(gauge) is not None:
            yield totals.gauges[gauge] / 1e6


def _messages(query: QueryMetrics, target: float | None, now: float) -> Iterator[dict[str, Any]]:
    """Yield current problems, then anomalies of the totals, then messages, newest first."""
    has_run = query.active and query.reported is not None
    # The system clock may change.
    silent = time.monotonic() - query.reported_monotonic if has_run else 0.0
    if silent > SILENT_SECONDS:
        long = f"{silent / 60:.0f} minutes" if silent >= 90 else f"{silent:.0f} seconds"
        yield {"at": now, "text": f"no micro-batch for {long}: no source has delivered rows"}
    if query.error is not None:
        yield {"at": now, "text": f"failed: {query.error}"}
    for text in anomalies(query.counters, target):
        yield {"at": query.reported or now, "text": text}
    for at, text in reversed(query.messages):
        yield {"at": at, "text": text}


def _operator(part: OperatorPart, totals: PartTotals) -> dict[str, Any]:
    shown = {name: value for name, value in totals.gauges.items() if name != WAITS}
    runs = json.loads(shown.pop("timetable", None) or "[]")
    if part.kind == REORDER:
        for gauge in ("lag", "waited"):
            shown[gauge] = None if shown.get(gauge) is None else shown[gauge] / 1e6
    of_batches = totals.batch_totals
    compared = _share(of_batches.get("compared", 0), of_batches.get("opposite", 0))
    return {
        "name": part.operator,
        "side": part.side,
        "counts": totals.counters,
        "shown": shown,
        "keys": totals.keys,
        "waits": quantiles([totals.recent_waits.counts]),
        "late_share": totals.late_share,
        "pruned": None if compared is None else 1.0 - compared,
        "due": [{"at": at, "queries": queries} for at, queries in runs],
    }


def _points(points: Sequence[Point]) -> Iterator[dict[str, Any]]:
    """Yield at most MAX_SHOWN points with rates, by merging neighbours."""
    shown = merge_neighbours(points, max(1, -(-len(points) // MAX_SHOWN)))
    before = None
    for point in shown:
        if before is None and len(shown) > 1:
            before = point.at  # rates are between neighbouring points
            continue
        span = point.busy if before is None else max(point.at - before, 1e-3)
        yield {
            "at": point.at * 1000,
            "in": point.rows_in / span if span else 0.0,
            "out": point.rows_out / span if span else 0.0,
            "late": _share(point.late, point.late_of),
            "held": point.held,
            "lag": point.lag,
            "waits": quantiles([point.waits]),
            "memory": point.memory,
            "parts": {name: of / point.batches for name, of in point.parts.items()},
        }
        before = point.at
