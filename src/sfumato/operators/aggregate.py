"""What a window aggregate is asked for, and what it answers."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

FUNCTIONS = ("count", "sum", "avg", "min", "max", "quantile", "boundary_sum")

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Aggregate:
    """One aggregate over a window.

    function : "count", "sum", "avg", "min", "max", "quantile" or "boundary_sum" (A, 7.3: the sum
        of the held tuples' mean values, a certain number)
    attribute : column of the values, or None: only for count, which is then count(*)
    argument : the share q in [0, 1] of a quantile, else None

    Raises ValueError for anything else.
    """

    function: str
    attribute: int | None = None
    argument: float | None = None

    def __post_init__(self) -> None:
        if self.function not in FUNCTIONS:
            raise ValueError(f"`function` must be one of {FUNCTIONS}; got {self.function!r}")
        if self.attribute is None:
            if self.function != "count":
                raise ValueError(f"`attribute` of {self.function} must be a column; got None")
        elif not _whole(self.attribute):
            raise ValueError(f"`attribute` must be a column number; got {self.attribute!r}")
        if self.function == "quantile":
            if not _share(self.argument):
                raise ValueError(
                    f"`argument` of a quantile must be a share in [0, 1]; got {self.argument!r}"
                )
        elif self.argument is not None:
            raise ValueError(f"{self.function} takes no `argument`; got {self.argument!r}")


@dataclass(frozen=True)
class Alternatives:
    """Laws of r results: offsets int64[r + 1], prob and value float64[...], values ascending."""

    offsets: Ints
    prob: Floats
    value: Floats


@dataclass(frozen=True)
class Measured:
    """One aggregate's r results, each a random variable over the possible worlds.

    mean, stddev : float64[r], given that the result is defined; NaN when it never is
    existence : float64[r], probability that it is defined: 1 for counts and sums, else that of a
        value in the window
    quantiles : float64[r, nq], given that it is defined
    error : float64[r], NaN where quantiles and alternatives are exact; else they are those of
        sampled worlds, and this is the half width of the confidence interval of their
        distribution function (Dvoretzky-Kiefer-Wolfowitz)
    alternatives : the distribution, probabilities adding up to `existence`, or None
    moved : float64[r], the largest distance a value was moved when alternatives were merged
    """

    mean: Floats
    stddev: Floats
    existence: Floats
    quantiles: Floats
    error: Floats
    alternatives: Alternatives | None
    moved: Floats


def _whole(value: Any) -> bool:
    try:
        return not isinstance(value, bool) and operator.index(value) >= 0
    except TypeError:
        return False


def _share(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value) and 0.0 <= value <= 1.0
