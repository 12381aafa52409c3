"""Distributions of statistics that are computed world by world, exactly or in sampled worlds."""

import numpy as np

from sfumato.kernels.laws import spread_law
from sfumato.kernels.laws.end_values import first_value, last_value, small_firsts
from sfumato.kernels.laws.order_statistics import value_existences
from sfumato.kernels.laws.sampled_worlds import Drawn
from sfumato.kernels.laws.tuples import AttributeTuples
from sfumato.operators.arrays import Floats, Ints
from sfumato.operators.laws.finite_laws import MOST_WORK, SAMPLE_TIE

STATISTICS = {
    "var": spread_law.VARIANCE,
    "stddev": spread_law.DEVIATION,
    "count_distinct": spread_law.DISTINCT,
    "first": spread_law.FIRST,
    "last": -1,  # never sampled
}
OF_VALUES = ("first", "last")  # results are values of tuples: equal ones are equal, not near
MOST_SPREAD_WORK = 1e5  # tuples looked at for an exact distribution; beyond, worlds are sampled


def is_small(
    function: str, tuples: AttributeTuples, heads: Ints, begin: int, rows: int
) -> np.ndarray:
    """Return for each arrival whether the exact distribution is small enough: bool[k]."""
    if function == "last":
        return np.ones(heads.size, np.bool_)
    if function == "first":
        return small_firsts(tuples, heads, begin, rows, MOST_WORK)
    return spread_law.small_spreads(tuples, heads, begin, rows, MOST_SPREAD_WORK)


def exact_statistic(
    function: str, tuples: AttributeTuples, head: int, end: int, rows: int
) -> tuple[Floats, Floats]:
    """Return probabilities and ascending values of a statistic of tuples head ... end - 1.

    Variances and deviations that differ by rounding alone are one.
    Cost: O(worlds * rows), of first and last values see `end_values`.
    """
    if function in OF_VALUES:
        of = last_value if function == "last" else first_value
        prob, value = of(tuples, head, end, rows)
    else:
        prob, value = spread_law.spread_law(tuples, head, end, rows, STATISTICS[function])
    if not value.size:
        return prob, value
    order = np.argsort(value, kind="stable")
    prob, value = prob[order], value[order]
    near = 0.0 if function in OF_VALUES else SAMPLE_TIE * np.abs(value[1:])
    begins = np.append(0, 1 + np.flatnonzero(np.diff(value) > near))
    return np.add.reduceat(prob, begins), value[begins]


def sampled_statistics(
    function: str, drawn: Drawn, heads: Ints, begin: int, rows: int, samples: int
) -> Floats:
    """Return a statistic in sampled worlds after each arrival: float64[k, samples].

    NaN where a world has no result.
    """
    return spread_law.sampled_spreads(drawn, heads, begin, rows, STATISTICS[function], samples)


def statistic_existences(
    function: str, tuples: AttributeTuples, heads: Ints, begin: int, rows: int
) -> Floats:
    """Return the probability that there is a result after each arrival: float64[k]."""
    if function == "count_distinct":
        return np.ones(heads.size)
    if function in OF_VALUES:
        return value_existences(tuples, heads, begin, rows)
    return spread_law.pair_existences(tuples, heads, begin, rows)
