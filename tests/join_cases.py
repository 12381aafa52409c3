"""Random tuples of two streams for joins."""

import numpy as np

from sfumato.operators.joins.similarity_join import ArrivalBatch


def arrivals_of(side, key, tuples, dimensions):
    """Return arrivals from lists: tuples[i] is a list of (probability, point)."""
    counts = [len(t) for t in tuples]
    return ArrivalBatch(
        side=np.array(side, np.uint8),
        key=np.array(key, np.int64),
        offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        prob=np.array([p for t in tuples for p, _ in t], float),
        points=np.array([x for t in tuples for _, x in t], float).reshape(-1, dimensions),
    )


def random_stream(seed, n, dimensions, keys=1, most=5, extent=5.0, noise=1.0, drift=0.0):
    """Return ragged tuples around centres that may drift; 7 in 10 have an existence below 1."""
    rng = np.random.default_rng(seed)
    tuples = []
    for i in range(n):
        count = rng.integers(1, most + 1)
        weight = rng.dirichlet(np.ones(count)) + 1e-6
        existence = rng.uniform(0.2, 1.0) if rng.random() < 0.7 else 1.0
        centre = rng.uniform(0, extent, dimensions) + drift * i
        points = np.round(centre + rng.normal(0, noise, (count, dimensions)), 1)
        tuples.append(list(zip(weight / weight.sum() * existence, points, strict=True)))
    return arrivals_of(rng.integers(0, 2, n), rng.integers(0, keys, n), tuples, dimensions)
