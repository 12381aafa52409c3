"""Donor queries: the rows in a box, of 50,000, against SciPy's k-d tree and a bulk-loaded R-tree.

The R-tree is `rtree` (libspatialindex), loaded in bulk and queried in bulk; without that package,
its lines are left out. All must return the same rows, which is checked before anything is timed.
Queries are rows of the data, because incomplete objects resemble the repository.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from benchmarks.donor_index import DonorIndex
from benchmarks.harness import Row, fastest, row

ROWS, QUERIES, REPEATS = 50_000, 400, 5
CASES = [(2, 0.001), (2, 0.01), (4, 0.001), (4, 0.01), (6, 0.001), (6, 0.01), (10, 0.01)]
QUICK = {"CASES": [(2, 0.01)], "REPEATS": 1}


def correlated(n: int, d: int, seed: int) -> np.ndarray:
    """Draw points of [0, 1]**d whose attributes depend on each other, as in Ren et al. (2019)."""
    rng = np.random.default_rng(seed)
    points = rng.random((n, 1)) * 0.5 + rng.random((n, d)) * 0.5
    return np.ascontiguousarray(points)


def reach_for(points: np.ndarray, centres: np.ndarray, share: float) -> np.ndarray:
    """Return a reach of unequal sides that covers this share of the rows on average."""
    shape = np.linspace(0.7, 1.3, points.shape[1])
    low, high = 0.0, 2.0
    index = DonorIndex(points)
    for _ in range(20):
        middle = (low + high) / 2
        if index.count(centres, middle * shape).mean() < share * len(points):
            low = middle
        else:
            high = middle
    return high * shape


def timed(call: Callable[[], Any]) -> float:
    """Return the shortest of some runs, in microseconds per query."""
    return fastest(call, REPEATS, time.perf_counter) / QUERIES * 1e6


def bulk_rtree(points: np.ndarray) -> Any:
    """Return a bulk-loaded R-tree over points, or None without the package."""
    try:
        from rtree import index
    except ImportError:
        return None
    d = points.shape[1]
    numbers = np.arange(len(points))
    stream = (numbers, points, points)
    try:
        return index.Index(stream, properties=index.Property(dimension=d))
    except (TypeError, ValueError, RuntimeError):
        rows = ((i, (*p, *p), None) for i, p in enumerate(points.tolist()))
        return index.Index(rows, properties=index.Property(dimension=d))


def same_rows(mine: tuple[np.ndarray, np.ndarray], others: list[np.ndarray]) -> None:
    offsets, rows = mine
    for i, other in enumerate(others):
        found = np.sort(rows[offsets[i] : offsets[i + 1]])
        np.testing.assert_array_equal(found, np.sort(np.asarray(other, np.int64)))


def scan(points: np.ndarray, centres: np.ndarray, reach: np.ndarray) -> list[np.ndarray]:
    """Apply the definition in NumPy, one attribute at a time."""
    columns = np.ascontiguousarray(points.T)
    found = []
    for centre in centres:
        near = np.abs(columns[0] - centre[0]) <= reach[0]
        for a in range(1, len(reach)):
            near &= np.abs(columns[a] - centre[a]) <= reach[a]
        found.append(np.flatnonzero(near))
    return found


def case(d: int, share: float) -> list[Row]:
    points = correlated(ROWS, d, d)
    centres = points[np.random.default_rng(1).integers(0, ROWS, QUERIES)].copy()
    reach = reach_for(points, centres, share)
    setting = f"N = 50,000, d = {d}, {share:.1%}: µs"
    kd_goal, rtree_goal = (4.0, 10.0) if d <= 6 else (None, None)
    index = DonorIndex(points, reach)
    mine = index.query(centres, reach)
    same_rows(mine, scan(points, centres, reach))
    kd, scaled = cKDTree(points / reach), centres / reach

    def ball(**options: Any) -> Any:
        return kd.query_ball_point(scaled, 1.0, p=np.inf, return_sorted=False, **options)

    def near(found: int) -> bool:
        """Allow for rows at a box's edge, where scaled axes round differently."""
        return abs(found - mine[0][-1]) <= 1e-4 * mine[0][-1] + 2

    assert near(sum(map(len, ball())))
    ours = timed(lambda: index.query(centres, reach))
    counting = timed(lambda: index.count(centres, reach))
    peers = [
        ("donors, cKDTree p = inf", ours, ball, kd_goal),
        ("count only, cKDTree", counting, lambda: ball(return_length=True), None),
        ("donors, NumPy scan", ours, lambda: scan(points, centres, reach), None),
    ]
    tree = bulk_rtree(points)
    if tree is not None:
        low, high = centres - reach, centres + reach
        assert near(len(tree.intersection_v(low, high)[0]))
        bulk = lambda: tree.intersection_v(low, high)  # noqa: E731
        peers.append(("donors, bulk rtree", ours, bulk, rtree_goal))
    timings = [(name, own, timed(call), goal) for name, own, call, goal in peers]
    return [row(name, setting, own, it, it / own, least=goal) for name, own, it, goal in timings]


def run() -> list[Row]:
    return [found for d, share in CASES for found in case(d, share)]
