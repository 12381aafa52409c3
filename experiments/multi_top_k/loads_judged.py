"""Statements of Chen et al. (2013) on cost, throughput and latency, checked against the rows.

The paper's text has no numbers, only orders and trends. Words such as "much" and "quickly" are not
judged; the verdict gives the factors.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pandas as pd

from experiments.experiment import Verdict, verdict

SHARED, UNSHARED, ALL = ("DP", "GA"), ("IN", "NS"), ("DP", "GA", "INCO", "IN", "NS")
OURS = "DP, our run"
ALIKE = (
    0.05  # plans that differ by at most this are equal ("almost the same", in the paper's words)
)
STEADY = 0.02  # a change below this share is not a trend
IDLE = 0.05  # seconds of lateness below which a query is treated as on time


@dataclass(frozen=True)
class Loads:
    """The measured values, one row per point of the axis and one column per plan."""

    axis: str
    cost: pd.DataFrame
    work: pd.DataFrame
    answers: pd.DataFrame
    late: pd.DataFrame

    @classmethod
    def of(cls, rows: pd.DataFrame, axis: str) -> "Loads":
        """Arrange measured rows."""
        cost, work, each, late = (
            rows.pivot_table(index=axis, columns="plan", values=column)
            for column in ("cost", "work_seconds", "per_answer_seconds", "late_seconds")
        )
        return cls(axis, cost, work, 1.0 / each, late)


Check = Callable[[Loads], str]  # returns the difference from the statement; empty if it holds
Pairs = Sequence[tuple[str, str]]
NAMES = {"cost": "cost", "work": "cost", "answers": "throughput", "late": "lateness"}
SAME = (("GA", "DP"), ("DP", "GA"))
BELOW_INCO = tuple((plan, "INCO") for plan in SHARED)
INCO_ORDER = (*BELOW_INCO, *(("INCO", plan) for plan in UNSHARED))
UNSHARED_LAST = tuple((a, b) for a in SHARED for b in UNSHARED)


def order(what: str, pairs: Pairs, alike: float = ALIKE) -> Check:
    """Check that the first plan of each pair is at least as good as the second at every point."""

    def check(loads: Loads) -> str:
        values = getattr(loads, what)
        worse, slack = (1.0 / values, 0.0) if what == "answers" else (values, IDLE)
        slack = slack if what == "late" else 0.0
        found = []
        for a, b in pairs:
            wrong = worse[a] > worse[b] * (1 + alike) + slack
            if wrong.any():
                worst = (worse[a] - worse[b])[wrong].idxmax()
                places = ", ".join(f"{value:,}" for value in wrong.index[wrong])
                found.append(
                    f"{a} has a worse {NAMES[what]} than {b} at {loads.axis} = {places} "
                    f"({values[a][worst]:.1f} against {values[b][worst]:.1f} at {worst:,})"
                )
        return "; ".join(found)

    return check


def trend(what: str, plans: Sequence[str], *, falls: bool = False) -> Check:
    """Check that the values of these plans grow, or fall, along the axis."""

    def check(loads: Loads) -> str:
        values = getattr(loads, what) * (-1 if falls else 1)
        still = [plan for plan in plans if not _rises(values[plan])]
        verb = "fall" if falls else "grow"
        return f"the {NAMES[what]} of {_and(still)} does not {verb} throughout" if still else ""

    return check


def slower(what: str, pairs: Pairs) -> Check:
    """Check that the first plan of each pair grows less than the second."""

    def check(loads: Loads) -> str:
        rise = getattr(loads, what).iloc[-1] - getattr(loads, what).iloc[0]
        slack = IDLE if what == "late" else 0.0
        found = [f"for {a} as for {b}" for a, b in pairs if rise[a] > rise[b] + slack]
        return f"the {NAMES[what]} grows as much {', '.join(found)}" if found else ""

    return check


def _rises(values: pd.Series) -> bool:
    """Return whether values grow from the first to the last and fall nowhere, beyond STEADY."""
    slack = STEADY * values.abs().iloc[:-1].to_numpy()
    steps = values.diff().iloc[1:].to_numpy()
    grown = values.iloc[-1] - values.iloc[0]
    return bool((steps >= -slack).all() and grown > STEADY * abs(values.iloc[0]))


LATENESS_ALIKE = order("late", SAME, 2 * ALIKE)
ORDER_TIMES = (
    order("answers", (*SAME, *INCO_ORDER)),
    order("late", (*BELOW_INCO, ("INCO", "IN"), ("IN", "NS"))),
)
ORDER = (order("cost", SAME[:1]), order("cost", INCO_ORDER, 0.0), *ORDER_TIMES)
UNSHARED_ORDER = (
    order("cost", UNSHARED_LAST, 0.0),
    order("answers", UNSHARED_LAST),
    order("late", UNSHARED_LAST),
)
RISING = (trend("work", ALL), slower("work", INCO_ORDER))
MORE_ANSWERS = (trend("answers", SHARED), trend("late", ["NS"]), slower("late", [("IN", "NS")]))
FEWER_ANSWERS = (
    trend("answers", ALL, falls=True),
    trend("late", ALL),
    slower("late", INCO_ORDER),
)
QUERIES, SIZE = (*ORDER, *RISING, *MORE_ANSWERS), (*ORDER, *RISING, *FEWER_ANSWERS)
# Without the checks of costs.
QUERIES_TIMES, SIZE_TIMES = (*ORDER_TIMES, *MORE_ANSWERS), (*ORDER_TIMES, *FEWER_ANSWERS)


def judge_loads(rows: pd.DataFrame, axis: str, checks: tuple[Check, ...]) -> Verdict:
    """Check each statement; the verdict is "refuted" where DP costs more than NS."""
    loads = Loads.of(rows, axis)
    differs = [text for check in checks if (text := check(loads))]
    refuted = bool((loads.cost.DP > loads.cost.NS).any())
    because = f"Parts that differ: {'; '.join(differs)}."
    cost, work = loads.cost, loads.work
    said = (
        f"Costs: NS costs {_span(cost.NS / cost.DP)}, IN {_span(cost.IN / cost.DP)} and INCO "
        f"{_span(cost.INCO / cost.DP)} times as much as DP, and GA at most "
        f"{100 * ((cost.GA / cost.DP).max() - 1):.1f}% more. Answers per second from first to "
        f"last point: {ends(loads.answers)}. Seconds of lateness per query: {ends(loads.late)}."
    )
    if OURS in work:
        gain = work.DP / work[OURS]
        factors = f"{gain.min():,.0f} to {gain.max():,.0f}"
        said += f" Our kernel reduces the work of DP by factors of {factors}."
    return verdict(said, met=not differs, refuted=refuted, because=because)


def ends(values: pd.DataFrame) -> str:
    """Format the values of each plan at the first and the last point."""
    first, last = values.iloc[0], values.iloc[-1]
    return ", ".join(f"{plan} {first[plan]:.3g} to {last[plan]:.3g}" for plan in ALL)


def _span(ratio: pd.Series) -> str:
    low, high = f"{ratio.min():.1f}", f"{ratio.max():.1f}"
    return low if low == high else f"{low} to {high}"


def _and(names: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
