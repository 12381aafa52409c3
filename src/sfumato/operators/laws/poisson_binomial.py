"""The law of how many of some independent, maybe-existing tuples exist."""

from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.kernels.laws.approximate_law import (
    NORMAL,
    POISSON,
    REFINED_NORMAL,
    approximate_cdf,
    moments,
)
from sfumato.kernels.laws.poisson_binomial import law_of_sum, tails_of_law
from sfumato.kernels.laws.tuples import CERTAIN as CERTAIN
from sfumato.kernels.laws.tuples import survey
from sfumato.kernels.tolerances import NEGLIGIBLE_COUNT, UNDERFLOW
from sfumato.operators.arguments import EXCESS
from sfumato.operators.arrays import Floats

COUNT_METHODS = {"exact": 0, "poisson": POISSON, "normal": NORMAL, "refined_normal": REFINED_NORMAL}


def checked_existence(existence: npt.ArrayLike) -> Floats:
    """`existence` as a contiguous float64[n] in [0, 1]; values up to 1 + 1e-9 are clipped to 1.

    Raises ValueError for another dimension, for values that are no numbers, NaN or out of range.
    """
    return surveyed_existence(existence, "existence")[0]


def as_floats(name: str, values: npt.ArrayLike) -> Floats:
    """`values` as a contiguous float64[n]; ValueError naming them if they are no such list."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"`{name}` must be an array of numbers; got {values!r:.80}") from None
    if array.ndim != 1:
        raise ValueError(f"`{name}` must have one dimension; got {array.ndim}")
    return np.require(array, requirements=["C", "W"])  # kernels are compiled for one kind of array


def surveyed_existence(existence: npt.ArrayLike, name: str) -> tuple[Floats, int, int]:
    """As checked_existence, with how many of them are 1 and how many exceed 0."""
    array = as_floats(name, existence)
    bad, above, certain, possible = survey(array, 1.0 + EXCESS)
    if bad >= 0:
        raise ValueError(
            f"`{name}` must hold probabilities in [0, 1]; got {array[bad]} at index {bad}: "
            "reject or repair such tuples first"
        )
    return np.minimum(array, 1.0) if above else array, certain, possible


def method_number(method: str) -> int:
    """The kernels' number of a method's name; ValueError for an unknown one."""
    if method not in COUNT_METHODS:
        names = ", ".join(f'"{name}"' for name in COUNT_METHODS)
        raise ValueError(f"`method` must be one of {names}; got {method!r}")
    return COUNT_METHODS[method]


class PoissonBinomial:
    """Law of N = the number of tuples that exist among n independent ones.

    p : float array [n] of existence probabilities in [0, 1] (up to 1 + 1e-9, clipped)
    method : "exact" (default), or the approximations "poisson", "normal" and "refined_normal"

    Under every method cdf and sf are exactly 0 and 1 for k < 0 and k >= n; under "exact" already
    below the number of p equal to 1 and from the number of p above 0. With every p 0 or 1 the two
    normal methods are exact.

    Error: "exact" has a relative error below 4e-16 n in pmf, cdf and sf alike, far tails included
    down to 1e-290. The approximations have no bound here.
    Cost: "exact" O(n sigma) once, at the first question: a single cdf at n = 1,000 takes some 30
    microseconds. Arrays of questions, `pmf` and tails below about 1e-8 need all of the law, once:
    twice that at n = 1,000.
    Raises ValueError for a wrong dimension, NaN, values out of [0, 1] or an unknown method.
    Source: A, equations (14) to (17) and figure 4, for the approximations.

    >>> law = PoissonBinomial([0.5, 0.5, 1.0])
    >>> law.pmf().tolist()
    [0.0, 0.25, 0.5, 0.25]
    >>> law.cdf(1), law.sf(2)
    (0.25, 0.25)
    """

    def __init__(self, p: npt.ArrayLike, method: str = "exact") -> None:
        self._number = method_number(method)
        checked, certain, possible = surveyed_existence(p, "p")
        self._p = checked.copy()
        self.method = method
        self._least, self._most = (0, len(self)) if self._number else (certain, possible)
        self._tails: Floats | None = None
        self._law: Floats | None = None
        self._wide = False

    def __len__(self) -> int:
        return self._p.size

    def pmf(self) -> Floats:
        """Pr(N = k) at index k: float64[n + 1].

        Approximate methods: the differences of their cdf, so the sum is 1; refined normal is not
        monotone everywhere and can have slightly negative differences.
        """
        if self._number:
            return np.diff(self.cdf(np.arange(len(self) + 1)), prepend=0.0)
        if not self._wide:
            self._compute(wide=True)
        assert self._law is not None
        return self._law.copy()

    def cdf(self, k: Any) -> Any:
        """Pr(N <= k) for a number (a float) or an array of any shape (float64 of that shape)."""
        return self._answer(k, 0)

    def sf(self, k: Any) -> Any:
        """Pr(N > k), with the digits of a small tail that 1 - cdf(k) would lose."""
        return self._answer(k, 1)

    def _answer(self, k: Any, side: int) -> Any:
        places = self._places(k)
        values = self._approximate(places, side) if self._number else self._exact(places, side)
        return float(values) if places.ndim == 0 else values

    def _places(self, k: Any) -> npt.NDArray[np.int64]:
        """Whole counts, those beyond the possible ones as -1 or n."""
        counts = np.asarray(k)
        if counts.dtype.kind != "i":
            counts = np.floor(counts.astype(np.float64))
            if np.isnan(counts).any():
                raise ValueError("`k` must be a number of tuples; got NaN")
        return np.minimum(np.maximum(counts, -1), len(self)).astype(np.int64)

    def _approximate(self, places: npt.NDArray[np.int64], side: int) -> Any:
        flat = np.maximum(places, 0).reshape(-1).astype(np.float64)
        tails = approximate_cdf(self._number, flat, *moments(self._p))
        values = tails[:, side].reshape(places.shape)
        values = np.where(places < self._least, float(side == 1), values)
        return np.where(places >= self._most, float(side == 0), values)

    def _exact(self, places: npt.NDArray[np.int64], side: int) -> Any:
        if self._tails is None or (places.ndim > 0 and not self._wide):
            self._compute(wide=places.ndim > 0)
        assert self._tails is not None
        values = self._tails[side][places + 1]
        # A single question is answered from the narrow law unless it is about a far tail.
        doubtful = not self._wide and self._least <= places < self._most
        if doubtful and values < len(self) * NEGLIGIBLE_COUNT / 1e-14:
            self._compute(wide=True)
            values = self._tails[side][places + 1]
        return values

    def _compute(self, wide: bool) -> None:
        self._law = law_of_sum(self._p, UNDERFLOW if wide else NEGLIGIBLE_COUNT)
        self._tails = tails_of_law(self._law, self._least, self._most)
        self._wide = wide
