"""Single-value imputation, as a baseline for dependencies: nearest rows, own rows, the mean."""

from collections.abc import Callable

import numpy as np
from sklearn.impute import KNNImputer

from sfumato.operators.arrays import Floats

KNN, INTERPOLATION, LAST, MEAN = BASELINES = ("kNN", "interpolation", "last value", "mean")


def impute_mean(repository: Floats, values: Floats) -> Floats:
    """Replace missing attributes (NaN) with their mean in the repository, float64[N, D]."""
    return np.where(np.isnan(values), repository.mean(axis=0), values)


def impute_nearest(repository: Floats, values: Floats, neighbours: int = 5) -> Floats:
    """Replace missing attributes with their mean over the nearest rows of the repository."""
    low, extent = repository.min(axis=0), np.ptp(repository, axis=0)
    extent[extent == 0.0] = 1.0
    nearest = KNNImputer(n_neighbors=min(neighbours, len(repository)), keep_empty_features=True)
    done = nearest.fit((repository - low) / extent).transform((values - low) / extent)
    return np.where(np.isnan(values), done * extent + low, values)


def interpolate_stream(values: Floats, at: Floats, *, ahead: bool) -> Floats:
    """Fill missing attributes of one stream from its own previous and, if `ahead`, next rows.

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


def ways(repository: Floats, gaps: Floats, at: Floats) -> dict[str, Callable[[], Floats]]:
    """Return, for each of BASELINES, a function that fills the objects of two alternating streams.

    kNN         the mean of the five nearest rows of the repository interpolation  between the
    stream's own previous and next rows: it waits for the next one, which no join could do last
    value  of the stream itself, which does not wait mean        of the repository

    repository : float64[R, d]    gaps : float64[n, d], NaN is missing    at : float64[n], times
    """
    return {
        KNN: lambda: impute_nearest(repository, gaps),
        INTERPOLATION: lambda: from_own_rows(repository, gaps, at, ahead=True),
        LAST: lambda: from_own_rows(repository, gaps, at, ahead=False),
        MEAN: lambda: impute_mean(repository, gaps),
    }


def from_own_rows(repository: Floats, gaps: Floats, at: Floats, *, ahead: bool) -> Floats:
    """Fill each side from its own rows, or from the repository's mean if none has the attribute."""
    result = gaps.copy()
    for side in (0, 1):
        result[side::2] = interpolate_stream(gaps[side::2], at[side::2], ahead=ahead)
    return impute_mean(repository, result)
