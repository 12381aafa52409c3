"""Times of Lian and Chen's two algorithms and the library's join on the same streams."""

from functools import partial
from typing import Any

from experiments.repeats import seconds, timed
from experiments.uncertain_joins.uncertain_objects import Streams
from experiments.uncertain_joins.wop_and_grid import Matching, grid_join, scan_join
from sfumato.operators.joins.similarity_join import SimilarityJoin
from sfumato.windows import Rows

METHODS = ("Grid", "WoP", "ours (index)")
CELLS = {1: 500, 2: 24, 3: 10, 4: 6, 5: 4}  # per dimension: about one cell per object


def matching(pair: Streams, begin: int, rows: int, within: float, alpha: float) -> Matching:
    """Match pairs of probability alpha, with a margin for rounding where it is exactly alpha."""
    return Matching(rows, begin, within, alpha - 0.5 / pair.x.shape[2] ** 2)


def grid(pair: Streams, matching: Matching, n: int) -> Any:
    """Return Grid's answers and counts over n timestamps from `begin`, and seconds for each."""

    def run(end: int) -> Any:
        return grid_join(pair.x[:end], pair.y[:end], matching, CELLS[pair.dimensions])

    before, end = partial(run, matching.begin), partial(run, matching.begin + n)
    result = end()  # compiled or read from the cache
    return *result, (seconds(end, tries=2) - seconds(before, tries=2)) / n


def scan(pair: Streams, matching: Matching, n: int) -> Any:
    """Return WoP's answers over n timestamps, and seconds per timestamp."""

    def run(end: int) -> Any:
        return scan_join(pair.x[:end], pair.y[:end], matching)

    run(matching.begin)
    end = partial(run, matching.begin + n)
    return end(), seconds(end, tries=2) / n


def ours(pair: Streams, matching: Matching, n: int) -> Any:
    """Return the number of the library's answers over n timestamps, and seconds per timestamp."""
    rows, begin, within, share = matching
    options: dict[str, Any] = {"strategy": "index", "alternatives": False}
    join = SimilarityJoin(pair.dimensions, within, share, Rows(rows, 1.0), **options)
    join.process(pair.arrivals(begin - rows, begin))
    full, arrivals, times = join.snapshot(), pair.arrivals(begin, begin + n), []
    for _ in range(2):
        join = SimilarityJoin.restore(full)
        answers, spent = timed(partial(join.process, arrivals))
        times.append(spent)
    return len(answers), min(times) / n


def compared(pair: Streams, matching: Matching, n: int, scanned: int) -> list[dict[str, Any]]:
    """Return a row per method, over n timestamps starting at `begin` (`scanned` for WoP)."""
    found, counts, by_grid = grid(pair, matching, n)
    all_found, by_scan = scan(pair, matching, scanned)
    number, by_us = ours(pair, matching, n)
    first = {tuple(row) for row in found.tolist() if row[0] < 2 * (matching.begin + scanned)}
    if number != len(found) or first != {tuple(row) for row in all_found.tolist()}:
        raise RuntimeError("Grid, WoP and the library's join found different answers")
    about = {
        "selectivity": counts.answers / counts.pairs,
        "pruned": (counts.by_object + counts.by_sample) / counts.pairs,
        "distance": matching.within,
    }
    times = zip(METHODS, (by_grid, by_scan, by_us), strict=True)
    return [{"method": m, "timestamp_seconds": t, **about} for m, t in times]
