"""The fused join over incomplete streams, against imputing everything first.

Peers: straightforward C++ (R-tree imputation, then nested loops or a grid), and our own imputer
followed by our own join with an index. All must give the same answers, which is checked before
anything is timed. Every object has one missing attribute of four; other settings are the defaults
of Ren et al. (2019).

Goals are set for the paper's synthetic defaults. On Intel lab, no method can meet the goal against
nested loops, so that row has none: 7% of all pairs are answers (`answers`), ten times the share on
synthetic data, and an object has a dozen alternatives instead of 44, so that nested loops are
cheap. A hundredth of their time is hardly more than the time to impute the arrival (the row `own
imputer alone`), which no method can avoid, because its answers have probabilities.
"""

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.data.real_sets import load
from benchmarks.harness import Row, fastest, row
from benchmarks.peers.build import peer
from sfumato.operators.imputation.imputer import Imputer
from sfumato.operators.joins.incomplete_join import IncompleteArrivals, IncompleteJoin
from sfumato.operators.joins.similarity_join import ArrivalBatch, SimilarityJoin
from sfumato.windows import Rows

REPOSITORY = 30_000
ALPHA = 0.49995  # not 1/2, which sums of shares often equal up to rounding
NAMES = ("a", "b", "c", "d")
REPEATS = 2
QUICK = {"REPEATS": 1}


@dataclass(frozen=True)
class Setting:
    """A stream with gaps, windows of `rows` objects; the last `timed` arrivals are measured."""

    name: str
    repository: np.ndarray
    values: np.ndarray
    epsilon: float
    within: float
    rows: int
    timed: int
    nested: int  # arrivals with which nested loops are timed
    nested_goal: float | None = 100.0

    @property
    def side(self) -> np.ndarray:
        return (np.arange(len(self.values)) % 2).astype(np.uint8)


def correlated(n: int, seed: int) -> np.ndarray:
    """Draw attributes in [0, 1] that follow from three hidden ones, with some noise."""
    rng = np.random.default_rng(seed)
    hidden = rng.random((n, 3))
    mix = np.random.default_rng(0).dirichlet(np.ones(3), size=4)
    return np.clip(hidden @ mix.T + rng.normal(0, 0.02, (n, 4)), 0, 1)


def with_gaps(values: np.ndarray, seed: int) -> np.ndarray:
    gaps = values.copy()
    gaps[np.arange(len(gaps)), np.random.default_rng(seed).integers(0, 4, len(gaps))] = np.nan
    return gaps


def settings() -> list[Setting]:
    repository, stream = correlated(REPOSITORY, 1), with_gaps(correlated(12_000, 2), 3)
    cases = [
        Setting(f"synthetic, w = {rows:,}, eps = {within}", repository, stream[: 4 * rows + 2000],
                0.03, within, rows, 2000, 100)
        for rows, within in [(1000, 0.1), (2000, 0.1)]
    ]  # fmt: skip
    real = load("Intel lab")
    if real is not None:
        rng = np.random.default_rng(4)
        chosen = rng.permutation(len(real))[: REPOSITORY + 6000]
        stream = with_gaps(real[np.sort(chosen[REPOSITORY:])], 5)
        cases.append(
            Setting("Intel lab, w = 1,000, eps = 0.1", real[chosen[:REPOSITORY]], stream,
                    0.01, 0.1, 1000, 2000, 100, nested_goal=None)
        )  # fmt: skip
    return cases


def imputer_of(setting: Setting) -> Imputer:
    texts = []
    for name in NAMES:
        others = [other for other in NAMES if other != name]
        bounds = ", ".join([str(setting.epsilon)] * 3)
        texts.append(f"{', '.join(others)} -> {name} : {bounds} -> 0.1")
    scaling = dict.fromkeys(NAMES, (0.0, 1.0))
    return Imputer(
        setting.repository, texts, names=NAMES, fallback="reject", scaling=scaling, method="plain"
    )


class Peer:
    """The C++ program with built R-trees."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.points = np.ascontiguousarray(setting.repository)
        self.axes = np.zeros((4, 4), np.int64)  # the R-trees point to it
        for t in range(4):
            self.axes[t, :3] = [a for a in range(4) if a != t]
        given = self.points, len(self.points), 4, self.axes, np.full(4, 3, np.int64)
        build = peer("incomplete", "incomplete_index", *given, result=ctypes.c_void_p)
        self.index = ctypes.c_void_p(build())

    def join(
        self, n: int, grid: bool, cell: float, begin: int
    ) -> tuple[float, tuple[np.ndarray, ...]]:
        """Return the answers of arrivals `begin` to n, and processor microseconds per arrival."""
        s, room = self.setting, 4_000_000
        out = (np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room))
        spent, reach = np.zeros(1), np.full((4, 4), s.epsilon)
        count = peer(
            "incomplete", "incomplete_join", self.index, self.points, 4, reach, grid, n,
            s.side[:n], np.ascontiguousarray(s.values[:n]), s.within, ALPHA, s.rows, float(cell),
            begin, room, *out, spent,
        )()  # fmt: skip
        return float(spent[0]) / (n - begin) * 1e6, tuple(array[:count] for array in out)

    def cost(self, begin: int, end: int, grid: bool, cell: float) -> float:
        """Return the shortest time of some runs."""
        return min(self.join(end, grid, cell, begin)[0] for _ in range(REPEATS))


def fused(setting: Setting, imputer: Imputer, begin: int) -> tuple[IncompleteJoin, Any]:
    join = IncompleteJoin(imputer, setting.within, ALPHA, Rows(setting.rows))
    keys = np.zeros(len(setting.values), np.int64)
    parts = [
        IncompleteArrivals(setting.side[part], keys[part], setting.values[part])
        for part in (slice(0, begin), slice(begin, None))
    ]
    join.process(parts[0])
    return join, parts[1]


def separate(setting: Setting, imputer: Imputer, begin: int) -> Callable[[], Any]:
    """Return a run of our imputer followed by our join with an index."""
    join = SimilarityJoin(4, setting.within, ALPHA, Rows(setting.rows), alternatives=False)

    def run(part: slice) -> Any:
        done = imputer.impute(setting.values[part])
        side = setting.side[part]
        return join.process(
            ArrivalBatch(side, np.zeros(side.size, np.int64), done.offsets, done.prob, done.values)
        )

    run(slice(0, begin))
    return lambda: run(slice(begin, None))


def check(setting: Setting, imputer: Imputer, peer: Peer, begin: int) -> dict[str, int]:
    """Compare all answers; return the fused join's counters for the timed arrivals."""
    join, rest = fused(setting, imputer, begin)
    before = join.counters
    answers, _ = join.process(rest)
    done = {name: count - before[name] for name, count in join.counters.items()}
    held = np.where(rest.side[answers.arrival] == 0, answers.right, answers.left)
    mine = sorted(zip((answers.arrival + begin).tolist(), held.tolist(), strict=True))
    _, (arrival, number, pr) = peer.join(len(setting.values), True, setting.within, begin)
    order = np.lexsort([number, arrival])
    assert mine == list(zip(arrival[order].tolist(), number[order].tolist(), strict=True))
    np.testing.assert_allclose(answers.probability, pr[order], atol=1e-9)
    other = separate(setting, imputer, begin)()
    np.testing.assert_array_equal(other.left, answers.left)
    np.testing.assert_allclose(other.probability, answers.probability, atol=1e-9)
    return done


def case(setting: Setting) -> list[Row]:
    imputer, peer = imputer_of(setting), Peer(setting)
    n = len(setting.values)
    begin = n - setting.timed
    counters = check(setting, imputer, peer, begin)

    def timed(call: Callable[[Any], Any], prepare: Callable[[], Any]) -> float:
        """Return the shortest of some runs, in processor microseconds per arrival."""
        return fastest(call, REPEATS, prepare=prepare) / setting.timed * 1e6

    ours = timed(lambda of: of[0].process(of[1]), lambda: fused(setting, imputer, begin))
    index = min(peer.cost(begin, n, True, setting.within * share) for share in (0.5, 1.0, 2.0))
    nested_begin = 2 * setting.rows
    nested = peer.cost(nested_begin, nested_begin + setting.nested, False, 1.0)
    apart = timed(lambda run: run(), lambda: separate(setting, imputer, begin))
    alone = timed(imputer.impute, lambda: setting.values[begin:])
    about = {
        "answers": f"{counters['answers'] / max(counters['pairs'], 1):.2%}",
        "refined": f"{counters['refined'] / max(counters['pairs'], 1):.2%}",
    }
    rows = [
        ("C++ R-tree, then grid", index, 5.0),
        ("C++ R-tree, then nested loops", nested, setting.nested_goal),
        ("own imputer, then own index", apart, None),
        ("own imputer alone", alone, None),
    ]
    return [
        row(name, f"{setting.name}: µs", ours, cost, cost / ours, least=goal, **about)
        for name, cost, goal in rows
    ]


def run() -> list[Row]:
    return [found for setting in settings() for found in case(setting)]
