"""What the page shows of each query, as JSON values."""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from sfumato.live.oddities import oddities
from sfumato.metrics.figures import Figures, QueryFigures, hidden_in, operator_of
from sfumato.metrics.history import Point
from sfumato.metrics.progress import REORDER, WAITS, late_and_rows
from sfumato.metrics.waits import QUANTILES, quantile, together

SHOWN = 240  # points of a chart
SILENT = 60.0  # seconds without a micro-batch, until it is said


@dataclass(frozen=True)
class Answers:
    """The newest answers: for each row and column a text, and a share from 0 to 1 or None."""

    columns: Sequence[str] = ()
    rows: Sequence[Sequence[tuple[str, float | None]]] = ()


@dataclass(frozen=True)
class About:
    """What is known of a query beside its figures.

    sql, plan : its text, and what EXPLAIN says    target : the late share that is wanted
    answers : gives its newest ones
    """

    sql: str = ""
    plan: str = ""
    target: float | None = None
    answers: Callable[[], Answers] = field(default=Answers)


def view(figures: Figures, about: Mapping[str, About], now: float | None = None) -> dict[str, Any]:
    """All queries as they are. now : seconds since 1970; None: the clock's"""
    passed, now = now, time.time() if now is None else now
    with figures.locked():
        queries = []
        for query in figures.queries():
            query.look()
            queries.append(_query(query, about.get(query.name, About()), now, passed))
    shown: dict[str, Any] = hidden_in({"now": now, "queries": queries}, figures.hide)
    return shown


def _query(query: QueryFigures, about: About, now: float, passed: float | None) -> dict[str, Any]:
    progress, newest = query.progress, query.newest
    answers = about.answers()
    return {
        "name": query.name,
        "active": query.active,
        "error": query.error,
        "batches": progress.batches,
        "rows_in": progress.rows_in,
        "rows_out": progress.rows_out,
        "late": progress.total("late"),
        "late_share": _share(*late_and_rows(progress.counters)),
        "target": about.target,
        "held": progress.held,
        "lag": _most(query, "lag"),
        "punctuation": _least(query, "punctuation"),
        "waits": _quantiles(reduce(together, (w.counts for w in query.waits.values()), [])),
        "waited": _most(query, "waited"),
        "seconds": None if newest is None else newest.seconds,
        "busy": query.busy,
        "state": {} if newest is None else newest.state,
        "reported": query.reported,
        "said": _said(query, about.target, now, passed),
        "operators": _operators(query),
        "points": _points(query.history.points),
        "answers": {
            "columns": list(answers.columns),
            "rows": [[list(cell) for cell in row] for row in answers.rows],
        },
        "sql": about.sql,
        "plan": about.plan,
    }


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _most(query: QueryFigures, gauge: str) -> float | None:
    """Seconds, over the reorders."""
    return max(_shown(query, gauge), default=None)


def _least(query: QueryFigures, gauge: str) -> float | None:
    return min(_shown(query, gauge), default=None)


def _shown(query: QueryFigures, gauge: str) -> Iterator[float]:
    for shown in query.gauges.values():
        if shown.get(gauge) is not None:
            yield shown[gauge] / 1e6


def _quantiles(waits: Sequence[int]) -> list[float | None]:
    """Seconds: of rows that came out the median and the 99% quantile of how long they were held."""
    return [quantile(waits, share) for share in QUANTILES]


def _said(
    query: QueryFigures, target: float | None, now: float, passed: float | None
) -> list[dict[str, Any]]:
    """What is out of the ordinary, the newest first."""
    at_last = query.reported or now
    said = [{"at": at_last, "text": t} for t in oddities(query.progress.counters, target)]
    said += [{"at": at, "text": text} for at, text in reversed(query.said)]
    if query.error is not None:
        said.insert(0, {"at": now, "text": f"failed: {query.error}"})
    silent = 0.0
    if query.reported is not None and query.active:  # the machine's clock may have been set since
        silent = time.monotonic() - query.heard if passed is None else passed - query.reported
    if silent > SILENT:
        text = f"no micro-batch for {_long(silent)}: no source has had rows"
        said.insert(0, {"at": now, "text": text})
    return said


def _long(seconds: float) -> str:
    return f"{seconds / 60:.0f} minutes" if seconds >= 90 else f"{seconds:.0f} seconds"


def _operators(query: QueryFigures) -> list[dict[str, Any]]:
    """Each operator with what it counted and how it stands."""
    found = []
    for metric, counts in query.progress.counters.items():
        operator = operator_of(metric)
        shown = dict(query.gauges.get(metric, {}))
        if metric.startswith(REORDER):
            for gauge in ("lag", "waited"):
                shown[gauge] = None if shown.get(gauge) is None else shown[gauge] / 1e6
        shown.pop(WAITS, None)
        waits = query.waits.get(metric)
        found.append(
            {
                "keys": query.progress.keys.get(metric),
                "waits": _quantiles(waits.counts if waits else []),
                "pruned": _pruned(query.progress.added.get(metric, {})),
                "due": _due(shown.pop("timetable", None)),
                "name": operator.name,
                "side": "answers" if operator.answers else operator.side,
                "counts": counts,
                "shown": shown,
                "late_share": query.late_share(metric),
            }
        )
    return found


def _pruned(added: Mapping[str, int]) -> float | None:
    """Of the pairs of an arrival and a tuple held opposite, the share that was not compared."""
    share = _share(added.get("compared", 0), added.get("opposite", 0))
    return None if share is None else 1.0 - share


def _due(timetable: str | None) -> list[dict[str, Any]]:
    """The next runs of a ranking: when, and the names of its queries."""
    runs = [] if timetable is None else json.loads(timetable)
    return [{"at": at, "queries": queries} for at, queries in runs]


def _points(points: Sequence[Point]) -> list[dict[str, Any]]:
    """At most SHOWN points with rates; neighbours are put together where there are more."""
    step = -(-len(points) // SHOWN)
    joined = [_joined(points[i : i + step]) for i in range(0, len(points), step or 1)]
    found: list[dict[str, Any]] = []
    before = None
    for point in joined:
        if before is None and len(joined) > 1:
            before = point.at  # rates are from one point to the next
            continue
        span = point.busy if before is None else max(point.at - before, 1e-3)
        found.append(
            {
                "at": point.at * 1000,
                "in": point.rows_in / span if span else 0.0,
                "out": point.rows_out / span if span else 0.0,
                "late": _share(point.late, point.late_of),
                "held": point.held,
                "lag": point.lag,
                "waits": _quantiles(point.waits),
                "memory": point.memory,
                "parts": {name: of / point.batches for name, of in point.parts.items()},
            }
        )
        before = point.at
    return found


def _joined(points: Sequence[Point]) -> Point:
    first, *others = points
    for other in others:
        first = first.then(other)
    return first
