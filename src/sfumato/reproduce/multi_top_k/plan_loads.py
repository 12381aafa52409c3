"""D's experiments: many top-k queries over one window, and what their sharing saves."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from sfumato.operators.ranking.timetable import timetable
from sfumato.operators.ranking.top_k import top_k_probabilities, top_k_streams
from sfumato.reproduce.drawing import Lines, Titles, side_by_side
from sfumato.reproduce.experiment import Experiment, Setting, Verdict, verdict
from sfumato.reproduce.multi_top_k.plain_top_k import top_k_from_scratch
from sfumato.reproduce.multi_top_k.query_load import carried_out
from sfumato.reproduce.multi_top_k.ranked_windows import (
    MOST_K,
    MOST_K_OF_STREAMS,
    Data,
    Point,
    queries,
    window,
)
from sfumato.reproduce.repeats import seconds

# D's table of parameters is not in the text at hand; what its running text does not name of the
# axes' values is ours: the number of streams, their tuples and k over several streams.
XS = (20, 40, 60, 80, 100)
NS = (2_000, 4_000, 6_000, 8_000, 10_000)
KS = (200, 400, 600, 800, 1_000)
STREAM_KS = (20, 40, 60, 80, 100)
PLANS = {"NS": "none", "IN": "in", "INCO": "inco", "GA": "greedy", "DP": "dp"}
OURS = "DP, our run"
FASTEST = 1e-9

Price = Callable[[int], float]


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
        by_them = spent(partial(top_k_from_scratch, ranked, ranked_rule, k, step // 2, step))
        if streams is None:
            by_us = spent(partial(top_k_probabilities, score, prob, rule, k=k))
        else:
            by_us = spent(partial(top_k_streams, score, prob, streams, rule, k=k))
        times.append((by_them * step, by_us))
    theirs, ours = np.maximum.accumulate(np.maximum(times, FASTEST)).T
    return (
        lambda k: float(np.interp(k, ks, theirs)),
        lambda k: float(np.interp(k, ks, ours)),
    )


def spent(call: Callable[[], object]) -> float:
    """Processor time of the better of two calls, after one that compiles."""
    call()
    return seconds(call, tries=2)


def loads(setting: Setting, point: Point, priced: tuple[Price, Price]) -> pd.DataFrame:
    """A row for each way to answer the queries, the mean over several sets of them."""
    runs = []
    for repeat in range(setting.pick(3, 20)):
        drawn = queries(setting.rng(2, repeat), "uu", point.x, (2, point.most_k))
        for name in (*PLANS, OURS):
            table = timetable(drawn, PLANS.get(name, "dp"))
            load = carried_out(table, priced[name == OURS], setting.pick(120.0, 400.0))
            runs.append((name, table.cost_per_unit, load.work, load.answers, load.lateness))
    names = ["plan", "cost", "work_seconds", "per_answer_seconds", "late_seconds"]
    means = pd.DataFrame(runs, columns=names).groupby("plan", sort=False, as_index=False).mean()
    # Answers a second, turned over: timings are recognised by the ends of their names.
    return means.assign(per_answer_seconds=1.0 / means.per_answer_seconds)


def figure(setting: Setting, axis: str, points: dict[int, Point]) -> pd.DataFrame:
    """All points of one figure; the runs of equal windows are timed once."""
    result = []
    priced: dict[tuple[str, int, int], tuple[Price, Price]] = {}
    most_k = max(point.most_k for point in points.values())
    for value, point in setting.steps(points.items()):
        key = (point.kind, point.n, point.streams)
        if key not in priced:
            data = window(setting, point)
            priced[key] = prices(data, most_k, setting.pick(20, 200))
        found = loads(setting, point, priced[key])
        found.insert(0, axis, value)
        result.append(found)
    return pd.concat(result, ignore_index=True)


def few(setting: Setting, values: tuple[int, ...]) -> tuple[int, ...]:
    """All values of an axis, or in a quick run its ends."""
    return tuple(setting.pick((values[0], values[-1]), values))


def draw_loads(axis: str, x_title: str) -> Callable[[pd.DataFrame], Any]:
    def draw(rows: pd.DataFrame) -> Any:
        # A logarithmic axis shows no zeros: answers that are never late count as a millisecond.
        shown = rows.assign(
            throughput=1.0 / rows.per_answer_seconds,
            late_seconds=rows.late_seconds.clip(lower=1e-3),
        )
        cost = rows.pivot_table(index=axis, columns="plan", values="cost")
        hidden = " (GA lies under DP)" if (cost.GA < 1.05 * cost.DP).all() else ""
        about = [
            (f"(a) cost{hidden}", "work_seconds", "work a second (s)"),
            ("(b) throughput", "throughput", "answers a second"),
            ("(c) latency (none shown as 1 ms)", "late_seconds", "lateness a query (s)"),
        ]
        parts = []
        for heading, column, y_title in about:
            titles = Titles(x_title, y_title, "plan")
            parts.append((heading, Lines(axis, column, "plan", titles, log_y=True)(shown)))
        return side_by_side(parts)

    return draw


def judge_loads(rows: pd.DataFrame, axis: str) -> Verdict:
    """DP <= GA <= INCO <= IN <= NS in cost; DP and GA alike; more answers, less lateness."""
    cost = rows.pivot_table(index=axis, columns="plan", values="cost")
    answers = 1.0 / rows.pivot_table(index=axis, columns="plan", values="per_answer_seconds")
    late = rows.pivot_table(index=axis, columns="plan", values="late_seconds")
    order = ["DP", "GA", "INCO", "IN", "NS"]
    steps = list(pairwise(order))
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
        f"{(work.DP / work[OURS]).min():,.0f} to {(work.DP / work[OURS]).max():,.0f} times less. "
        "Answers a second and lateness are simulated: one machine that carries out the runs one "
        "after the other, each in the time that was measured for its k. Their order is that of "
        "GA ≤ INCO ≤ IN ≤ NS; DP and GA, which cost alike, are left out of it."
    )
    as_reported = {
        "a plan with more sharing costs more at some point": cheaper,
        "GA's costs are not DP's": alike < 1.1,
        "where the machine keeps up, a plan that runs more often gives more answers, whatever "
        "it costs": more,
        "a cheaper plan is later at some point, its single chain of runs being moved": sooner,
        "the gap does not widen": wider,
    }
    because = f"But {'; '.join(but for but, holds in as_reported.items() if not holds)}."
    refuted = (cost.DP > cost.NS).any()
    return verdict(said, met=all(as_reported.values()), refuted=refuted, because=because)


def moved(base: Point, axis: str, value: int) -> Point:
    """The point with another value on an axis; a window of streams has 100 tuples of each."""
    if axis in ("x", "n", "k"):
        changed: dict[str, Any] = {"most_k" if axis == "k" else axis: value}
        return replace(base, **changed)
    return replace(base, n=100 * value, streams=value if axis == "streams" else base.streams)


def swept(name: str, kind: str, axis: str, values: tuple[int, ...]) -> Experiment:
    """One of Figures 7 to 16."""
    over, x_title = AXES[axis]
    data = {"synthetic": "synthetic tuples", "icebergs": "icebergs", "streams": "several streams"}
    base = Point(kind, most_k=MOST_K_OF_STREAMS if kind == "streams" else MOST_K)
    return Experiment(
        name=name,
        title=f"Cost, throughput and latency over {over}: {data[kind]}",
        claim="DP and GA cost alike, less than INCO, IN and NS; the same order in answers a second "
        f"and in lateness; the gap to NS widens with {over}.",
        source=f"D, section 10.2, Figure {name[1:]}",
        measure=lambda setting: figure(
            setting, axis, {v: moved(base, axis, v) for v in few(setting, values)}
        ),
        draw=draw_loads(axis, x_title),
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
)
