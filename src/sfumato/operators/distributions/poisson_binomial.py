"""Distribution of the number of existing tuples among independent uncertain tuples."""

from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.kernels.distributions.poisson_binomial import distribution_of_sum
from sfumato.kernels.distributions.tuples import CERTAIN as CERTAIN
from sfumato.kernels.distributions.tuples import check_probabilities
from sfumato.kernels.tolerances import NEGLIGIBLE_COUNT, UNDERFLOW
from sfumato.operators.arguments import SUM_TOLERANCE
from sfumato.operators.arrays import Floats

COUNT_METHODS = ("exact", "poisson", "normal", "refined_normal")


def as_floats(name: str, values: npt.ArrayLike) -> Floats:
    """Return `values` as a contiguous float64[n], or raise ValueError with `name`."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"`{name}` must be an array of numbers; got {values!r:.80}") from None
    if array.ndim != 1:
        raise ValueError(f"`{name}` must have one dimension; got {array.ndim}")
    return np.require(array, requirements=["C", "W"])  # as compiled kernels need it


def checked_existence(name: str, values: npt.ArrayLike) -> tuple[Floats, int, int]:
    """Return existences as a contiguous float64[n], the number equal to 1, and the number above 0.

    Values up to 1 + 1e-9 are clipped to 1. Raises ValueError, with `name`, for a wrong dimension
    and for values that are not numbers in range.
    """
    array = as_floats(name, values)
    bad, above, certain, possible = check_probabilities(array, 1.0 + SUM_TOLERANCE)
    if bad >= 0:
        raise ValueError(
            f"`{name}` must contain probabilities in [0, 1]; got {array[bad]} at index {bad}. "
            "Reject or repair such tuples first"
        )
    return np.minimum(array, 1.0) if above else array, certain, possible


def approximate_tails(method: str, p: Floats, k: Floats) -> Floats:
    """Return float64[2, n]: moment approximations of Pr(N <= k) and Pr(N > k).

    N is a sum of independent Bernoulli variables with probabilities p.
    method : "poisson", "normal" (with a continuity correction) or "refined_normal" (also
        corrected for skewness). The normal methods are exact if every p is 0 or 1
    p : float64[m]    k : float64[n], integers of at least 0
    Source: Dallachiesa et al. (2015), equations (14)-(17); the paper swaps Phi and phi below (17).
    """
    from scipy.special import ndtr, pdtr, pdtrc  # slow to import and rarely needed

    mu, spread = p.sum(), p * (1.0 - p)
    variance = spread.sum()
    if method == "poisson":
        return np.array([pdtr(k, mu), pdtrc(k, mu)])
    if variance == 0.0:
        return np.array([k >= mu, k < mu], np.float64)
    x = (k + 0.5 - mu) / np.sqrt(variance)
    tails = np.array([ndtr(x), ndtr(-x)])
    if method == "refined_normal":
        near = np.abs(x) < 38.0  # farther out, the density is 0
        x = np.where(near, x, 0.0)
        with np.errstate(invalid="ignore", divide="ignore"):
            skewness = (spread * (1.0 - 2.0 * p)).sum() / (variance * np.sqrt(variance))
            term = skewness * (1.0 - x * x) * np.exp(-0.5 * x * x) / np.sqrt(72.0 * np.pi)
        tails += np.where(near, term, 0.0) * np.array([[1.0], [-1.0]])
    return np.clip(tails, 0.0, 1.0)


class PoissonBinomial:
    """Distribution of N, the number of existing tuples among n independent tuples.

    Parameters
    ----------
    p
        float array [n] of existence probabilities in [0, 1] (up to 1 + 1e-9, clipped)
    method
        "exact" (default), or the approximations "poisson", "normal" and "refined_normal"

    Raises
    ------
    ValueError
        For a wrong dimension, NaN, values out of [0, 1] or an unknown method.

    Notes
    -----
    With every method, cdf is exactly 0 for k < 0 and 1 for k >= n, and sf exactly 1 and 0. With
    "exact", cdf is also 0 if k is below the number of p equal to 1, and 1 if k is at least the
    number of positive p. If every p is 0 or 1, the two normal methods are exact.

    Error: "exact" has a relative error below 4e-16 n in pmf, cdf and sf, including far tails down
    to 1e-290. The error of the approximations is not bounded.
    Cost: for "exact", O(n sigma) once, at the first query; a single cdf at n = 1,000 takes about 30
    microseconds. Arrays of queries, `pmf` and tails below about 1e-8 need the whole distribution.
    The distribution is computed once, which takes twice as long at n = 1,000.

    References
    ----------
    Dallachiesa et al. (2015), equations (14) to (17). https://doi.org/10.1007/s10115-014-0804-5

    Examples
    --------
    >>> distribution = PoissonBinomial([0.5, 0.5, 1.0])
    >>> distribution.pmf().tolist()
    [0.0, 0.25, 0.5, 0.25]
    >>> distribution.cdf(1), distribution.sf(2)
    (0.25, 0.25)
    """

    def __init__(self, p: npt.ArrayLike, method: str = "exact") -> None:
        if method not in COUNT_METHODS:
            names = ", ".join(f'"{name}"' for name in COUNT_METHODS)
            raise ValueError(f"`method` must be one of {names}; got {method!r}")
        checked, certain, possible = checked_existence("p", p)
        self._p = checked.copy()
        self.method = method
        exact = method == "exact"
        self._least, self._most = (certain, possible) if exact else (0, len(self))
        self._tables: dict[bool, tuple[Floats, Floats]] = {}  # key: whether the table is wide

    def __len__(self) -> int:
        return self._p.size

    def pmf(self) -> Floats:
        """Return Pr(N = k) at index k: float64[n + 1].

        Approximate methods return differences of their cdf, with sum 1. The differences can be
        slightly negative for "refined_normal", whose cdf is not monotone everywhere.
        """
        if self.method != "exact":
            return np.diff(self.cdf(np.arange(len(self) + 1)), prepend=0.0)
        return self._table(wide=True)[0].copy()

    def cdf(self, k: Any) -> Any:
        """Return Pr(N <= k), as a float or, for an array, as float64 of the same shape."""
        return self._answer(k, 0)

    def sf(self, k: Any) -> Any:
        """Return Pr(N > k), which is accurate for small tails, unlike 1 - cdf(k)."""
        return self._answer(k, 1)

    def _answer(self, k: Any, side: int) -> Any:
        places = self._places(k)
        of = self._exact if self.method == "exact" else self._approximate
        values = of(places, side)
        return float(values) if places.ndim == 0 else values

    def _places(self, k: Any) -> npt.NDArray[np.int64]:
        """Return counts rounded down to integers; impossible counts become -1 or n."""
        counts = np.asarray(k)
        if counts.dtype.kind != "i":
            counts = np.floor(counts.astype(np.float64))
            if np.isnan(counts).any():
                raise ValueError("`k` must be a number of tuples; got NaN")
        return np.minimum(np.maximum(counts, -1), len(self)).astype(np.int64)

    def _approximate(self, places: npt.NDArray[np.int64], side: int) -> Any:
        flat = np.maximum(places, 0).reshape(-1).astype(np.float64)
        values = approximate_tails(self.method, self._p, flat)[side].reshape(places.shape)
        values = np.where(places < self._least, float(side == 1), values)
        return np.where(places >= self._most, float(side == 0), values)

    def _exact(self, places: npt.NDArray[np.int64], side: int) -> Any:
        wide = places.ndim > 0 or True in self._tables
        values = self._table(wide)[1][side][places + 1]
        # The narrow distribution is enough for a single query outside the far tails.
        doubtful = not wide and self._least <= places < self._most
        if doubtful and values < len(self) * NEGLIGIBLE_COUNT / 1e-14:
            values = self._table(wide=True)[1][side][places + 1]
        return values

    def _table(self, wide: bool) -> tuple[Floats, Floats]:
        """Return the distribution and its tail sums. wide : keep probabilities down to underflow"""
        if wide not in self._tables:
            found = distribution_of_sum(self._p, UNDERFLOW if wide else NEGLIGIBLE_COUNT)
            least, most, tails = self._least, self._most, np.zeros((2, found.size + 1))
            tails[0, most + 1 :] = tails[1, : least + 1] = 1.0
            # Each tail is summed from its end, so small tails keep their precision.
            tails[0, least + 1 : most + 1] = found[least:most].cumsum()
            tails[1, least + 1 : most + 1] = found[least + 1 : most + 1][::-1].cumsum()[::-1]
            self._tables = {wide: (found, np.minimum(tails, 1.0))}
        return self._tables[wide]
