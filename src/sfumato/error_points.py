"""Points that stand for an error of known distribution: quantiles, fixed and not drawn."""

import numpy as np

DISTRIBUTIONS = ("normal", "uniform", "exponential")


def standard_points(n: int, dimensions: int, distribution: str) -> np.ndarray:
    """float64[n, dimensions]: quantile points of an error with mean 0 and sd 1.

    One dimension: the quantiles at (i + ½)/n; several: those of the first points of Halton's
    sequence. Raises ValueError for n < 1 or an unknown distribution.
    """
    from scipy import stats  # here, not above: workers that import this module do not need it

    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise ValueError(f"`n` must be a whole number of at least 1; got {n!r}")
    if distribution not in DISTRIBUTIONS:
        raise ValueError(f"`distribution` must be one of {DISTRIBUTIONS}; got {distribution!r}")
    if dimensions == 1:
        levels = ((np.arange(n) + 0.5) / n)[:, None]
    else:
        levels = stats.qmc.Halton(dimensions, scramble=False).random(n + 1)[1:]
    if distribution == "normal":
        return np.asarray(stats.norm.ppf(levels))
    if distribution == "uniform":
        return (2.0 * levels - 1.0) * np.sqrt(3.0)
    return -np.log1p(-levels) - 1.0
