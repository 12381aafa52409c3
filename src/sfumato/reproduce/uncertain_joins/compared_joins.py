"""B's two algorithms and the library's join on the same streams: same answers, and their times."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from sfumato.operators.joins.similarity_join import SimilarityJoin
from sfumato.reproduce.repeats import seconds, timed
from sfumato.reproduce.uncertain_joins.uncertain_objects import Streams
from sfumato.reproduce.uncertain_joins.wop_and_grid import (
    ANSWERS,
    BY_OBJECT,
    BY_SAMPLE,
    PAIRS,
    grid_join,
    scan_join,
)
from sfumato.windows import Rows

METHODS = ("Grid", "WoP", "ours (index)")
CELLS = {1: 500, 2: 24, 3: 10, 4: 6, 5: 4}  # a dimension: about as many cells as objects


def share(alpha: float, pair: Streams) -> float:
    """A threshold just below alpha, so that rounding does not decide where Pr is alpha exactly."""
    return alpha - 0.5 / pair.x.shape[2] ** 2


def grid(pair: Streams, begin: int, rows: int, within: float, alpha: float, n: int) -> Any:
    """Grid's answers and counts over n timestamps from `begin` on, and its seconds for each."""
    low = np.zeros(pair.dimensions)
    cells = CELLS[pair.dimensions]
    side = np.full(pair.dimensions, 1.0 / cells)

    def run(end: int) -> Any:
        x, y, least = pair.x[:end], pair.y[:end], share(alpha, pair)
        return grid_join(x, y, rows, begin, within, within**2, least, low, side, cells)

    result = run(begin + n)  # compiled by now, or read from the cache
    return *result, (
        seconds(partial(run, begin + n), tries=2) - seconds(partial(run, begin), tries=2)
    ) / n


def scan(pair: Streams, begin: int, rows: int, within: float, alpha: float, n: int) -> Any:
    """WoP's answers over n timestamps, and its seconds for each."""

    def run(end: int) -> Any:
        x, y = pair.x[:end], pair.y[:end]
        return scan_join(x, y, rows, begin, within**2, share(alpha, pair))

    run(begin)
    return run(begin + n), seconds(partial(run, begin + n), tries=2) / n


def ours(pair: Streams, begin: int, rows: int, within: float, alpha: float, n: int) -> Any:
    """How many answers the library's join finds over n timestamps, and its seconds for each."""
    join = SimilarityJoin(
        pair.dimensions,
        within,
        share(alpha, pair),
        Rows(rows, 1.0),
        strategy="index",
        alternatives=False,
    )
    join.process(pair.arrivals(begin - rows, begin))
    full, arrivals, times = join.snapshot(), pair.arrivals(begin, begin + n), []
    for _ in range(2):
        join = SimilarityJoin.restore(full)
        answers, spent = timed(partial(join.process, arrivals))
        times.append(spent)
    return len(answers), min(times) / n


def compared(
    pair: Streams, begin: int, rows: int, within: float, alpha: float, n: int, scanned: int
) -> list[dict[str, Any]]:
    """A row for each method, over n timestamps from `begin` on (`scanned` for WoP).

    Raises RuntimeError if they do not find the same answers.
    """
    found, counts, by_grid = grid(pair, begin, rows, within, alpha, n)
    all_found, by_scan = scan(pair, begin, rows, within, alpha, scanned)
    number, by_us = ours(pair, begin, rows, within, alpha, n)
    first = {tuple(row) for row in found.tolist() if row[0] < 2 * (begin + scanned)}
    if number != len(found) or first != {tuple(row) for row in all_found.tolist()}:
        raise RuntimeError("Grid, WoP and the library's join found different answers")
    about = {
        "selectivity": counts[ANSWERS] / counts[PAIRS],
        "pruned": (counts[BY_OBJECT] + counts[BY_SAMPLE]) / counts[PAIRS],
        "distance": within,
    }
    times = zip(METHODS, (by_grid, by_scan, by_us), strict=True)
    return [{"method": m, "timestamp_seconds": t, **about} for m, t in times]
