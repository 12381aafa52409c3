"""Ways to fill gaps with one value each, to compare dependencies with."""

from collections.abc import Callable

from sfumato.operators.arrays import Floats
from sfumato.operators.imputation.baselines import impute_mean, impute_nearest, interpolate_stream

KNN, INTERPOLATION, LAST, MEAN = BASELINES = ("kNN", "interpolation", "last value", "mean")


def ways(repository: Floats, gaps: Floats, at: Floats) -> dict[str, Callable[[], Floats]]:
    """For each of BASELINES how it fills the objects of two streams that arrive in turn.

    kNN         the mean of the five nearest rows of the repository
    interpolation  between the stream's own rows before and after: it waits for the next, as no join
                could
    last value  of the stream itself, which does not wait
    mean        of the repository

    repository : float64[R, d]    gaps : float64[n, d], NaN is missing    at : float64[n], times
    """
    return {
        KNN: lambda: impute_nearest(repository, gaps),
        INTERPOLATION: lambda: from_own_rows(repository, gaps, at, ahead=True),
        LAST: lambda: from_own_rows(repository, gaps, at, ahead=False),
        MEAN: lambda: impute_mean(repository, gaps),
    }


def from_own_rows(repository: Floats, gaps: Floats, at: Floats, *, ahead: bool) -> Floats:
    """Each side from its own rows; what no row of a stream has, from the repository's mean."""
    result = gaps.copy()
    for side in (0, 1):
        result[side::2] = interpolate_stream(gaps[side::2], at[side::2], ahead=ahead)
    return impute_mean(repository, result)
