"""Timetables for queries that share runs, each with a maximum time between two answers."""

import math
import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from heapq import merge
from itertools import count, repeat, takewhile
from typing import Any

import numpy as np

from sfumato.kernels.ranking.timetable import greedy_timetable, optimal_timetable

# Names in the paper, and aliases.
PLANS = {name: name for name in ("dp", "time", "greedy", "inco", "in", "none")}
PLANS |= {"ga": "greedy", "ns": "none"}
SHARING_PLANS = ("dp", "time", "greedy")
# Fixed time of a run, in units of the time per k: 155 to 360 when measured over windows of 1,000
# and 5,000 tuples. Over smaller windows, k does not matter.
RUN_TIME = 200
LONGEST_CYCLE = 40_000  # units per cycle; longer bounds are shortened to this length
MIN_UNITS_PER_BOUND = 50  # minimum number of units in the shortest bound, if the unit is coarsened
MAX_LISTED_RUNS = 1_000_000

KAndFrequency = tuple[int, int]
Run = tuple[int, int]
no_runs = partial(np.empty, 0, np.int64)


@dataclass(frozen=True)
class Timetable:
    """The runs of one cycle, which repeats; nothing runs at instant 0.

    Parameters
    ----------
    plan
        "dp", "time", "greedy", "inco", "in" or "none"
    queries
        (k, every) as given
    groups
        Indices of each group's queries
    ks
        Each group's largest k, the cost of a run
    bounds
        Each group's shortest `every`
    cycle
        Time after which the runs repeat
    cost
        Sum of k over the runs of a cycle, divided by `cycle`
    times, numbers
        Instants and groups of the runs in a shared cycle; empty if each group runs separately

    Notes
    -----
    A run (time, group) has 0 < time <= cycle and a group numbered from 1. The run answers
    groups 1 ... group under "dp", "time" and "greedy", and only this group under the other plans.
    Cost: `cost_per_unit` is the sum of k per unit of time.

    References
    ----------
    Chen et al. (2013), sections 4 to 8. IEEE TKDE 25(8), pages 1814-1829.

    Examples
    --------
    >>> plan = sf.engine_free.timetable([(3, 2), (2, 2), (4, 3)])
    >>> plan.ks, plan.bounds, plan.cycle
    ((3, 4), (2, 3), 2)
    """

    plan: str
    queries: tuple[KAndFrequency, ...]
    groups: tuple[tuple[int, ...], ...]
    ks: tuple[int, ...]
    bounds: tuple[int, ...]
    cycle: int
    cost: Fraction = field(repr=False)
    times: np.ndarray = field(default_factory=no_runs, repr=False, compare=False)
    numbers: np.ndarray = field(default_factory=no_runs, repr=False, compare=False)

    @property
    def cost_per_unit(self) -> float:
        """Sum of k over the runs of a cycle, divided by `cycle` (in the unit of `every`)."""
        return float(self.cost)

    @property
    def shared(self) -> bool:
        """Return whether one run answers several groups."""
        return self.times.size > 0

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """Runs (time, group) of one cycle, in order.

        Raises ValueError if groups run separately and a cycle has more than 1,000,000 runs; iterate
        over `after` instead.
        """
        if self.shared:
            return tuple(zip(self.times.tolist(), self.numbers.tolist(), strict=True))
        if sum(self.cycle // bound for bound in self.bounds) > MAX_LISTED_RUNS:
            raise ValueError(
                f"the timetable repeats only after {self.cycle} units and has too many runs to "
                'list: iterate over `after`, or use plan="dp"'
            )
        return tuple(self.until(0, self.cycle))

    def answers(self, group: int) -> tuple[int, ...]:
        """Return the indices of the queries that a run of this group answers, ascending."""
        groups = self.groups[:group] if self.shared else self.groups[group - 1 : group]
        return tuple(sorted(query for each in groups for query in each))

    def after(self, instant: int) -> Iterator[Run]:
        """Yield all runs (time, group) after an instant >= 0; the iterator never ends."""
        if not self.shared:
            each = [
                zip(count((instant // bound + 1) * bound, bound), repeat(group))
                for group, bound in enumerate(self.bounds, 1)
            ]
            yield from merge(*each)
            return
        turn, rest = divmod(instant, self.cycle)
        place = int(np.searchsorted(self.times, rest, side="right"))
        while True:
            for j in range(place, self.times.size):
                yield turn * self.cycle + int(self.times[j]), int(self.numbers[j])
            turn, place = turn + 1, 0

    def until(self, instant: int, last: int) -> Iterator[Run]:
        """Yield the runs in (instant, last]."""
        return takewhile(lambda run: run[0] <= last, self.after(instant))

    def count_until(self, instants: np.ndarray) -> np.ndarray:
        """Return int64[...]: the number of runs in (0, instant]. Requires a shared cycle."""
        turn, rest = np.divmod(instants, self.cycle)
        return turn * self.times.size + np.searchsorted(self.times, rest, side="right")

    def runs_at(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the times and groups, int64[r] each, of the runs with these numbers (from 0)."""
        turn, place = np.divmod(numbers, self.times.size)
        return turn * self.cycle + self.times[place], self.numbers[place]

    def last_before(self, instant: int, last: int) -> int | None:
        """Return the time of the last run in (instant, last]; None if there is none."""
        if not self.shared:
            latest = max(last // bound * bound for bound in self.bounds)
        else:
            latest = int(self.runs_at(self.count_until(np.array(last)) - 1)[0])
        return latest if latest > instant else None


def timetable(queries: Iterable[Sequence[Any]], plan: str = "dp") -> Timetable:
    """Plan the instants at which several top-k queries over the same window are answered.

    Parameters
    ----------
    queries
        Pairs (k, every) of integers of at least 1: `k`, the cost of the query, and `every`, the
        longest time between two answers, in any unit (microseconds at run time)
    plan
        "dp" (default) has the smallest sum of k per unit of time. "time" has the shortest running
        time, where the time of a run for k is proportional to 200 + k. "greedy" (GA in the paper)
        costs at most twice as much as "dp" and is planned faster. For comparison, "none" (NS)
        runs every query separately, "in" (IN) runs queries of equal `every` together, and "inco"
        (INCO) also runs queries of lower k together with more frequent queries

    Returns
    -------
    A `Timetable`.

    Raises
    ------
    ValueError
        For an empty list, an unknown plan or numbers out of range.

    Notes
    -----
    Guarantee: after instant 0, no query waits longer than its `every` for its next answer.
    The unit of time is the greatest common divisor of the values of `every`. If the largest value
    has more than 40,000 such units, "dp", "time" and "greedy" may use a coarser unit, at most 1/50
    of the shortest `every`. They then round each `every` down to whole units, at most 40,000. The
    guarantee still holds; the cost may be a few percent above the optimum.
    Cost: if the longest `every` has f units, "dp" and "time" take O(f**2) at worst and usually
    about O(f), other plans O(f).

    References
    ----------
    Chen et al. (2013), sections 4 (IN), 5 (INCO), 7 (DP) and 8 (GA). IEEE TKDE 25(8), pages
    1814-1829.

    Examples
    --------
    >>> table = timetable([(3, 2), (2, 2), (4, 3), (3, 5), (5, 5), (2, 7)])
    >>> table.cost_per_unit, table.cycle, table.runs
    (2.25, 4, ((2, 2), (4, 3)))
    """
    name = PLANS.get(str(plan).lower())
    if name is None:
        raise ValueError(f'`plan` must be "dp", "time", "greedy" or "none"; got {plan!r}')
    if not isinstance(queries, Iterable):
        raise TypeError(
            "`queries` must be a list of pairs (k, every), like [(3, 60), (5, 120)]; got "
            f"{queries!r}"
        )
    return _plan(tuple(checked_query(query) for query in queries), name)


@lru_cache(maxsize=256)
def _plan(queries: tuple[KAndFrequency, ...], plan: str) -> Timetable:
    """Plan a timetable of checked queries; cached, because all keys of a stream share it."""
    if not queries:
        raise ValueError("`queries` must contain at least one pair (k, every)")
    unit = math.gcd(*(every for _, every in queries))
    if plan in SHARING_PLANS:
        unit = _time_unit(unit, queries)
        queries_in_units = [(k, min(every // unit, LONGEST_CYCLE)) for k, every in queries]
    else:
        queries_in_units = [(k, every // unit) for k, every in queries]
    groups, ks, bounds = _group_queries(queries_in_units, plan)
    about = (plan, queries, groups, ks, tuple(bound * unit for bound in bounds))
    if plan not in SHARING_PLANS:
        cost = sum((Fraction(k, bound * unit) for k, bound in zip(ks, bounds, strict=True)))
        return Timetable(*about, math.lcm(*bounds) * unit, Fraction(cost))
    f, costs = np.array(bounds, np.int64), np.array(ks, np.int64)
    if plan == "greedy":
        times, numbers = greedy_timetable(f)
    else:
        times, numbers = optimal_timetable(f, costs + (RUN_TIME if plan == "time" else 0))
    cycle, total = int(times[-1]) * unit, sum(ks[number] for number in numbers.tolist())
    times, numbers = times * unit, numbers + 1
    times.flags.writeable = numbers.flags.writeable = False
    return Timetable(*about, cycle, Fraction(total, cycle), times, numbers)


def _time_unit(divisor: int, queries: tuple[KAndFrequency, ...]) -> int:
    """Return the unit of time: the greatest common divisor, or a coarser unit if it is too fine."""
    shortest, longest = (pick(every for _, every in queries) for pick in (min, max))
    if longest <= LONGEST_CYCLE * divisor:
        return divisor
    return max(divisor, min(-(-longest // LONGEST_CYCLE), shortest // MIN_UNITS_PER_BOUND))


def _group_queries(
    queries: list[KAndFrequency], plan: str
) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...], tuple[int, ...]]:
    """Return the groups' queries, largest k and bounds, by ascending bound."""
    members: list[list[int]] = []
    alone = plan == "none"
    # In this order, the first query of a group has the group's largest k and its bound.
    for i in sorted(
        range(len(queries)), key=lambda i: (queries[i][1], -queries[i][0] * (not alone))
    ):
        k, every = queries[i]
        first = queries[members[-1][0]] if members and not alone else (0, 0)
        if first[1] == every or (plan != "in" and first[0] >= k):
            members[-1].append(i)
        else:
            members.append([i])
    ks, bounds = zip(*(queries[group[0]] for group in members), strict=True)
    return tuple(tuple(sorted(group)) for group in members), ks, bounds


def checked_query(query: Sequence[Any]) -> KAndFrequency:
    """Return the query as (k, every). Raises ValueError if it is not such a pair."""
    try:
        k, every = (operator.index(number) for number in query)
    except (TypeError, ValueError):
        k, every = 0, 0
    if not (1 <= k < 2**31 and 1 <= every < 2**53):
        raise ValueError(
            "`queries` must be pairs (k, every) of integers of at least 1, where every is "
            f"the longest time between two answers; got {query!r}"
        )
    return k, every
