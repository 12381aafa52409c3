"""Aggregate requests and their results."""

from dataclasses import dataclass

from sfumato.operators.arrays import Floats, Ints
from sfumato.operators.state.columns import Columns

LARGEST = 1e140  # values beyond it, or -1e140, are refused: sums of their squares would overflow
LISTED = (  # known by their distributions alone, without moments of sums
    "quantile", "stddev", "var", "first", "last", "count_distinct",
)  # fmt: skip
FUNCTIONS = ("count", "sum", "avg", "min", "max", *LISTED, "boundary_sum")


@dataclass(frozen=True)
class Aggregate:
    """One aggregate over the tuples of a window.

    function : "count", "sum", "avg", "min", "max", "quantile", "stddev", "var", "first", "last",
        "count_distinct" or "boundary_sum"
    attribute : number of the attribute, from 0; None only for "count": count(*)
    argument : the share q in [0, 1] of "quantile", None for the others

    Over possible worlds: alternatives without a value (NaN, SQL's NULL) are skipped; count and sum
    of nothing are 0; avg, min, max and quantile of nothing are undefined. quantile is the smallest
    value such that at least q * N of the N existing ones are at most that. var is the sample
    variance (the squares over N - 1) and stddev its root; of fewer than two values they are
    undefined. first and last are the oldest and the newest value, in the order of the tuples;
    count_distinct is the number of different values, 0 of nothing. boundary_sum is certain: the sum
    of the tuples' mean values, each conditional on its existence.
    Raises ValueError or TypeError for anything else.  Source: A, section 7.3; the model.
    """

    function: str
    attribute: int | None = None
    argument: float | None = None

    def __post_init__(self) -> None:
        if self.function not in FUNCTIONS:
            names = ", ".join(f'"{name}"' for name in FUNCTIONS)
            raise ValueError(f"`function` must be one of {names}; got {self.function!r}")
        number = self.attribute
        if number is None:
            if self.function != "count":
                raise ValueError(f"`attribute` must be a number for {self.function}; got None")
        elif isinstance(number, bool) or not isinstance(number, int) or number < 0:
            raise TypeError(f"`attribute` must be None or a number from 0; got {number!r}")
        share = self.argument
        if self.function == "quantile":
            if (
                isinstance(share, bool)
                or not isinstance(share, (int, float))
                or not 0 <= share <= 1
            ):
                raise ValueError(f"`argument` of quantile must lie in [0, 1]; got {share!r}")
        elif share is not None:
            raise ValueError(f"`argument` must be None for {self.function}; got {share!r}")


@dataclass(frozen=True)
class Measured(Columns, flat=("prob", "value"), begins="offsets"):
    """One aggregate's results, r of them.

    mean, stddev : float64[r], given that the result is defined; NaN where it never is
    existence : float64[r], probability that it is defined (1 for count and sum)
    quantiles : float64[r, q], of the requested shares, given that it is defined
    error : float64[r], NaN where quantiles and distribution are exact; else the distance within
        which the sampled distribution function is of the true one, with probability 0.99
    offsets : int64[r + 1], prob, value : float64[offsets[r]], the distributions, where asked for:
        ascending values, whose probabilities sum to `existence`
    moved : float64[r], the mean distance by which probability was moved to keep the bound: the
        Wasserstein distance from the law itself
    """

    mean: Floats
    stddev: Floats
    existence: Floats
    quantiles: Floats
    error: Floats
    offsets: Ints | None = None
    prob: Floats | None = None
    value: Floats | None = None
    moved: Floats | None = None
