"""Aggregate requests and their results."""

from dataclasses import dataclass

from sfumato.operators.arguments import quantile_level
from sfumato.operators.arrays import Floats, Ints
from sfumato.operators.state.columns import Columns

LISTED = (  # computed from distributions only, not from moments
    "quantile", "stddev", "var", "first", "last", "count_distinct",
)  # fmt: skip
TOTALLED = ("count", "sum", "avg", "min", "max")  # computed from totals if all rows are certain
OVER_TIME = ("time_avg", "integral")  # of values that hold until the next value; extents only
FUNCTIONS = ("count", "sum", "avg", "min", "max", *LISTED, "boundary_sum", *OVER_TIME)


@dataclass(frozen=True)
class Aggregate:
    """One aggregate over the tuples of a window.

    function : one of `FUNCTIONS`
    attribute : number of the attribute, from 0; None for count(*)
    argument : for "quantile", the share q in [0, 1]; otherwise None

    In each possible world, alternatives without a value (NaN, SQL's NULL) are ignored. Without
    values, count, sum and count_distinct are 0; avg, min, max and quantile are undefined.
    quantile is the smallest value such that at least q * N of the N existing values do not exceed
    it. var is the sample variance (squares divided by N - 1) and stddev its root; both are
    undefined for fewer than two values. first and last are the oldest and the newest value, in the
    order of the tuples. count_distinct is the number of different values. boundary_sum is certain:
    the sum of the tuples' mean values, each conditional on the tuple's existence. For time_avg and
    integral, a value holds until the time of the next value, even across the start of a window;
    both are undefined before the first value. integral is in values times seconds.
    Raises ValueError or TypeError for invalid fields, such as the fields of a damaged snapshot.
    Source: Dallachiesa et al. (2015), section 7.3.
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
            raise TypeError(f"`attribute` must be None or an integer of at least 0; got {number!r}")
        if self.function == "quantile":
            quantile_level("`argument` of quantile", self.argument)
        elif self.argument is not None:
            raise ValueError(f"`argument` must be None for {self.function}; got {self.argument!r}")


@dataclass(frozen=True)
class AggregateResult(Columns, flat=("prob", "value"), begins="offsets"):
    """r results of one aggregate.

    mean, stddev : float64[r], given that the result is defined; NaN if it never is
    existence : float64[r], probability that the result is defined (1 for count and sum)
    quantiles : float64[r, q], one per requested share, given that the result is defined
    error : float64[r], NaN if quantiles and distribution are exact; otherwise a bound, valid with
        probability 0.99, on the distance between the sampled and the true distribution function
    offsets : int64[r + 1], prob, value : float64[offsets[r]], the distributions, if requested:
        ascending values, with probabilities that sum to `existence`
    moved : float64[r], Wasserstein distance from the full distribution, caused by the limit on
        the number of values
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


@dataclass(frozen=True)
class WindowAnswers:
    """Answers of a call to `process`, one entry per arriving tuple, in the order of arrival.

    held : int64[n], w', the number of tuples in the group's window after the tuple entered
    results : one AggregateResult per aggregate, with n results each
    numbers : int64[n], number of the group's tuples so far; None for delta windows
    """

    held: Ints
    results: list[AggregateResult]
    numbers: Ints | None = None
