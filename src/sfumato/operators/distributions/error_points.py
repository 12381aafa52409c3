"""Equally likely, deterministic points that represent an error of known distribution."""

from functools import lru_cache
from statistics import NormalDist

import numpy as np

DISTRIBUTIONS = ("normal", "uniform", "triangular", "exponential")
CORRELATION = 0.05  # accepted correlation between the points of two attributes
MAX_SWAPS = 300  # exchanges of two values of one attribute
LOW_CORRELATION = 0.005  # exchanges stop at this correlation
MAX_ALL_PAIRS = 128  # up to this number of points, every pair is tested


def standard_points(n: int, dimensions: int, distribution: str) -> np.ndarray:
    """Return float64[n, dimensions]: points of independent errors with mean 0 and sd 1.

    In one dimension, the points are the quantiles at (i + ½)/n, scaled to sd 1 (for exponential
    errors, a power of the quantiles). In several dimensions, columns are uncorrelated (except for
    normal errors, correlations are up to 0.05). Except for exponential errors, points are closed
    under the change of sign of each column if n is large enough (two dimensions: n >= 4; three:
    n >= 8; more: n >= 4 * 2**dimensions), and otherwise under the change of all signs together if
    n >= 2 * dimensions. A single point has sd 0.

    The columns are correlated if n <= dimensions.
    Raises ValueError for n < 1 or an unknown distribution.
    """
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise ValueError(f"`n` must be an integer of at least 1; got {n!r}")
    if distribution not in DISTRIBUTIONS:
        known = ", ".join(DISTRIBUTIONS)
        raise ValueError(f"`distribution` must be one of {known}; got {distribution!r}")
    return _points(n, dimensions, distribution).copy()


@lru_cache(maxsize=64)
def _points(n: int, dimensions: int, distribution: str) -> np.ndarray:
    if n == 1:
        return np.zeros((1, dimensions))
    if dimensions == 1:
        return _column(n, distribution)[:, None]
    if distribution != "exponential":
        if n >= (4 if dimensions == 2 else 8 if dimensions == 3 else 4 << dimensions):
            return _reflected(n, dimensions, distribution)
        if n >= 2 * dimensions:
            half = _magnitudes(np.full(n // 2, 2.0), float(n % 2), distribution)
            signs = np.where(_ranks(n // 2, dimensions, 1) % 2 == 0, 1.0, -1.0)
            points = signs * half[_ranks(n // 2, dimensions, 0)]
            points = _fitting(_decorrelated(points, signs=True), distribution)
            points = np.concatenate([points, np.zeros((n % 2, dimensions)), -points[::-1]])
            return _scaled(points)
    points = _decorrelated(_column(n, distribution)[_ranks(n, dimensions, 0)])
    return _scaled(_fitting(points, distribution) if n > dimensions else points)


def _levels(levels: np.ndarray, distribution: str) -> np.ndarray:
    if distribution == "normal":
        inverse = NormalDist().inv_cdf
        return np.array([inverse(level) for level in levels.tolist()])
    if distribution == "uniform":
        return (2.0 * levels - 1.0) * np.sqrt(3.0)
    if distribution == "triangular":
        tail = np.minimum(levels, 1.0 - levels)
        return np.sign(levels - 0.5) * (1.0 - np.sqrt(2.0 * tail)) * np.sqrt(6.0)
    return np.asarray(-np.log1p(-levels))


def _column(n: int, distribution: str) -> np.ndarray:
    """Return float64[n]: the points of one attribute, ascending, with mean 0 and sd 1."""
    points = _levels((np.arange(n) + 0.5) / n, distribution)
    if distribution != "exponential":
        return _scaled((points - points[::-1])[:, None])[:, 0]
    # Find a power of the quantiles with sd equal to the mean, as for exponential variables.
    low, high = 1.0, 64.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        powered = (points / points[-1]) ** middle
        low, high = (middle, high) if powered.std() < powered.mean() else (low, middle)
    powered = (points / points[-1]) ** low
    return _scaled((powered / powered.mean() - 1.0)[:, None])[:, 0]


def _scaled(points: np.ndarray) -> np.ndarray:
    points = points - points.mean(axis=0)
    return np.asarray(points / np.sqrt(np.mean(points**2, axis=0)))


def _ranks(n: int, dimensions: int, first: int) -> np.ndarray:
    """Return int64[n, dimensions]: ranks of a low-discrepancy sequence, a permutation per column.
    Source: Roberts, the generalised golden ratio sequence, starting at dimension `first`."""
    ratio = 2.0
    for _ in range(64):
        ratio = (1.0 + ratio) ** (1.0 / (dimensions + first))
    steps = ratio ** -np.arange(1.0 + first, dimensions + first + 1.0)
    places = (0.5 + np.arange(1, n + 1)[:, None] * steps) % 1.0
    places[:, 0] = np.arange(n) if first == 0 else places[:, 0]
    return np.argsort(np.argsort(places, axis=0, kind="stable"), axis=0, kind="stable")


def _decorrelated(points: np.ndarray, *, signs: bool = False) -> np.ndarray:
    """Exchange pairs of values within a column while that reduces the correlations. signs : whether
    to also change signs    Cost: O(exchanges * min(n, MAX_ALL_PAIRS)**2)."""
    n, dimensions = points.shape
    points, random = points.copy(), np.random.default_rng(n)
    unchanged = 0  # consecutive columns that no exchange improves
    for step in range(MAX_SWAPS):
        if unchanged == dimensions - 1:
            break
        unchanged += 1
        j = 1 + step % (dimensions - 1)
        column, others = points[:, j].copy(), np.delete(points, j, axis=1)
        limit = LOW_CORRELATION * np.sqrt(column @ column) * np.sqrt((others**2).sum(axis=0))
        now = column @ others
        if (np.abs(now) <= limit).all():
            continue
        places = np.arange(n)
        if n > MAX_ALL_PAIRS:
            largest = np.argsort(-np.abs(column), kind="stable")[: MAX_ALL_PAIRS // 4]
            places = np.union1d(largest, random.choice(n, MAX_ALL_PAIRS // 2, replace=False))
        lift = column[places, None] - column[None, places]
        after = np.zeros_like(lift)
        flipped = np.zeros(n)
        for i, other in enumerate(others.T):
            after += (now[i] + lift * (other[None, places] - other[places, None])) ** 2
            flipped += (now[i] - 2.0 * column * other) ** 2
        a, b = np.unravel_index(int(np.argmin(after)), after.shape)
        flip = int(np.argmin(flipped))
        least = now @ now * (1.0 - 1e-9)
        if signs and flipped[flip] < min(least, after[a, b]):
            points[flip, j] = -column[flip]
        elif after[a, b] < least:
            a, b = places[a], places[b]
            points[[a, b], j] = column[[b, a]]
        else:
            continue
        unchanged = 0
    return points


def _fitting(points: np.ndarray, distribution: str) -> np.ndarray:
    """Return the nearest points with orthogonal columns of equal length (Löwdin). Points of bounded
    errors could leave the bounds, so points change only if columns are correlated."""
    lengths = np.sqrt((points**2).sum(axis=0))
    correlation = np.abs(points.T @ points / np.outer(lengths, lengths) - np.eye(len(lengths)))
    if distribution != "normal" and correlation.max() <= CORRELATION:
        return points
    left, _, right = np.linalg.svd(points / lengths, full_matrices=False)
    return np.asarray(left @ right)


def _magnitudes(weights: np.ndarray, zeros: float, distribution: str) -> np.ndarray:
    """Return ascending magnitudes of an error, for weights[i] points each, after `zeros` zeros."""
    after = zeros + np.cumsum(weights)
    middle = (after - 0.5 * weights) / after[-1]
    return np.asarray(_levels(0.5 + 0.5 * middle, distribution))


def _reflected(n: int, dimensions: int, distribution: str) -> np.ndarray:
    """Return points closed under the change of sign of each column, as orbits: n >> dimensions
    orbits use all columns; the binary digits of the remainder of n yield smaller orbits and the
    origin."""
    whole = n >> dimensions
    orbits = [np.arange(dimensions)] * whole
    first = 0
    for k in reversed(range(1, dimensions)):
        if n >> k & 1:
            orbits.append((first + np.arange(k)) % dimensions)
            first += k
    magnitudes = np.zeros((len(orbits), dimensions))
    ranks = _ranks(len(orbits), dimensions, 0)
    if whole > 1:  # in full orbits, combine large values of one column with small values of others
        squares = _magnitudes(np.ones(whole), 0.0, distribution) ** 2
        squares = _decorrelated((squares - squares.mean())[_ranks(whole, dimensions, 0)])
        ranks[:whole] = np.argsort(np.argsort(squares, axis=0), axis=0)
        if whole == 2:
            ranks[:whole] = (np.arange(2)[:, None] + np.arange(dimensions)) % 2
        ranks[whole:] = whole
    for d in range(dimensions):
        own = np.array([o for o, columns in enumerate(orbits) if d in columns])
        own = own[np.argsort(ranks[own, d], kind="stable")]
        weights = np.array([float(1 << len(orbits[o])) for o in own])
        magnitudes[own, d] = _magnitudes(weights, n - weights.sum(), distribution)
    points = [np.zeros((n & 1, dimensions))]
    for columns, magnitude in zip(orbits, magnitudes, strict=True):
        k = len(columns)
        signs = 1.0 - 2.0 * (np.arange(1 << k)[:, None] >> np.arange(k) & 1)
        orbit = np.zeros((1 << k, dimensions))
        orbit[:, columns] = signs * magnitude[columns]
        points.append(orbit)
    return _scaled(np.concatenate(points))
