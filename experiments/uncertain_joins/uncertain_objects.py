"""Streams of Lian and Chen (2009): samples in balls of random radius around real readings."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from sfumato.operators.arrays import Floats
from sfumato.operators.joins.similarity_join import ArrivalBatch

Radii = Literal["rU", "rG"]


@dataclass(frozen=True)
class Streams:
    """The samples of two streams' objects: float64[n, d, l] each, all equally probable."""

    x: Floats
    y: Floats

    @property
    def dimensions(self) -> int:
        return self.x.shape[1]

    def arrivals(self, begin: int, end: int) -> ArrivalBatch:
        """Return the objects of some timestamps for the library's join: x[t], then y[t]."""
        both = np.stack([self.x[begin:end], self.y[begin:end]], axis=1)
        n, samples = 2 * (end - begin), both.shape[3]
        points = both.transpose(0, 1, 3, 2).reshape(-1, self.dimensions)
        return ArrivalBatch(
            side=np.tile(np.array([0, 1], np.uint8), end - begin),
            key=np.zeros(n, np.int64),
            offsets=np.arange(n + 1) * samples,
            prob=np.full(n * samples, 1.0 / samples),
            points=np.ascontiguousarray(points),
        )


def radii(rng: np.random.Generator, n: int, law: Radii, least: float, most: float) -> Floats:
    """Draw radii in [least, most]: uniform, or normal around the middle, redrawn if outside."""
    if law == "rU":
        return rng.uniform(least, most, n)
    drawn = np.empty(0)
    while drawn.size < n:
        some = rng.normal((least + most) / 2, (most - least) / 5, n)
        drawn = np.concatenate([drawn, some[(some >= least) & (some <= most)]])
    return drawn[:n]


def in_balls(rng: np.random.Generator, centres: Floats, radius: Floats, samples: int) -> Floats:
    """Draw samples uniformly in the ball around each centre: float64[n, d, samples]."""
    n, d = centres.shape
    direction = rng.normal(size=(n, d, samples))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    length = radius[:, None, None] * rng.random((n, 1, samples)) ** (1.0 / d)
    return np.ascontiguousarray(centres[:, :, None] + direction * length)


def streams(
    rng: np.random.Generator,
    centres: Floats,
    laws: tuple[Radii, Radii],
    span: tuple[float, float],
    n: int,
    samples: int,
) -> Streams:
    """Build two streams of n objects from consecutive readings; every other reading belongs to y.

    centres : float64[>= 2 n, d], scaled    laws, span : distributions and range of the radii of x
    and y
    """
    made = []
    for side in (0, 1):
        own = centres[side : 2 * n : 2]
        made.append(in_balls(rng, own, radii(rng, n, laws[side], *span), samples))
    return Streams(*made)


def distance_for(
    rng: np.random.Generator, pair: Streams, rows: int, alpha: float, selectivity: float
) -> float:
    """Return the distance at which a share `selectivity` of the pairs in windows are answers."""
    n, drawn, few = len(pair.x), 10_000, min(20, pair.x.shape[2])
    i = rng.integers(rows, n, drawn)
    j = i - rng.integers(0, rows, drawn)
    needed = np.empty(drawn)
    for part in np.array_split(np.arange(drawn), 20):
        one, other = pair.x[i[part], :, :few], pair.y[j[part], :, :few]
        squared = np.square(one[:, :, :, None] - other[:, :, None, :]).sum(axis=1)
        place = int(np.ceil(alpha * few * few)) - 1
        near = np.partition(squared.reshape(len(part), -1), place, axis=1)[:, place]
        needed[part] = np.sqrt(near)
    return float(np.quantile(needed, selectivity))
