"""D's experiments: many top-k queries over one window, and what their sharing saves."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from sfumato.operators.timetable import Query, timetable
from sfumato.operators.top_k import top_k_probabilities
from sfumato.operators.top_k_answers import top_k_streams
from sfumato.reproduce import datasets, stand_ins
from sfumato.reproduce.drawing import lines, side_by_side
from sfumato.reproduce.experiment import Experiment, Setting, Verdict
from sfumato.reproduce.query_load import carried_out
from sfumato.reproduce.textbook_top_k import dynamic_program, greedy_program, top_k_from_scratch

# D's table of parameters is not in the text at hand; what its running text does not name of the
# axes' values is ours: the number of streams, their tuples and k over several streams.
LONGEST = 40  # of a query's bound, in seconds
QUERIES, TUPLES, MOST_K, MOST_K_OF_STREAMS = 20, 10_000, 100, 20
XS = (20, 40, 60, 80, 100)
NS = (2_000, 4_000, 6_000, 8_000, 10_000)
KS = (200, 400, 600, 800, 1_000)
STREAM_KS = (20, 40, 60, 80, 100)
PLANS = {"NS": "none", "IN": "in", "INCO": "inco", "GA": "greedy", "DP": "dp"}
OURS = "DP, our run"
FASTEST = 1e-9
# D gives visibility as .8, .7, ..., .3, .2; the methods of sighting in order of their trust.
VISIBILITY = {"R/V": 0.8, "VIS": 0.7, "RAD": 0.6, "SAT-HIGH": 0.5, "SAT-MED": 0.4, "SAT-LOW": 0.3}
TABLE_9 = {40: 5.3671, 60: 5.9647, 80: 8.6833, 100: 8.1622}
FAMILIES = ("uu", "ug", "gu", "gg")

Data = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]
Price = Callable[[int], float]


@dataclass(frozen=True)
class Point:
    """One point of a figure: so many queries, k from 2 to `most_k`, over a window of n tuples.

    kind : "synthetic", "icebergs" or "streams"    streams : how many, for the last
    """

    kind: str
    x: int = QUERIES
    n: int = TUPLES
    most_k: int = MOST_K
    streams: int = 100


def window(setting: Setting, point: Point) -> Data:
    """Scores, probabilities and rules of a window's tuples, and their streams if there are any."""
    rng = setting.rng(1, point.n)
    if point.kind == "icebergs":
        return icebergs(setting, rng, point.n)
    score, prob, alone = rng.random(point.n), 1.0 - rng.random(point.n), np.arange(point.n)
    if point.kind == "streams":
        return score, prob, alone, rng.permutation(point.n) % point.streams
    return score, prob, alone, None


def icebergs(setting: Setting, rng: np.random.Generator, n: int) -> Data:
    """Sightings drawn at random: days since the berg's first sighting, trust in the method.

    The days drifted that D ranks by are not in the files of these years. Rules are consecutive
    tuples drawn at random, where their probabilities sum to at most 1.
    """
    table = setting.load(
        "Iceberg Patrol", datasets.iceberg_sightings, stand_ins.iceberg_sightings
    )
    first = table.groupby(["iceberg_year", "iceberg_number"]).ts.transform("min")
    days = ((table.ts - first) / pd.Timedelta(days=1)).to_numpy()
    trust = table.method.map(VISIBILITY).fillna(0.2).to_numpy(np.float64)
    drawn = rng.integers(0, len(table), n)
    prob, rule = trust[drawn], np.arange(n)
    begin = np.flatnonzero((prob[:-1] + prob[1:] <= 1.0) & (rng.random(n - 1) < 0.5))
    begin = begin[np.diff(begin, prepend=-2) > 1]
    rule[begin + 1] = rule[begin]
    return days[drawn], prob, rule, None


def queries(rng: np.random.Generator, family: str, x: int, ks: tuple[int, int]) -> list[Query]:
    """x queries (k, f), f and k each uniform (u) or Gaussian (g), as in D, section 10.1.

    ks : the least and the greatest k of the uniform law; the Gaussian one has mean 100 and
        deviation 10, or the middle and a sixth of a range that ends before 100
    """
    f = rng.integers(1, LONGEST + 1, x) if family[0] == "u" else np.rint(rng.normal(40, 5, x))
    if family[1] == "u":
        k = rng.integers(ks[0], ks[1] + 1, x)
    else:
        mean, sd = (100, 10) if ks[1] >= 100 else (sum(ks) / 2, (ks[1] - ks[0]) / 6)
        k = np.rint(rng.normal(mean, sd, x))
    f, k = np.maximum(f, 1).astype(np.int64), np.maximum(k, 1).astype(np.int64)
    return list(zip(k.tolist(), f.tolist(), strict=True))


def prices(data: Data, most_k: int, sampled: int) -> tuple[Price, Price]:
    """Seconds of a run for a greatest k: by D's algorithm, and by ours.

    D's is timed on `sampled` tuples spread evenly over the ranks, times their share; between the
    values of k that are timed both are interpolated.
    """
    score, prob, rule, streams = data
    ks = np.unique(np.linspace(2, most_k, 4).astype(np.int64))
    order = np.argsort(-score, kind="stable")
    ranked, ranked_rule = prob[order], rule[order]
    step = max(1, score.size // sampled)
    top_k_from_scratch(ranked[:4], np.arange(4), 2, 0, 1)
    times = []
    for k in ks.tolist():
        by_them = spent(lambda k=k: top_k_from_scratch(ranked, ranked_rule, k, step // 2, step))
        if streams is None:
            by_us = spent(lambda k=k: top_k_probabilities(score, prob, rule, k=k))
        else:
            by_us = spent(lambda k=k: top_k_streams(score, prob, streams, rule, k=k))
        times.append((by_them * step, by_us))
    theirs, ours = (
        np.maximum.accumulate(np.maximum(each, FASTEST)) for each in zip(*times, strict=True)
    )
    return (
        lambda k: float(np.interp(k, ks, theirs)),
        lambda k: float(np.interp(k, ks, ours)),
    )


def spent(call: Callable[[], object]) -> float:
    """Processor time of the better of two calls, after one that compiles."""
    call()
    times = []
    for _ in range(2):
        begin = time.thread_time()
        call()
        times.append(time.thread_time() - begin)
    return min(times)


def loads(setting: Setting, point: Point, priced: tuple[Price, Price]) -> list[dict[str, Any]]:
    """A row for each way to answer the queries, the mean over several sets of them."""
    repeats, horizon = setting.pick(3, 20), setting.pick(120.0, 400.0)
    totals: dict[str, list[tuple[float, ...]]] = {}
    for repeat in range(repeats):
        drawn = queries(setting.rng(2, repeat), "uu", point.x, (2, point.most_k))
        for name in (*PLANS, OURS):
            table = timetable(drawn, PLANS.get(name, "dp"))
            load = carried_out(table, priced[name == OURS], horizon)
            row = (table.cost_per_unit, load.work, 1.0 / load.answers, load.lateness)
            totals.setdefault(name, []).append(row)
    return [
        {
            "plan": name,
            "cost": float(np.mean([row[0] for row in rows])),
            "work_seconds": float(np.mean([row[1] for row in rows])),
            # Answers a second, turned over: timings are told by the ends of their names.
            "per_answer_seconds": 1.0 / float(np.mean([1.0 / row[2] for row in rows])),
            "late_seconds": float(np.mean([row[3] for row in rows])),
        }
        for name, rows in totals.items()
    ]


def figure(setting: Setting, axis: str, points: dict[int, Point]) -> pd.DataFrame:
    """All points of one figure; the runs of equal windows are timed once."""
    result, priced = [], {}
    # The priciest k of a window first: the others are read off its curve.
    most = {(p.kind, p.n, p.streams): max(q.most_k for q in points.values()) for p in points.values()}
    for value, point in setting.steps(points.items()):
        key = (point.kind, point.n, point.streams)
        if key not in priced:
            data = window(setting, point)
            priced[key] = prices(data, most[key], setting.pick(20, 200))
        result += [{axis: value, **row} for row in loads(setting, point, priced[key])]
    return pd.DataFrame(result)


def few(setting: Setting, values: tuple[int, ...]) -> tuple[int, ...]:
    """All values of an axis, or in a quick run its ends."""
    return tuple(setting.pick((values[0], values[-1]), values))


def planning(setting: Setting) -> pd.DataFrame:
    """Time to plan 20 queries with ever longer bounds."""
    repeats = setting.pick(3, 30)
    rows = []
    compiled = np.array([2, 3]), np.array([1, 2])
    dynamic_program(*compiled), greedy_program(*compiled)
    timetable([(1, 2), (2, 3)], "dp"), timetable([(1, 2), (2, 3)], "greedy")
    for longest in setting.steps(few(setting, (10_000, 20_000, 30_000, 40_000))):
        times: dict[str, list[float]] = {}
        costs: dict[str, list[float]] = {}
        for repeat in range(repeats):
            rng = setting.rng(3, longest, repeat)
            f, k = rng.integers(1, longest + 1, QUERIES), rng.integers(2, MOST_K + 1, QUERIES)
            drawn = list(zip(k.tolist(), f.tolist(), strict=True))
            groups = timetable(drawn, "inco")
            plain = np.array(groups.bounds, np.int64), np.array(groups.ks, np.int64)
            for name, call in {
                "DP (Algorithm 1)": lambda: dynamic_program(*plain),
                "GA (Algorithm 2)": lambda: greedy_program(*plain),
                "DP, ours": lambda: timetable(drawn, "dp").cost_per_unit,
                "GA, ours": lambda: timetable(drawn, "greedy").cost_per_unit,
            }.items():
                begin = time.thread_time()
                cost = call()
                times.setdefault(name, []).append(time.thread_time() - begin)
                costs.setdefault(name, []).append(cost)
        for name in times:
            rows.append(
                {
                    "longest": longest,
                    "plan": name,
                    "cost": float(np.mean(costs[name])),
                    "planning_seconds": float(np.mean(times[name])),
                }
            )
    return pd.DataFrame(rows)


def saved(setting: Setting) -> pd.DataFrame:
    """Cost of no sharing over that of DP, over many sets of queries, with 95% intervals."""
    repeats = setting.pick(40, 400)
    rows = []
    points = [(family, x) for family in FAMILIES for x in TABLE_9]
    for family, x in setting.steps(points):
        found = []
        for repeat in range(repeats):
            drawn = queries(setting.rng(4, FAMILIES.index(family), x, repeat), family, x, (2, 5))
            shared = timetable(drawn, "dp").cost_per_unit
            found.append(timetable(drawn, "none").cost_per_unit / shared)
        ratio, error = float(np.mean(found)), 1.96 * float(np.std(found, ddof=1)) / repeats**0.5
        rows.append(
            {
                "queries": x,
                "family": family,
                "ratio": ratio,
                "low": ratio - error,
                "high": ratio + error,
                "bound": math.log2(x),
                "met": float(np.mean(np.array(found) >= math.log2(x))),
                "table_9": TABLE_9[x],
            }
        )
    return pd.DataFrame(rows)


def draw_loads(axis: str, x_title: str, title: str) -> Callable[[pd.DataFrame], Any]:
    def draw(rows: pd.DataFrame) -> Any:
        # A logarithmic axis shows no zeros: answers that are never late count as a millisecond.
        shown = rows.assign(
            throughput=1.0 / rows.per_answer_seconds,
            late_seconds=rows.late_seconds.clip(lower=1e-3),
        )
        about = [
            ("(a) cost", "work_seconds", "work a second (s)", True),
            ("(b) throughput", "throughput", "answers a second", True),
            ("(c) latency", "late_seconds", "lateness a query (s)", True),
        ]
        parts = [
            (
                heading,
                lines(
                    shown, axis, column, "plan", x_title=x_title, y_title=y_title,
                    series_title="plan", title="", log_y=log,
                ),
            )
            for heading, column, y_title, log in about
        ]  # fmt: skip
        return side_by_side(parts, title)

    return draw


def draw_planning(rows: pd.DataFrame) -> Any:
    return lines(
        rows, "longest", "planning_seconds", "plan",
        x_title="longest bound f (units of time)", y_title="processor time to plan (s)",
        series_title="planner", title="D17: time to plan 20 queries", log_y=True,
    )  # fmt: skip


def draw_saved(rows: pd.DataFrame) -> Any:
    one = rows[rows.family == "uu"]
    extra = [
        one.assign(family="bound log2 x", ratio=one.bound, low=one.bound, high=one.bound),
        one.assign(family="D's Table 9", ratio=one.table_9, low=one.table_9, high=one.table_9),
    ]
    return lines(
        pd.concat([rows, *extra], ignore_index=True), "queries", "ratio", "family",
        x_title="queries x", y_title="cost of NS / cost of DP", series_title="laws of f, k",
        title="DT9: what sharing saves", log_y=True, interval=("low", "high"),
    )  # fmt: skip


def judge_loads(rows: pd.DataFrame, axis: str) -> Verdict:
    """DP <= GA <= INCO <= IN <= NS in cost; DP and GA alike; more answers, less lateness."""
    cost = rows.pivot_table(index=axis, columns="plan", values="cost")
    answers = 1.0 / rows.pivot_table(index=axis, columns="plan", values="per_answer_seconds")
    late = rows.pivot_table(index=axis, columns="plan", values="late_seconds")
    order = ["DP", "GA", "INCO", "IN", "NS"]
    steps = list(zip(order[:-1], order[1:], strict=True))
    cheaper = all((cost[a] <= cost[b] * 1.0001).all() for a, b in steps)
    alike = float((cost.GA / cost.DP).max())
    more = all((answers[a] >= 0.97 * answers[b]).all() for a, b in steps[1:])
    sooner = all((late[a] <= 1.05 * late[b] + 0.05).all() for a, b in steps[1:])
    ratio = cost.NS / cost.DP
    work = rows.pivot_table(index=axis, columns="plan", values="work_seconds")
    gap = work.NS - work.DP
    wider = gap.iloc[-1] > gap.iloc[0]
    said = (
        f"NS costs {ratio.min():.1f} to {ratio.max():.1f} times as much as DP, GA at most "
        f"{(alike - 1) * 100:.1f}% more; the order of costs is "
        f"{'DP ≤ GA ≤ INCO ≤ IN ≤ NS' if cheaper else 'another'} throughout, that of answers a "
        f"second {'the same' if more else 'another'}, that of lateness "
        f"{'the same' if sooner else 'another'}; NS asks for {gap.iloc[0]:.2g} s of work a second "
        f"more than DP at first and {gap.iloc[-1]:.2g} s at last. With our kernel DP's work is "
        f"{(work.DP / work[OURS]).min():,.0f} to {(work.DP / work[OURS]).max():,.0f} times less."
    )
    if cheaper and more and sooner and wider and alike < 1.1:
        return Verdict("reproduced", said)
    if (cost.DP > cost.NS).any():
        return Verdict("refuted", said)
    return Verdict("differs", said + differences(cheaper, more, sooner, wider, alike))


def differences(cheaper: bool, more: bool, sooner: bool, wider: bool, alike: float) -> str:
    """What is not as reported, in words."""
    found = []
    if not cheaper:
        found.append("a plan with more sharing costs more at some point")
    if alike >= 1.1:
        found.append("GA's costs are not DP's")
    if not more:
        found.append(
            "where the machine keeps up, a plan that runs more often gives more answers, whatever "
            "it costs"
        )
    if not sooner:
        found.append("a cheaper plan is later at some point, its single chain of runs being moved")
    if not wider:
        found.append("the gap does not widen")
    return f" But {'; '.join(found)}."


def judge_planning(rows: pd.DataFrame) -> Verdict:
    """Both grow with f, GA stays below DP."""
    times = rows.pivot_table(index="longest", columns="plan", values="planning_seconds")
    dp, ga = times["DP (Algorithm 1)"], times["GA (Algorithm 2)"]
    said = (
        f"GA plans {(dp / ga).min():.0f} to {(dp / ga).max():.0f} times faster than DP; at the "
        f"longest bounds {ga.iloc[-1] * 1e3:.2f} ms and {dp.iloc[-1] * 1e3:.1f} ms, our DP "
        f"{times['DP, ours'].iloc[-1] * 1e3:.2f} ms."
    )
    if (ga < dp).all() and dp.iloc[-1] > dp.iloc[0] and ga.iloc[-1] > ga.iloc[0]:
        return Verdict("reproduced", said)
    if (ga > dp).all():
        return Verdict("refuted", said)
    return Verdict("differs", said + " The times do not grow throughout, or cross.")


def judge_saved(rows: pd.DataFrame) -> Verdict:
    """The mean ratio is at least log2 x for every x, for uniform f and k."""
    uniform = rows[rows.family == "uu"].set_index("queries")
    values = ", ".join(f"{r:.2f}" for r in uniform.ratio)
    reported = ", ".join(f"{r:.2f}" for r in uniform.table_9)
    single = ", ".join(f"{100 * m:.0f}%" for m in uniform.met)
    gaussian = rows[rows.family.str.startswith("g")].ratio
    said = (
        f"Uniform f and k, mean of many sets: {values} for x = "
        f"{', '.join(str(x) for x in uniform.index)} (D: {reported}); a single set reaches log2 x "
        f"in {single} of the cases. With Gaussian f {gaussian.min():.1f} to {gaussian.max():.1f}."
    )
    if (uniform.high >= uniform.bound).all():
        return Verdict("reproduced", said)
    if (uniform.high < uniform.bound).all():
        return Verdict("refuted", said)
    short = ", ".join(str(x) for x in uniform.index[uniform.high < uniform.bound])
    because = (
        f" At x = {short} the mean is below log2 x = "
        f"{', '.join(f'{b:.2f}' for b in uniform.bound[uniform.high < uniform.bound])}: D's table "
        "shows one set of queries for each x, and its theorem speaks of Ω(log2 x), a multiple."
    )
    return Verdict("differs", said + because)


def swept(name: str, kind: str, axis: str, values: tuple[int, ...]) -> Experiment:
    """One of Figures 7 to 16."""
    over, x_title = AXES[axis]
    data = {"synthetic": "synthetic tuples", "icebergs": "icebergs", "streams": "streams"}[kind]
    base = Point(kind, most_k=MOST_K_OF_STREAMS if kind == "streams" else MOST_K)
    make = {
        "x": lambda v: replace(base, x=v),
        "n": lambda v: replace(base, n=v),
        "k": lambda v: replace(base, most_k=v),
        "streams": lambda v: replace(base, streams=v, n=100 * v),
        "tuples": lambda v: replace(base, n=100 * v),
    }[axis]
    claim = "DP and GA cost alike, less than INCO, IN and NS; the same order in answers a second "
    title = f"Cost, throughput and latency over {over}: {data}"
    return Experiment(
        name=name,
        title=title,
        claim=claim + f"and in lateness; the gap to NS widens with {over}.",
        source=f"D, section 10.2, Figure {name[1:]}",
        measure=lambda setting: figure(setting, axis, {v: make(v) for v in few(setting, values)}),
        chart=draw_loads(axis, x_title, f"{name}: {title[0].lower()}{title[1:]}"),
        judge=lambda rows: judge_loads(rows, axis),
    )


AXES = {
    "x": ("the number of queries", "queries x"),
    "n": ("the tuples of the window", "tuples n"),
    "k": ("the range of k", "greatest k"),
    "streams": ("the number of streams", "streams N (of 100 tuples)"),
    "tuples": ("the tuples of each stream", "tuples w of each stream"),
}
EXPERIMENTS = (
    swept("D7", "synthetic", "x", XS),
    swept("D8", "synthetic", "n", NS),
    swept("D9", "synthetic", "k", KS),
    swept("D10", "icebergs", "x", XS),
    swept("D11", "icebergs", "n", NS),
    swept("D12", "icebergs", "k", KS),
    swept("D13", "streams", "streams", STREAM_KS),
    swept("D14", "streams", "tuples", STREAM_KS),
    swept("D15", "streams", "x", XS),
    swept("D16", "streams", "k", STREAM_KS),
    Experiment(
        name="D17",
        title="Time to plan, dynamic programming and greedy",
        claim="Both take longer for longer bounds (f up to 40,000), GA less than DP.",
        source="D, section 10.2.4, Figure 17",
        measure=planning,
        chart=draw_planning,
        judge=judge_planning,
    ),
    Experiment(
        name="DT9",
        title="Cost of no sharing over the cost of DP",
        claim="NS costs 5.37, 5.96, 8.68 and 8.16 times as much as DP for 40, 60, 80 and 100 "
        "queries, more than log2 x (the table's columns are exchanged in print).",
        source="D, section 10.2.5, Table 9, and Theorem 7.1",
        measure=saved,
        chart=draw_saved,
        judge=judge_saved,
    ),
)
