"""D's statements on cost, throughput and latency, each checked against the measured rows.

D gives no numbers in its text, only orders and trends. Words such as "much" and "quickly" are not
judged: the factors stand in the verdict.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from experiments.experiment import Verdict, verdict

SHARED, ALL = ("DP", "GA"), ("DP", "GA", "INCO", "IN", "NS")
UNSHARED = ("IN", "NS")
OURS = "DP, our run"
ALIKE = 0.05  # plans whose values differ by no more are equal, "almost the same" in D's words
STEADY = 0.02  # a change below this share is no trend
IDLE = 0.05  # seconds of lateness below which a query is not late


@dataclass(frozen=True)
class Loads:
    """The measured values, one row per point of the axis and one column per plan.

    cost : planned cost per unit of time    work : measured seconds of running per unit of time
    answers : answers per second    late : seconds of lateness per query
    """

    axis: str
    cost: pd.DataFrame
    work: pd.DataFrame
    answers: pd.DataFrame
    late: pd.DataFrame

    @classmethod
    def of(cls, rows: pd.DataFrame, axis: str) -> "Loads":
        """Arrange measured rows."""

        def table(column: str) -> pd.DataFrame:
            return rows.pivot_table(index=axis, columns="plan", values=column)

        return cls(
            axis,
            table("cost"),
            table("work_seconds"),
            1.0 / table("per_answer_seconds"),
            table("late_seconds"),
        )


Check = Callable[[Loads], str]  # what differs from the statement; empty if it holds


def cost_order(loads: Loads) -> str:
    """Check that DP and GA cost the same, less than INCO, and INCO less than IN and NS."""
    cost = loads.cost
    if (cost.GA > (1 + ALIKE) * cost.DP).any():
        return "the costs of DP and GA differ by more than 5% at some point"
    pairs = [*((a, "INCO") for a in SHARED), *(("INCO", b) for b in UNSHARED)]
    cheaper = all((cost[a] <= cost[b]).all() for a, b in pairs)
    return "" if cheaper else "a plan with more sharing costs more at some point"


def unshared_cost(loads: Loads) -> str:
    """Check that DP and GA cost less than IN and NS."""
    cost = loads.cost
    cheaper = all((cost[a] < cost[b]).all() for a in SHARED for b in UNSHARED)
    return "" if cheaper else "DP or GA cost as much as IN or NS at some point"


def throughput_order(loads: Loads) -> str:
    """Check that DP and GA answer alike and more than INCO, and INCO more than IN and NS."""
    answers = loads.answers
    if ((answers.GA / answers.DP - 1).abs() > ALIKE).any():
        return "the throughputs of DP and GA differ by more than 5% at some point"
    pairs = [*((a, "INCO") for a in SHARED), *(("INCO", b) for b in UNSHARED)]
    return _exceeded(loads, answers, pairs, "gives fewer answers than", lower=True)


def unshared_throughput(loads: Loads) -> str:
    """Check that DP and GA give more answers than IN and NS."""
    pairs = [(a, b) for a in SHARED for b in UNSHARED]
    return _exceeded(loads, loads.answers, pairs, "gives fewer answers than", lower=True)


def lateness_order(loads: Loads) -> str:
    """Check that DP and GA are no later than INCO, INCO no later than IN, and IN than NS."""
    pairs = [*((a, "INCO") for a in SHARED), ("INCO", "IN"), ("IN", "NS")]
    return _exceeded(loads, loads.late, pairs, "is later than", lower=False)


def unshared_lateness(loads: Loads) -> str:
    """Check that DP and GA are less late than IN and NS."""
    pairs = [(a, b) for a in SHARED for b in UNSHARED]
    return _exceeded(loads, loads.late, pairs, "is later than", lower=False)


def lateness_alike(loads: Loads) -> str:
    """Check that DP and GA are equally late."""
    late = loads.late
    apart = (late.DP - late.GA).abs() > 2 * ALIKE * late[[*SHARED]].max(axis=1) + IDLE
    if not apart.any():
        return ""
    return f"DP and GA are not equally late {_places(loads, apart)}"


def cost_rises(loads: Loads) -> str:
    """Check that the work of each plan grows along the axis."""
    still = [plan for plan in ALL if not _rises(loads.work[plan])]
    return f"the cost of {_and(still)} does not grow throughout" if still else ""


def cost_rises_slower_when_shared(loads: Loads) -> str:
    """Check that the work of DP and GA grows less than INCO's, and INCO's less than IN's and NS's.

    The gap to NS must widen at every step.
    """
    rise = loads.work.iloc[-1] - loads.work.iloc[0]
    ordered = max(rise[[*SHARED]]) < rise.INCO < min(rise[[*UNSHARED]])
    gap = loads.work.NS - loads.work.DP
    if not ordered:
        return "the costs of plans with more sharing do not grow at a lower rate"
    return "" if (gap.diff().iloc[1:] > 0).all() else "the gap to NS does not widen throughout"


def throughput_rises_when_shared(loads: Loads) -> str:
    """Check that DP and GA give more answers along the axis."""
    still = [plan for plan in SHARED if not _rises(loads.answers[plan])]
    return f"the throughput of {_and(still)} does not grow throughout" if still else ""


def throughput_falls(loads: Loads) -> str:
    """Check that every plan gives fewer answers along the axis."""
    still = [plan for plan in ALL if not _rises(-loads.answers[plan])]
    if not still:
        return ""
    return (
        f"the throughput of {_and(still)} does not fall with {loads.axis}: a machine that keeps up "
        "answers as often as the plan says, whatever a run costs"
    )


def lateness_rises(loads: Loads) -> str:
    """Check that every plan becomes later along the axis, and more so with less sharing."""
    late = loads.late
    still = [plan for plan in ALL if late[plan].iloc[-1] - late[plan].iloc[0] <= IDLE]
    rise = late.iloc[-1] - late.iloc[0]
    found = []
    if still:
        found.append(
            f"the lateness of {_and(still)} does not grow with {loads.axis}, "
            f"{late[still].max().max():.2g} s at most"
        )
    for plan in SHARED:
        if rise[plan] > rise.INCO + IDLE:
            found.append(
                f"the lateness of {plan} grows by {rise[plan]:.1f} s, that of INCO by "
                f"{rise.INCO:.1f} s"
            )
    if min(rise[[*UNSHARED]]) <= rise.INCO:
        found.append("the lateness of INCO grows as much as that of IN or NS")
    return "; ".join(found)


def lateness_of_ns_rises(loads: Loads) -> str:
    """Check that NS becomes later along the axis and IN less so."""
    late = loads.late
    rise = late.iloc[-1] - late.iloc[0]
    if not _rises(late.NS):
        return "the lateness of NS does not grow throughout"
    return "" if rise.IN < rise.NS else "the lateness of IN grows as much as that of NS"


ORDER = (cost_order, throughput_order, lateness_order)
UNSHARED_ORDER = (unshared_cost, unshared_throughput, unshared_lateness)
QUERIES = (
    *ORDER, cost_rises, cost_rises_slower_when_shared, throughput_rises_when_shared,
    lateness_of_ns_rises,
)  # fmt: skip
SIZE = (*ORDER, cost_rises, cost_rises_slower_when_shared, throughput_falls, lateness_rises)
# Without costs.
QUERIES_TIMES = (
    throughput_order, lateness_order, throughput_rises_when_shared, lateness_of_ns_rises,
)  # fmt: skip
SIZE_TIMES = (throughput_order, lateness_order, throughput_falls, lateness_rises)


def judge_loads(rows: pd.DataFrame, axis: str, checks: tuple[Check, ...]) -> Verdict:
    """Check each statement; refuted where DP costs more than NS."""
    loads = Loads.of(rows, axis)
    differs = [text for check in checks if (text := check(loads))]
    refuted = bool((loads.cost.DP > loads.cost.NS).any())
    because = f"Parts that differ: {'; '.join(differs)}."
    return verdict(_said(loads), met=not differs, refuted=refuted, because=because)


def _said(loads: Loads) -> str:
    """The measured factors."""
    cost, answers, late, work = loads.cost, loads.answers, loads.late, loads.work
    first, last = work.index[0], work.index[-1]
    ends = ", ".join(
        f"{plan} {late[plan].iloc[0]:.3g} to {late[plan].iloc[-1]:.3g}" for plan in ALL
    )
    given = ", ".join(
        f"{plan} {answers[plan].iloc[0]:.3g} to {answers[plan].iloc[-1]:.3g}" for plan in ALL
    )
    said = (
        f"Costs: NS {_span(cost.NS / cost.DP)}, IN {_span(cost.IN / cost.DP)} and INCO "
        f"{_span(cost.INCO / cost.DP)} times as much as DP, GA at most "
        f"{100 * ((cost.GA / cost.DP).max() - 1):.1f}% more; the work that NS asks for beyond DP "
        f"is {work.NS.iloc[0] - work.DP.iloc[0]:.2g} s per second at {loads.axis} = {first:,} and "
        f"{work.NS.iloc[-1] - work.DP.iloc[-1]:.2g} s at {last:,}. Answers per second from first "
        f"to last point: {given}. Seconds of lateness per query: {ends}."
    )
    if OURS in work:
        gain = work.DP / work[OURS]
        said += f" With our kernel DP's work is {gain.min():,.0f} to {gain.max():,.0f} times less."
    return said


def _exceeded(
    loads: Loads, values: pd.DataFrame, pairs: list[tuple[str, str]], verb: str, *, lower: bool
) -> str:
    """Name the pairs (a, b) whose order fails, with the points and values of the worst one."""
    found = []
    for a, b in pairs:
        less, more = (values[b], values[a]) if lower else (values[a], values[b])
        slack = 0.0 if lower else IDLE
        wrong = less > more * (1 + ALIKE) + slack
        if wrong.any():
            worst = (less - more)[wrong].idxmax()
            found.append(
                f"{a} {verb} {b} {_places(loads, wrong)} ({values[a][worst]:.1f} against "
                f"{values[b][worst]:.1f} at {worst:,})"
            )
    return "; ".join(found)


def _places(loads: Loads, chosen: pd.Series) -> str:
    return f"at {loads.axis} = {', '.join(f'{value:,}' for value in chosen.index[chosen])}"


def _rises(values: pd.Series) -> bool:
    """Whether values grow from the first to the last and fall nowhere, beyond STEADY."""
    slack = STEADY * values.abs().iloc[:-1].to_numpy()
    steps = values.diff().iloc[1:].to_numpy()
    grown = values.iloc[-1] - values.iloc[0]
    return bool((steps >= -slack).all() and grown > STEADY * abs(values.iloc[0]))


def _span(ratio: pd.Series) -> str:
    low, high = f"{ratio.min():.1f}", f"{ratio.max():.1f}"
    return low if low == high else f"{low} to {high}"


def _and(names: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
