"""Similarity join against straightforward C++ of the papers: nested loops, Grid, sorted samples.

Every arrival counts: samples in, windows kept, answers out, through the public operator. Before
anything is timed, both sides' answers are compared.
"""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from peers.build import load  # noqa: E402

from sfumato.operators.similarity_join import Answers, Arrivals, SimilarityJoin  # noqa: E402

NESTED, NESTED_SIMD, GRID, SORTED = range(4)
PEERS = ("C++ nested", "C++ nested, SIMD", "C++ index", "C++ sort")
REPEATS = 5


@dataclass(frozen=True)
class Setting:
    """One case: a stream of `arrivals` tuples, its join, the goal for each peer (None: none)."""

    name: str
    arrivals: Arrivals
    within: float
    probability: float
    rows: int
    goals: dict[int, float | None]
    warm_up: int  # arrivals that fill the windows, for the peers that get only a part of the stream


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
            uniform_stream(40_000, 1, 10, 1000.0, 1.0, 1),
            within=1.5,
            probability=0.5,
            rows=1000,
            goals={NESTED: 80.0, NESTED_SIMD: None, GRID: 1.5, SORTED: 4.0},
            warm_up=2000,
        ),
        Setting(
            "3-D, 100 samples, w = 2,000",
            uniform_stream(6000, 3, 100, 100.0, 10.0, 2),
            within=9.0,
            probability=0.5,
            rows=2000,
            goals={NESTED: 500.0, NESTED_SIMD: None, GRID: 2.5},
            warm_up=4000,
        ),
        Setting(
            "certain 2-D points, w = 1,000",
            uniform_stream(40_000, 2, 1, 100.0, 1.0, 3),
            within=2.0,
            probability=0.5,
            rows=1000,
            goals={NESTED: None, GRID: None},
            warm_up=2000,
        ),
    ]


def peer(setting: Setting, kind: int, arrivals: Arrivals, samples: bool) -> Callable[[], Any]:
    """A call of a peer that returns (arrival, held, probability)."""
    library = load("join")
    library.join.restype = ctypes.c_int64
    n = arrivals.side.size
    room = 40 * n
    out = (np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room))
    # Cells about as wide as a search reaches: the usual choice, and the best of those tried here.
    d = arrivals.points.shape[1]
    reach = setting.within + (2.0 if d == 1 else 7.5 if arrivals.prob.size > n else 0.0)
    arrays = (arrivals.side, arrivals.offsets, arrivals.prob, arrivals.points)

    def call() -> tuple[np.ndarray, ...]:
        count = library.join(
            ctypes.c_int(kind),
            ctypes.c_int64(n),
            *(ctypes.c_void_p(array.ctypes.data) for array in arrays),
            ctypes.c_int(d),
            ctypes.c_double(setting.within),
            ctypes.c_double(setting.probability),
            ctypes.c_int64(setting.rows),
            ctypes.c_double(reach),
            ctypes.c_int(samples),
            *(ctypes.c_void_p(array.ctypes.data) for array in out),
        )
        return tuple(array[:count] for array in out)

    return call


def ours(setting: Setting, arrivals: Arrivals, samples: bool, strategy: str = "auto") -> Answers:
    """All arrivals through a new operator, in batches of 10,000."""
    join = SimilarityJoin(
        arrivals.points.shape[1],
        setting.within,
        setting.probability,
        setting.rows,
        0.95,
        strategy=strategy,
        alternatives=samples,
    )
    return join.process(arrivals)


def part(arrivals: Arrivals, n: int) -> Arrivals:
    """The first n arrivals."""
    m = arrivals.offsets[n]
    return Arrivals(
        arrivals.side[:n],
        arrivals.key[:n],
        arrivals.offsets[: n + 1],
        arrivals.prob[:m],
        arrivals.points[:m],
    )


def seconds(call: Callable[[], Any], repeats: int = REPEATS) -> float:
    """The shortest of some runs."""
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return min(times)


def per_arrival(run: Callable[[int], Callable[[], Any]], warm: int, n: int, repeats: int) -> float:
    """Seconds an arrival with full windows: n arrivals less the first `warm` of them."""
    return (seconds(run(n), repeats) - seconds(run(warm), repeats)) / (n - warm)


def check(setting: Setting, kind: int, arrivals: Arrivals) -> float:
    """Compare answers with a peer's; the answers an arrival. Raises AssertionError."""
    arrival, held, probability = peer(setting, kind, arrivals, False)()
    order = np.lexsort([held, arrival])
    answers = ours(setting, arrivals, False)
    number = held // 2  # the sides alternate
    on_left = arrivals.side[answers.arrival] == 0
    other = np.where(on_left, answers.right, answers.left)
    assert np.array_equal(answers.arrival, arrival[order]), f"{setting.name}: {PEERS[kind]} differs"
    assert np.array_equal(other, number[order]), f"{setting.name}: {PEERS[kind]} differs"
    assert np.allclose(answers.probability, probability[order], rtol=0, atol=1e-9)
    return len(answers) / arrivals.side.size


def compare(setting: Setting, samples: bool) -> list[dict[str, Any]]:
    """One row for each peer of a setting."""
    whole = setting.arrivals.side.size
    mine = per_arrival(
        lambda n: lambda: ours(setting, part(setting.arrivals, n), samples),
        setting.warm_up, whole, REPEATS,
    )  # fmt: skip
    rows = []
    for kind, goal in setting.goals.items():
        slow = kind in (NESTED, NESTED_SIMD)
        n = setting.warm_up + (200 if slow else whole - setting.warm_up)
        answers = check(setting, kind, part(setting.arrivals, n))
        theirs = per_arrival(
            lambda n, kind=kind: peer(setting, kind, part(setting.arrivals, n), samples),
            setting.warm_up if not slow else setting.warm_up, n, 1 if slow else 3,
        )  # fmt: skip
        ratio = theirs / mine
        goal = None if samples else goal
        rows.append(
            {
                "name": "similarity join" + (" with sample pairs" if samples else ""),
                "setting": f"{setting.name}, {answers:.2f} answers an arrival",
                "ours": f"{mine * 1e6:.2f} µs",
                "peer": f"{PEERS[kind]} {theirs * 1e6:.2f} µs",
                "ratio": ratio,
                "goal": goal,
                "met": None if goal is None else ratio >= goal,
            }
        )
    return rows


def run() -> list[dict[str, Any]]:
    """Rows (name, setting, ours, peer, ratio, goal, met); times are per arrival."""
    return [
        row for samples in (False, True) for setting in settings() for row in compare(setting, samples)
    ]


def main() -> None:
    """Print the rows."""
    for row in run():
        goal = "" if row["goal"] is None else f"goal {row['goal']:g}: {'met' if row['met'] else 'NOT met'}"
        print(f"{row['name']}, {row['setting']}: {row['ours']} | {row['peer']} | {row['ratio']:.1f} x {goal}")


if __name__ == "__main__":
    main()
