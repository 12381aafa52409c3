"""Aggregates over overlapping time extents: against tumbling extents and recomputation.

Overlap costs little where panes are shared: with ten extents over each row, the same stream may
take at most twice the time it takes without overlap. The C++ peers compute every extent from the
start, over rows that are already in arrays; ours also sorts, stores and counts. Plain sums, at a
nanosecond per row and extent, are therefore the peer's best case and our worst.
"""

import numpy as np

from benchmarks.harness import Row, in_turns, nanoseconds, row
from benchmarks.peers.build import peer
from sfumato.operators.distributions.aggregate import Aggregate
from sfumato.operators.windows.extent_aggregate import ExtentAggregate

ROWS = 200_000
IN_EXTENT = 1_000  # rows
BATCH = 20_000
REPEATS = 3
PEER_ROWS = {"sum": ROWS, "avg": 20_000, "max": ROWS}
GOALS = {"sum": None, "avg": 5.0, "max": 1.0}  # against the peer at overlap 10
QUICK = {"ROWS": 20_000, "PEER_ROWS": dict.fromkeys(GOALS, 5_000), "REPEATS": 1}


def run() -> list[Row]:
    rows = [
        overlap_row(function, certain, groups)
        for function in GOALS
        for certain in (True, False)
        for groups in (1, 10)
    ]
    for overlap in (10, 100):
        rows += [recompute_row(f, overlap, g if overlap == 10 else None) for f, g in GOALS.items()]
    return rows


def stream(certain: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Build (event time, existence, value): one row every 10 microseconds, on average."""
    rng = np.random.default_rng(5)
    times = np.sort(rng.integers(0, 10 * ROWS, ROWS))
    noise = np.minimum(np.abs(rng.normal(0.0, 0.1, ROWS)), 0.99)
    existence = np.ones(ROWS) if certain else 1.0 - noise
    return times, existence, rng.normal(20.0, 3.0, ROWS)


def ours(function: str, overlap: int, data: tuple, rows: int, groups: int = 1) -> list:
    """Return the extents of all calls except the flush, which the peers leave out too."""
    times, existence, values = data
    length = 10 * IN_EXTENT * groups
    window = ExtentAggregate(length, length // overlap, [Aggregate(function, 0)])
    group = np.arange(rows) % groups
    parts = []
    for low in range(0, rows, BATCH):
        cut = slice(low, min(low + BATCH, rows))
        n = cut.stop - low
        scope, offsets = np.zeros(n, np.int64), np.arange(n + 1)
        arrivals = (offsets, existence[cut], values[cut, None])
        parts.append(window.process(group[cut], times[cut], None, None, *arrivals, scope=scope))
    return parts


def overlap_row(function: str, certain: bool, groups: int) -> Row:
    data = stream(certain)
    calls = {
        "tumbling": lambda _: ours(function, 1, data, ROWS, groups),
        "overlapping": lambda _: ours(function, 10, data, ROWS, groups),
    }
    seconds, _ = in_turns(calls, REPEATS)
    mine, theirs = seconds["overlapping"] / ROWS, seconds["tumbling"] / ROWS
    kind = "certain" if certain else "existence near 1"
    setting = f"{function}, {kind}, {groups} group{'s' if groups > 1 else ''}"
    times = nanoseconds(mine), nanoseconds(theirs)
    return row("extents, 10 x overlap / tumbling", setting, *times, mine / theirs, most=2)


def recompute_row(function: str, overlap: int, goal: float | None) -> Row:
    data, rows, length = stream(False), PEER_ROWS[function], 10 * IN_EXTENT
    extents = np.empty((2, 2 * overlap * (rows // IN_EXTENT + 2)))  # mean and standard deviation
    recomputed = peer(
        "extents", f"{function}_extents", *data, rows, length, length // overlap, *extents
    )
    calls = {
        "ours": lambda _: ours(function, overlap, data, rows),
        "peer": lambda _: recomputed(),
    }
    seconds, found = in_turns(calls, REPEATS)
    results = [part.results[0] for part in found["ours"]]
    moments = np.concatenate([[of.mean, of.stddev] for of in results], axis=1)
    np.testing.assert_allclose(moments, extents[:, : found["peer"]], rtol=1e-7)
    mine, theirs = seconds["ours"] / rows, seconds["peer"] / rows
    setting = f"{function}, existence near 1, {overlap} x overlap"
    times = nanoseconds(mine), nanoseconds(theirs)
    return row("extents / C++ recomputing each extent", setting, *times, theirs / mine, least=goal)
