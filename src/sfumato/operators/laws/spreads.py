"""Laws of the sample variance and standard deviation, exact or in sampled worlds."""

import numpy as np

from sfumato.kernels.laws import spread_law
from sfumato.kernels.laws.sampled_worlds import Drawn
from sfumato.kernels.laws.tuples import Tuples
from sfumato.operators.arrays import Floats, Ints
from sfumato.operators.laws.finite_laws import ROUNDING

SPREADS = {"var": False, "stddev": True}  # whether the root is taken
MOST_WORK = 1e5  # tuples looked at for an exact law; beyond, worlds are sampled


def few_worlds(tuples: Tuples, heads: Ints, begin: int, rows: int) -> np.ndarray:
    """Return for each arrival whether the exact law is small enough: bool[k]."""
    return spread_law.small_spreads(tuples, heads, begin, rows, MOST_WORK)


def exact_spread(
    function: str, tuples: Tuples, head: int, end: int, rows: int
) -> tuple[Floats, Floats]:
    """Return probabilities and ascending values of the spread of tuples head ... end - 1.

    Values that differ by rounding alone are one. Cost: O(worlds * rows).
    """
    prob, value = spread_law.spread_law(tuples, head, end, rows, SPREADS[function])
    if not value.size:
        return prob, value
    order = np.argsort(value, kind="stable")
    prob, value = prob[order], value[order]
    begins = np.append(0, 1 + np.flatnonzero(np.diff(value) > ROUNDING * np.abs(value[1:])))
    return np.add.reduceat(prob, begins), value[begins]


def sampled_spreads(
    function: str, drawn: Drawn, heads: Ints, begin: int, rows: int, samples: int
) -> Floats:
    """Return the spread in sampled worlds after each arrival: float64[k, samples], NaN for none."""
    return spread_law.sampled_spreads(drawn, heads, begin, rows, SPREADS[function], samples)


def spread_existences(tuples: Tuples, heads: Ints, begin: int, rows: int) -> Floats:
    """Return the probability that two tuples have a value after each arrival: float64[k]."""
    return spread_law.pair_existences(tuples, heads, begin, rows)
