"""Similarity join against straightforward C++ of the papers: nested loops, Grid, sorted samples.

Every arrival counts: samples in, windows kept, answers out, through the public operator. Before
anything is timed, both sides' answers are compared.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness import fastest, row
from peers.build import load
from sfumato.operators.joins.similarity_join import Arrivals, SimilarityJoin
from sfumato.windows import Rows

NESTED, NESTED_SIMD, GRID, SORTED = range(4)
PEERS = ("C++ nested", "C++ nested, SIMD", "C++ index", "C++ sort")
SLOW = (NESTED, NESTED_SIMD)
REPEATS = 9

Join = tuple[SimilarityJoin, Arrivals]


@dataclass(frozen=True)
class Setting:
    """One case: a stream of `arrivals` tuples, its join, the goal for each peer (None: none)."""

    name: str
    arrivals: Arrivals
    within: float
    probability: float
    rows: int
    goals: dict[int, float | None]
    warm_up: int  # arrivals that fill the windows, untimed
    cell: float  # side of C++ index's cells: the best of those tried


def uniform_stream(
    n: int, dimensions: int, samples: int, extent: float, noise: float, seed: int
) -> Arrivals:
    """Tuples with centres anywhere in a cube, and equally probable samples around them."""
    rng = np.random.default_rng(seed)
    centres = rng.uniform(0, extent, (n, 1, dimensions))
    if dimensions == 1:
        around = rng.normal(0, noise, (n, samples, 1))
    else:  # in a ball of radius noise/2 ... noise, as B's data sets
        direction = rng.normal(size=(n, samples, dimensions))
        direction /= np.linalg.norm(direction, axis=2, keepdims=True)
        length = rng.random((n, samples, 1)) ** (1 / dimensions)
        around = direction * length * rng.uniform(noise / 2, noise, (n, 1, 1))
    return Arrivals(
        side=(np.arange(n) % 2).astype(np.uint8),
        key=np.zeros(n, np.int64),
        offsets=np.arange(n + 1) * samples,
        prob=np.full(n * samples, 1 / samples),
        points=np.ascontiguousarray((centres + around).reshape(-1, dimensions)),
    )


def settings() -> list[Setting]:
    """The cases with goals, and harder ones without."""
    return [
        Setting(
            "1-D, 10 samples, w = 1,000",
            uniform_stream(40_000, 1, 10, 6000.0, 1.0, 1),
            within=1.5,
            probability=0.5,
            rows=1000,
            goals={NESTED: 80.0, NESTED_SIMD: None, GRID: 1.5, SORTED: 4.0},
            warm_up=2000,
            cell=4.0,
        ),
        Setting(
            "3-D, 100 samples, w = 2,000",
            uniform_stream(6000, 3, 100, 100.0, 5.0, 2),
            within=9.0,
            probability=0.49995,
            rows=2000,
            goals={NESTED: 500.0, NESTED_SIMD: None, GRID: 2.5},
            warm_up=4000,
            cell=20.0,
        ),
        Setting(
            "certain 2-D points, w = 1,000",
            uniform_stream(40_000, 2, 1, 100.0, 1.0, 3),
            within=2.0,
            probability=0.5,
            rows=1000,
            goals={NESTED: None, GRID: None},
            warm_up=2000,
            cell=2.0,
        ),
    ]


def peer(
    setting: Setting, kind: int, arrivals: Arrivals, samples: bool = False
) -> Callable[[], tuple[np.ndarray, ...]]:
    """A call of a peer that returns (arrival, held, probability) of arrivals after the warm-up."""
    library = load("join")
    library.join.restype = ctypes.c_int64
    n = arrivals.side.size
    room = 40 * n
    out = (np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room))
    arrays = (arrivals.side, arrivals.offsets, arrivals.prob, arrivals.points)

    def call() -> tuple[np.ndarray, ...]:
        count = library.join(
            ctypes.c_int(kind),
            ctypes.c_int64(n),
            *(ctypes.c_void_p(array.ctypes.data) for array in arrays),
            ctypes.c_int(arrivals.points.shape[1]),
            ctypes.c_double(setting.within),
            ctypes.c_double(setting.probability),
            ctypes.c_int64(setting.rows),
            ctypes.c_int64(setting.warm_up),
            ctypes.c_double(setting.cell),
            ctypes.c_int(samples),
            *(ctypes.c_void_p(array.ctypes.data) for array in out),
        )
        return tuple(array[:count] for array in out)

    return call


def ours(setting: Setting, n: int, samples: bool = False, strategy: str = "auto") -> Join:
    """An operator that has taken the warm-up, and the arrivals after it up to n."""
    join = SimilarityJoin(
        setting.arrivals.points.shape[1],
        setting.within,
        setting.probability,
        Rows(setting.rows),
        strategy=strategy,
        alternatives=samples,
    )
    join.process(part(setting.arrivals, 0, setting.warm_up))
    return join, part(setting.arrivals, setting.warm_up, n)


def part(arrivals: Arrivals, begin: int, end: int) -> Arrivals:
    """Some consecutive arrivals."""
    samples = slice(arrivals.offsets[begin], arrivals.offsets[end])
    return Arrivals(
        arrivals.side[begin:end],
        arrivals.key[begin:end],
        arrivals.offsets[begin : end + 1] - arrivals.offsets[begin],
        arrivals.prob[samples],
        arrivals.points[samples],
    )


def our_time(setting: Setting, n: int, samples: bool = False, strategy: str = "auto") -> float:
    """Seconds an arrival, the best of some runs, all in one batch."""
    times = []
    for _ in range(REPEATS):
        join, arrivals = ours(setting, n, samples, strategy)
        times.append(fastest(lambda join=join, arrivals=arrivals: join.process(arrivals), 1))
    return min(times) / (n - setting.warm_up)


def peer_time(setting: Setting, kind: int, n: int, samples: bool = False) -> float:
    """Seconds an arrival: the whole stream less its warm-up, the best of some runs."""
    repeats = 1 if kind in SLOW else REPEATS
    whole = peer(setting, kind, part(setting.arrivals, 0, n), samples)
    warm = peer(setting, kind, part(setting.arrivals, 0, setting.warm_up), samples)
    times = [fastest(call, repeats) for call in (whole, warm)]
    return (times[0] - times[1]) / (n - setting.warm_up)


def check(setting: Setting, kind: int, n: int) -> float:
    """Compare all answers with a peer's; the answers an arrival. Raises AssertionError."""
    arrival, held, probability = peer(setting, kind, part(setting.arrivals, 0, n))()
    order = np.lexsort([held, arrival])
    join, arrivals = ours(setting, n)
    answers = join.process(arrivals)
    other = np.where(arrivals.side[answers.arrival] == 0, answers.right, answers.left)
    same = np.array_equal(answers.arrival + setting.warm_up, arrival[order]) and np.array_equal(
        2 * other + (arrivals.side[answers.arrival] == 0), held[order]
    )
    assert same, f"{setting.name}: other answers than {PEERS[kind]}"
    assert np.allclose(answers.probability, probability[order], rtol=0, atol=1e-9)
    return len(answers) / (n - setting.warm_up)


def compare(setting: Setting, samples: bool) -> list[dict[str, Any]]:
    """One row for each peer of a setting; ours is timed before and after each of them."""
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
                f"{setting.name}, {answers:.2f} answers an arrival",
                f"{mine * 1e6:.2f} µs",
                f"{PEERS[kind]} {theirs * 1e6:.2f} µs",
                theirs / mine,
                least=None if samples else goal,  # the goals are for pairs and probabilities
            )
        )
    return rows


def run() -> list[dict[str, Any]]:
    """Rows (name, setting, ours, peer, ratio, goal, met); times are per arrival."""
    return [
        found
        for samples in (False, True)
        for setting in settings()
        for found in compare(setting, samples)
    ]
