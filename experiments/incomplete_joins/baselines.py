"""Single-value imputation to compare dependencies with: nearest rows, own rows, the mean."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from sfumato.operators.arrays import Floats

KNN, INTERPOLATION, LAST, MEAN = BASELINES = ("kNN", "interpolation", "last value", "mean")
BLOCK = 2**22  # distances computed at once


def impute_mean(repository: Floats, values: Floats) -> Floats:
    """Missing attributes (NaN) replaced by their mean in the repository, float64[N, D]."""
    return np.where(np.isnan(values), repository.mean(axis=0), values)


def impute_nearest(repository: Floats, values: Floats, neighbours: int = 5) -> Floats:
    """Missing attributes replaced by their mean over the nearest rows of the repository.

    Distance is Euclidean over the attributes present, scaled to their extent in the repository;
    ties go to the earlier row; without any attribute present the mean of the repository is taken.
    This is what scikit-learn's `KNNImputer` does after scaling, without needing it.
    Returns float64[n, D].  O(n N D).
    """
    low, extent = repository.min(axis=0), np.ptp(repository, axis=0)
    extent[extent == 0.0] = 1.0
    near, wanted = (repository - low) / extent, (values - low) / extent
    k, result, missing = min(neighbours, len(near)), values.copy(), np.isnan(values)
    patterns, which = np.unique(missing, axis=0, return_inverse=True)
    for p, pattern in enumerate(patterns):
        places = np.flatnonzero(which.reshape(-1) == p)
        if pattern.all():
            result[places] = repository.mean(axis=0)
            continue
        step = max(1, BLOCK // len(near))
        for begin in range(0, places.size if pattern.any() else 0, step):
            part = places[begin : begin + step]
            distance = _squared(wanted[part][:, ~pattern], near[:, ~pattern])
            nearest = _least(distance, k)
            for a in np.flatnonzero(pattern):
                result[part, a] = repository[nearest, a].mean(axis=1)
    return result


def interpolate_stream(values: Floats, at: Floats, *, ahead: bool) -> Floats:
    """Missing attributes of one stream from its own rows before and, if `ahead`, after.

    values : float64[n, D], NaN is missing    at : float64[n], times that do not fall
    ahead : True: linear between the last and the next row that have the attribute, the nearer one
        at the stream's ends (it must wait for the next); False: the last value is repeated
    An attribute that no usable row has stays NaN.
    """
    result = values.copy()
    for column in result.T:
        known = np.flatnonzero(~np.isnan(column))
        if not known.size:
            continue
        if ahead:
            column[:] = np.where(np.isnan(column), np.interp(at, at[known], column[known]), column)
        else:
            last = np.searchsorted(known, np.arange(column.size), side="right") - 1
            column[:] = np.where(last >= 0, column[known[np.maximum(last, 0)]], np.nan)
    return result


def _least(distance: Floats, k: int) -> npt.NDArray[np.int64]:
    """Places of the k least of each row, rising, the earlier of equal ones first: int64[n, k]."""
    if k >= distance.shape[1]:
        return np.argsort(distance, axis=1, kind="stable")
    places = np.sort(np.argpartition(distance, k - 1, axis=1)[:, :k], axis=1)
    values = np.take_along_axis(distance, places, axis=1)
    order = np.argsort(values, axis=1, kind="stable")
    result = np.take_along_axis(places, order, axis=1)
    # Of several that are equal at the k-th place the partition takes any.
    near = distance <= values.max(axis=1, keepdims=True)
    for i in np.flatnonzero(np.count_nonzero(near, axis=1) > k):
        among = np.flatnonzero(near[i])
        result[i] = among[np.argsort(distance[i, among], kind="stable")[:k]]
    return result


def _squared(one: Floats, other: Floats) -> Floats:
    """Squared distances [n, N], attribute by attribute: exact where values are equal."""
    total = np.zeros((len(one), len(other)))
    for a in range(one.shape[1]):
        total += np.square(one[:, a, None] - other[None, :, a])
    return total


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
