"""Similarity join against plain C++ of the papers' methods: nested loops, Grid, sorted samples.

Times include the complete work per arrival, through the public operator: reading samples, updating
windows, returning answers. Before anything is timed, both sides' answers are compared.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.data.streams import in_ball
from benchmarks.harness import Row, fastest, row
from benchmarks.peers.build import peer
from sfumato.operators.joins.similarity_join import ArrivalBatch, SimilarityJoin
from sfumato.windows import Rows

NESTED, NESTED_SIMD, GRID, SORTED = range(4)
PEERS = ("C++ nested", "C++ nested, SIMD", "C++ index", "C++ sort")
SLOW = (NESTED, NESTED_SIMD)
REPEATS = 9
QUICK = {"REPEATS": 1}


@dataclass(frozen=True)
class Setting:
    """A stream of tuples, its join, and the goal for each peer (None: no goal).

    warm_up : arrivals that fill the windows, untimed
    cell : side of the C++ index's cells, the best of several
    """

    name: str
    arrivals: ArrivalBatch
    within: float
    probability: float
    rows: int
    goals: dict[int, float | None]
    warm_up: int
    cell: float


def uniform_stream(
    n: int, dimensions: int, samples: int, extent: float, noise: float, seed: int
) -> ArrivalBatch:
    """Draw tuples with centres in a cube, and equally probable samples around them."""
    rng = np.random.default_rng(seed)
    centres = rng.uniform(0, extent, (n, 1, dimensions))
    if dimensions == 1:
        around = rng.normal(0, noise, (n, samples, 1))
    else:  # in a ball of radius noise/2 ... noise, as in Lian and Chen (2009)
        around = in_ball(rng, n, samples, dimensions)
        around *= rng.uniform(noise / 2, noise, (n, 1, 1))
    return ArrivalBatch(
        side=(np.arange(n) % 2).astype(np.uint8),
        key=np.zeros(n, np.int64),
        offsets=np.arange(n + 1) * samples,
        prob=np.full(n * samples, 1 / samples),
        points=np.ascontiguousarray((centres + around).reshape(-1, dimensions)),
    )


def settings() -> list[Setting]:
    """Return the cases with goals, and a harder one without."""
    line, cube = (
        uniform_stream(40_000, 1, 10, 6000.0, 1.0, 1),
        uniform_stream(6000, 3, 100, 100.0, 5.0, 2),
    )
    points = uniform_stream(40_000, 2, 1, 100.0, 1.0, 3)
    slow: dict[int, float | None] = {NESTED: 80.0, NESTED_SIMD: None, GRID: 1.5, SORTED: 4.0}
    many: dict[int, float | None] = {NESTED: 500.0, NESTED_SIMD: None, GRID: 2.5}
    none: dict[int, float | None] = {NESTED: None, GRID: None}
    return [
        Setting("1-D, 10 samples, w = 1,000", line, 1.5, 0.5, 1000, slow, 2000, 4.0),
        Setting("3-D, 100 samples, w = 2,000", cube, 9.0, 0.49995, 2000, many, 4000, 20.0),
        Setting("certain 2-D points, w = 1,000", points, 2.0, 0.5, 1000, none, 2000, 2.0),
    ]


def peer_join(
    setting: Setting, kind: int, n: int, samples: bool = False
) -> tuple[Callable, tuple[np.ndarray, ...]]:
    """Return a peer's join of n arrivals, and the arrays that it fills: (arrival, held, Pr)."""
    of = setting.arrivals.part(0, n)
    out = (np.empty(40 * n, np.int64), np.empty(40 * n, np.int64), np.empty(40 * n))
    points = of.offsets, of.prob, of.points, of.points.shape[1]
    how = setting.within, setting.probability, setting.rows, setting.warm_up, setting.cell
    return peer("join", "join", kind, n, of.side, *points, *how, samples, *out), out


def our_join(
    setting: Setting, n: int, samples: bool = False
) -> tuple[SimilarityJoin, ArrivalBatch]:
    """Return an operator after its warm-up, and the following arrivals up to n."""
    dimensions = setting.arrivals.points.shape[1]
    window = Rows(setting.rows)
    join = SimilarityJoin(
        dimensions, setting.within, setting.probability, window, alternatives=samples
    )
    join.process(setting.arrivals.part(0, setting.warm_up))
    return join, setting.arrivals.part(setting.warm_up, n)


def our_time(setting: Setting, n: int, samples: bool) -> float:
    """Return seconds per arrival, the best of some runs, all in one batch."""
    best = fastest(
        lambda of: of[0].process(of[1]), REPEATS, prepare=lambda: our_join(setting, n, samples)
    )
    return best / (n - setting.warm_up)


def peer_time(setting: Setting, kind: int, n: int, samples: bool) -> float:
    """Return seconds per arrival: the whole stream less its warm-up, the best of some runs."""
    repeats = 1 if kind in SLOW else REPEATS
    whole, warm = (
        fastest(peer_join(setting, kind, rows, samples)[0], repeats)
        for rows in (n, setting.warm_up)
    )
    return (whole - warm) / (n - setting.warm_up)


def check(setting: Setting, kind: int, n: int) -> float:
    """Compare all answers with a peer's, and return the answers per arrival."""
    call, found = peer_join(setting, kind, n)
    count = call()
    arrival, held, probability = (array[:count] for array in found)
    order = np.lexsort([held, arrival])
    join, arrivals = our_join(setting, n)
    answers = join.process(arrivals)
    left = arrivals.side[answers.arrival] == 0
    other = np.where(left, answers.right, answers.left)
    same = np.array_equal(answers.arrival + setting.warm_up, arrival[order]) and np.array_equal(
        2 * other + left, held[order]
    )
    assert same, f"{setting.name}: the answers differ from {PEERS[kind]}"
    assert np.allclose(answers.probability, probability[order], rtol=0, atol=1e-9)
    return len(answers) / (n - setting.warm_up)


def compare(setting: Setting, samples: bool) -> list[Row]:
    """Return one row per peer of a setting; ours is timed before and after each of them."""
    whole = setting.arrivals.side.size
    rows = []
    for kind, goal in setting.goals.items():
        n = setting.warm_up + 100 if kind in SLOW else whole
        answers = check(setting, kind, n)
        before = our_time(setting, whole, samples)
        theirs = peer_time(setting, kind, n, samples)
        mine = min(before, our_time(setting, whole, samples))
        rows.append(
            row(
                "similarity join" + (", with sample pairs" if samples else ""),
                f"{setting.name}, {answers:.2f} answers per arrival",
                f"{mine * 1e6:.2f} µs",
                f"{PEERS[kind]} {theirs * 1e6:.2f} µs",
                theirs / mine,
                least=None if samples else goal,  # the goals are for pairs and probabilities
            )
        )
    return rows


def run() -> list[Row]:
    """Return the rows; times are per arrival."""
    return [
        found
        for samples in (False, True)
        for setting in settings()
        for found in compare(setting, samples)
    ]
