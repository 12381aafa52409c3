"""Top-k probabilities against C++ codings of D's recursion; timetables; a running set of queries.

Tuples, probabilities and rules are D's synthetic ones (section 10.1): uniform scores and
probabilities, random consecutive pairs of at most probability 1 in all as rules. Both sides get
the tuples in no order and rank them themselves.
"""

from __future__ import annotations

import ctypes
import time

import numpy as np

from peers.build import load
from sfumato import timetable, top_k_probabilities
from sfumato.operators.ranked_items import RankedItems
from sfumato.operators.top_k import probabilities
from sfumato.operators.top_k_window import TopKWindow

# n, k: repeats of the peer, goals against it without and with the cut
SETTINGS = {
    (1_000, 100): (3, None, 8),
    (1_000, 1_000): (2, 12, 8),
    (10_000, 100): (1, None, 8),
    (10_000, 1_000): (1, 1_000, 8),
}
MOST_ERROR = 1e-12
REPEATS = 15
PLANNED = (1_000, 5_000, 10_000, 20_000, 40_000)  # D, Figure 17: the longest `every`
PEER_PLANS = 5_000  # Algorithm 1 needs minutes beyond
QUERIES, TUPLES = 100, 10_000

FLOATS = np.ctypeslib.ndpointer(np.float64, flags="C")
INTS = np.ctypeslib.ndpointer(np.int64, flags="C")


def run() -> list[dict]:
    """One row a comparison: name, setting, ours, peer, ratio, goal, met."""
    peers = library()
    rows = [row for n, k in SETTINGS for row in compare(peers, n, k)]
    rows += [row for f in PLANNED for row in plan(peers, f)]
    return rows + running_queries()


def library() -> ctypes.CDLL:
    peers, size = load("top_k"), ctypes.c_int64
    peers.top_k.argtypes = [FLOATS, FLOATS, INTS, size, size, size, size, FLOATS]
    peers.dynamic_program.argtypes = [INTS, INTS, size]
    peers.dynamic_program.restype = ctypes.c_double
    return peers


def tuples(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores, probabilities and rules; a tuple without a partner is a rule of its own."""
    rng = np.random.default_rng(seed)
    score, prob, rule = rng.random(n), 1.0 - rng.random(n), np.arange(n)
    first = np.flatnonzero(prob[:-1] + prob[1:] <= 1.0)
    first = first[rng.random(first.size) < 0.5]
    first = first[np.diff(first, prepend=-2) > 1]
    rule[first + 1] = rule[first]
    return score, prob, rule


def compare(peers: ctypes.CDLL, n: int, k: int) -> list[dict]:
    few, plain_goal, cut_goal = SETTINGS[n, k]
    score, prob, rule = tuples(n, n + k)
    out = {False: np.empty(n), True: np.empty(n)}

    def ours() -> np.ndarray:
        return top_k_probabilities(score, prob, rule, k=k)

    def peer(cut: bool) -> None:
        peers.top_k(score, prob, rule, n, n, k, cut, out[cut])

    all_k = np.arange(1, k + 1)
    items = RankedItems(score, prob, rule)
    ours_s, every_s = best(ours, REPEATS), best(lambda: probabilities(items, all_k), 5)
    plain_s, cut_s = best(lambda: peer(False), few), best(lambda: peer(True), 2 * few)
    error = max(np.abs(ours() - each).max() for each in out.values())
    setting = f"n = {n:,}, k = {k:,}"

    def row(name: str, other: str, ratio: float, goal: float | None) -> dict:
        met, text = goal is None or ratio >= goal, f">= {goal:,}" if goal else ""
        return line(name, setting, milliseconds(ours_s), other, ratio, text, met)

    every = milliseconds(every_s)
    return [
        row("Pr_k / C++ n^2 k", milliseconds(plain_s), plain_s / ours_s, plain_goal),
        row("Pr_k / C++ with the cut", milliseconds(cut_s), cut_s / ours_s, cut_goal),
        line("all k' <= k, times one k", setting, every, milliseconds(ours_s), every_s / ours_s),
        line(
            "Pr_k, error",
            setting,
            f"{error:.1e}",
            f"{MOST_ERROR:.0e}",
            error / MOST_ERROR,
            "<= 1",
            error <= MOST_ERROR,
        ),
    ]


def plan(peers: ctypes.CDLL, longest: int) -> list[dict]:
    """Planning times of DP and GA, D's Figure 17: 20 queries, `every` uniform up to `longest`."""
    rng = np.random.default_rng(longest)
    f = np.unique(np.append(rng.integers(1, longest, 19), longest))
    k = np.sort(rng.choice(np.arange(2, 101), f.size, replace=False))
    queries = list(zip(k.tolist(), f.tolist(), strict=True))
    fresh = timetable.__globals__["_planned"].cache_clear  # or the second call costs nothing

    def planned(name: str) -> float:
        fresh()
        return timetable(queries, name).cost_per_unit

    optimum, greedy = planned("dp"), planned("greedy")
    assert optimum <= greedy <= 2 * optimum
    dp_s, ga_s = best(lambda: planned("dp"), 3), best(lambda: planned("greedy"), 3)
    setting = f"20 queries, f to {longest:,}"
    rows = [line("plan DP / plan GA", setting, milliseconds(dp_s), milliseconds(ga_s), ga_s / dp_s)]
    if longest <= PEER_PLANS:
        begin = time.thread_time()
        assert abs(peers.dynamic_program(f, k, f.size) - optimum) < 1e-9
        peer_s = time.thread_time() - begin
        ours = milliseconds(dp_s)
        rows.append(
            line("plan DP / C++ Algorithm 1", setting, ours, milliseconds(peer_s), peer_s / dp_s)
        )
    return rows


def running_queries() -> list[dict]:
    """D's query set of 100 over a window of 10,000, run: against its own forecast, and NS."""
    rng = np.random.default_rng(7)
    names = [f"q{i}" for i in range(QUERIES)]
    every = rng.integers(1, 41, QUERIES) * 250  # one tuple a unit; f uniform in 250 ... 10,000
    queries = dict(
        zip(names, zip(rng.integers(2, 101, QUERIES).tolist(), every.tolist()), strict=True)
    )
    score, prob, rule = tuples(2 * TUPLES, 8)
    seconds, cost = {}, {}
    for name in ("dp", "none"):
        window = TopKWindow(queries, length=TUPLES, plan=name, start=0)
        first = np.arange(TUPLES)
        window.extend(first, scores=score[:TUPLES], prob=prob[:TUPLES], rules=rule[:TUPLES])
        before, cost_before, begin = window.executions, window.cost, time.thread_time()
        later = np.arange(TUPLES, 2 * TUPLES)
        window.extend(later, scores=score[TUPLES:], prob=prob[TUPLES:], rules=rule[TUPLES:])
        seconds[name] = time.thread_time() - begin
        cost[name] = (window.executions - before, window.cost - cost_before)
    one = RankedItems(score[:TUPLES], prob[:TUPLES], rule[:TUPLES])
    ks = sorted({k for k, _ in queries.values()})
    one_s = best(lambda: probabilities(RankedItems(one.scores, one.prob, rule[:TUPLES]), ks), 9)
    forecast = cost["dp"][0] * one_s
    saved, setting = seconds["none"] / seconds["dp"], f"{QUERIES} queries, n = {TUPLES:,}"
    over = seconds["dp"] / forecast
    ours, peer = milliseconds(seconds["dp"]), milliseconds(seconds["none"])
    return [
        line(
            "running, times forecast",
            setting,
            ours,
            milliseconds(forecast),
            over,
            "<= 1.2",
            over <= 1.2,
        ),
        line("running DP / running NS", setting, ours, peer, saved, ">= 8", saved >= 8),
        line(
            "sum of k, DP / NS",
            setting,
            f"{cost['dp'][1]:,} in {cost['dp'][0]} runs",
            f"{cost['none'][1]:,} in {cost['none'][0]} runs",
            cost["none"][1] / cost["dp"][1],
        ),
    ]


def line(
    name: str, setting: str, ours: str, peer: str, ratio: float, goal: str = "", met: bool = True
) -> dict:
    return {
        "name": name,
        "setting": setting,
        "ours": ours,
        "peer": peer,
        "ratio": ratio,
        "goal": goal,
        "met": met,
    }


def best(work, repeats: int) -> float:
    """Seconds of the best of some runs."""
    work()
    times = []
    for _ in range(repeats):
        begin = time.thread_time()
        work()
        times.append(time.thread_time() - begin)
    return min(times)


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:,.3g} ms"
