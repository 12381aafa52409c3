"""Top-k probabilities against C++ versions of the published recursion; timetables; running queries.

Tuples, probabilities and rules are the paper's synthetic ones (section 10.1): uniform scores and
probabilities; rules are random consecutive pairs with a total probability of at most 1. Both sides
get the tuples in no order and rank them themselves.
"""

import ctypes
from functools import partial

import numpy as np

from benchmarks.harness import Row, fastest, milliseconds, row, timed, warm_fastest
from benchmarks.peers.build import peer
from sfumato.engine_free import timetable, top_k_probabilities
from sfumato.kernels.ranking.semantics import top_k_probabilities as probabilities
from sfumato.operators.ranking.ranked_items import checked_items
from sfumato.operators.ranking.semantics import Semantics
from sfumato.operators.ranking.timetable import RUN_TIME
from sfumato.operators.ranking.top_k_windows import TopKWindows

# n, k: repetitions of the peer, goals against it without and with the cut
SETTINGS = {
    (1_000, 100): (3, None, 8),
    (1_000, 1_000): (2, 12, 8),
    (10_000, 100): (1, None, 8),
    (10_000, 1_000): (1, 1_000, 8),
}
MOST_ERROR = 1e-12
REPEATS = 15
PLANNED = (1_000, 5_000, 10_000, 20_000, 40_000)  # the longest `every`, Figure 17 of the paper
PEER_PLANS = 5_000  # Algorithm 1 takes minutes for more
QUERIES, TUPLES = 100, 10_000
RANDOM_SETS = 3_000
FAMILIES = ("uu", "ug", "gu", "gg")
SMALL, KEYS, CALLS = (20, 50, 100), 500, 10  # rows of a window; keys; calls with 2 rows per key
SEMANTICS = (
    Semantics("pk_topk"), Semantics("pt_k", probability=0.3), Semantics("u_topk"),
    Semantics("u_kranks"), Semantics("expected_rank"), Semantics("prf", weights=(3, 2, 1)),
    Semantics("prfe", alpha=0.9),
)  # fmt: skip

QUICK = {
    "SETTINGS": {(1_000, 100): (1, None, 8)},
    "PLANNED": (1_000,),
    "REPEATS": 1,
    "FAMILIES": ("gg",),
    "SMALL": (20,),
    "KEYS": 50,
}


def run() -> list[Row]:
    rows = [row for n, k in SETTINGS for row in compare(n, k)]
    rows += [row for f in PLANNED for row in plan(f)]
    return (
        rows + time_plans() + running_queries() + [row for n in SMALL for row in small_windows(n)]
    )


def tuples(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw scores, probabilities and rules; a tuple without a partner is a rule by itself."""
    rng = np.random.default_rng(seed)
    score, prob, rule = rng.random(n), 1.0 - rng.random(n), np.arange(n)
    first = np.flatnonzero(prob[:-1] + prob[1:] <= 1.0)
    first = first[rng.random(first.size) < 0.5]
    first = first[np.diff(first, prepend=-2) > 1]
    rule[first + 1] = rule[first]
    return score, prob, rule


def compare(n: int, k: int) -> list[Row]:
    few, plain_goal, cut_goal = SETTINGS[n, k]
    score, prob, rule = tuples(n, n + k)
    out = {cut: np.empty(n) for cut in (False, True)}
    peers = {cut: peer("top_k", "top_k", score, prob, rule, n, n, k, cut, out[cut]) for cut in out}

    def ours() -> np.ndarray:
        return top_k_probabilities(score, prob, rule, k=k)

    items = checked_items(score, prob, rule)
    some = np.unique(np.linspace(k / 10, k, 10).astype(np.int64))  # the values of k of ten queries
    ours_s = warm_fastest(ours, REPEATS)
    every_s = warm_fastest(lambda: probabilities(items, np.arange(1, k + 1)), 5)
    some_s = warm_fastest(lambda: probabilities(items, some), REPEATS)
    plain_s, cut_s = warm_fastest(peers[False], few), warm_fastest(peers[True], 2 * few)
    error = max(np.abs(ours() - each).max() for each in out.values())
    setting, errors = f"n = {n:,}, k = {k:,}", (f"{error:.1e}", f"{MOST_ERROR:.0e}")
    one, every, ten, plain, cut = map(milliseconds, (ours_s, every_s, some_s, plain_s, cut_s))
    return [
        row("Pr_k / C++ n^2 k", setting, one, plain, plain_s / ours_s, least=plain_goal),
        row("Pr_k / C++ with the cut", setting, one, cut, cut_s / ours_s, least=cut_goal),
        row("10 of the k' <= k, times one k", setting, ten, one, some_s / ours_s),
        row("all k' <= k, times one k", setting, every, one, every_s / ours_s),
        row("Pr_k, error", setting, *errors, error / MOST_ERROR, most=1),
    ]


def plan(longest: int) -> list[Row]:
    """Measure planning with DP and GA (Figure 17): 20 queries, `every` uniform up to `longest`."""
    rng = np.random.default_rng(longest)
    f = np.unique(np.append(rng.integers(1, longest, 19), longest))
    k = np.sort(rng.choice(np.arange(2, 101), f.size, replace=False))
    queries = list(zip(k.tolist(), f.tolist(), strict=True))
    fresh = timetable.__globals__["_plan"].cache_clear  # or the second call is cached

    def planned(name: str) -> float:
        fresh()
        return timetable(queries, name).cost_per_unit

    optimum, greedy = planned("dp"), planned("greedy")
    assert optimum <= greedy <= 2 * optimum
    dp_s, ga_s = (warm_fastest(partial(planned, name), 3) for name in ("dp", "greedy"))
    setting, dp, ga = f"20 queries, f to {longest:,}", milliseconds(dp_s), milliseconds(ga_s)
    rows = [row("plan DP / plan GA", setting, dp, ga, ga_s / dp_s)]
    if longest <= PEER_PLANS:
        peer_s, found = timed(
            peer("top_k", "dynamic_program", f, k, f.size, result=ctypes.c_double)
        )
        assert abs(found - optimum) < 1e-9
        theirs = milliseconds(peer_s)
        rows.append(row("plan DP / C++ Algorithm 1", setting, dp, theirs, peer_s / dp_s))
    return rows


def time_plans() -> list[Row]:
    """Compare the estimated time of least-cost plans with the least time of any plan."""
    rng, found = np.random.default_rng(0), []
    for _ in range(RANDOM_SETS):
        many = rng.integers(2, 9)
        every, k = rng.integers(1, 41, many), rng.integers(1, 101, many)
        queries = list(zip(k.tolist(), every.tolist(), strict=True))
        tables = [timetable(queries, plan) for plan in ("dp", "time")]
        cost, least = (t.cost_per_unit + RUN_TIME * len(t.runs) / t.cycle for t in tables)
        found.append(cost / least)
    setting = f"{RANDOM_SETS:,} random sets of 2 to 8 queries, by estimate"
    shown = f"{np.mean(found):.3f} in the mean", f"{max(found):.2f} at most"
    return [row("time of plan DP / of plan time", setting, *shown, float(np.mean(found)))]


def running_queries() -> list[Row]:
    """Run sets of 100 queries over a window of 10,000, against their forecast and against NS."""
    rows, times = [], []
    for family in FAMILIES:
        more, seconds = running_family(family)
        rows += more
        times.append(seconds)
    dp, ns, forecast = np.array(times).T
    over, saved = dp.sum() / forecast.sum(), float(np.mean(ns / dp))
    setting = f"{QUERIES} queries, four families"
    ours, price, each = milliseconds(dp.sum()), milliseconds(forecast.sum()), ns / dp
    ratios = " ".join(f"{x:.1f}" for x in each)
    return [
        *rows,
        row("running, times forecast, all", setting, ours, price, over, most=1.2),
        row("running DP / NS, mean", setting, ratios, "", saved, least=8),
    ]


def running_family(family: str) -> tuple[list[Row], tuple[float, float, float]]:
    """Run one query set; f and k are uniform (u) or Gaussian (g). Time is counted in tuples."""
    rng = np.random.default_rng(7)
    f = rng.integers(1, 41, QUERIES) if family[0] == "u" else np.rint(rng.normal(40, 5, QUERIES))
    k = rng.integers(2, 101, QUERIES) if family[1] == "u" else np.rint(rng.normal(100, 10, QUERIES))
    f, k = f.clip(1).astype(int) * 250, k.clip(2).astype(int)
    queries = {f"q{i}": pair for i, pair in enumerate(zip(k.tolist(), f.tolist(), strict=True))}
    score, prob, rule = tuples(6 * TUPLES, 8)
    seconds = {"dp": np.inf, "none": np.inf, "arrivals": np.inf}
    runs, cost = {}, {}
    for name in ("dp", "none", "arrivals") * 3:
        if name == "arrivals":  # the cost of maintaining the window without queries
            window = TopKWindows({"never": (1, 10**9)}, length=TUPLES, start=0)
        else:
            window = TopKWindows(queries, length=TUPLES, plan=name, start=0)
        for now in (slice(TUPLES), slice(TUPLES, 2 * TUPLES), slice(2 * TUPLES, 6 * TUPLES)):
            # only the last part is timed, on a full window
            rest = {"scores": score[now], "prob": prob[now], "exclusive": rule[now]}
            before = window.executions, window.cost
            order = np.arange(6 * TUPLES)[now]
            passed, _ = timed(partial(window.extend, order, **rest))
        seconds[name] = min(seconds[name], passed)
        runs[name], cost[name] = window.executions - before[0], window.cost - before[1]
    forecast = price_of_a_run(k.tolist(), score, prob, rule) * cost["dp"] / k.max()
    dp_s, ns_s = (seconds[name] - seconds["arrivals"] for name in ("dp", "none"))
    ours, peer = milliseconds(dp_s), milliseconds(ns_s)
    setting = f"{QUERIES} queries {family}, n = {TUPLES:,}"
    own, other = (f"{cost[name]:,} in {runs[name]} runs" for name in ("dp", "none"))
    price = milliseconds(forecast)
    rows = [
        row("running, times forecast", setting, ours, price, dp_s / forecast),
        row("running DP / running NS", setting, ours, peer, ns_s / dp_s),
        row("sum of k, DP / NS", setting, own, other, cost["none"] / cost["dp"]),
    ]
    return rows, (dp_s, ns_s, forecast)


def price_of_a_run(ks: list[int], score: np.ndarray, prob: np.ndarray, rule: np.ndarray) -> float:
    """Return the seconds of a single run over one window, which answers one query for each k."""
    window = TopKWindows({f"q{i}": (k, TUPLES) for i, k in enumerate(ks)}, rows=TUPLES, start=0)
    some = slice(TUPLES)
    window.extend(np.arange(TUPLES), scores=score[some], prob=prob[some], exclusive=rule[some])
    # Nothing arrives: the window stays the same.
    runs = (partial(window.advance, run * TUPLES) for run in range(1, 100))
    return float(np.median([fastest(run, 1) for run in runs]))


def small_windows(n: int) -> list[Row]:
    """Measure windows of many keys with n tuples each, one run per key and call, by semantics.

    All keys in one call are compared with one call per key.
    """
    rng, rows = np.random.default_rng(n), []
    key, size = np.repeat(np.arange(KEYS), 2), 2 * KEYS

    def arrivals(call: int, keys: np.ndarray) -> dict[str, np.ndarray]:
        time = np.full(keys.size, 2 * call + 1)
        given = {"scores": rng.random(keys.size), "prob": 1.0 - rng.random(keys.size)}
        return {"time": time, "key": keys, **given}

    for semantics in SEMANTICS:
        seconds = []
        for apart in (False, True):
            windows = TopKWindows({"q": (5, 2)}, rows=n, start=0, semantics=semantics)
            windows.extend(**arrivals(0, np.repeat(np.arange(KEYS), n)))
            calls = range(1, CALLS + 1)
            parts = [[one] for one in range(KEYS)] if apart else [list(range(KEYS))]
            batches = [arrivals(c, key[np.isin(key, part)]) for c in calls for part in parts]
            passed, _ = timed(lambda: [windows.extend(**batch) for batch in batches])  # noqa: B023
            seconds.append(passed / (CALLS * size / 2))
        one, other = (f"{1e6 * each:.1f} µs" for each in seconds)
        setting = f"{KEYS} keys, {semantics.name}, w = {n}"
        rows.append(row("a run, together / alone", setting, one, other, seconds[1] / seconds[0]))
    return rows
