"""Uncertain streams made from certain series, as in Dallachiesa et al. (2015)."""

from typing import Literal

import numpy as np

from sfumato.operators.arrays import Floats
from sfumato.operators.joins.similarity_join import ArrivalBatch

Law = Literal["uniform", "normal"]

LENGTH, EXISTENCE_SD, VALUE_SD, SAMPLES = 2_000, 0.1, 0.5, 10
SHORTEST = 30  # values per subsequence
# Substitutions of every experiment on the UCR archive.
UCR_SUBSTITUTIONS = (
    "The series are from the archive's 2018 release, where every set is z-normalised.",
    "The paper does not state the lengths of its random subsequences. Here, each "
    f"subsequence has at least {SHORTEST} values and at most the length of the series.",
)
EXISTENCE_SUBSTITUTION = (
    "In the paper, existence is uniformly distributed in (0, 1). Its standard deviation is "
    "stated, but not its mean. Here, existence is 1 - U(0, sd √12)."
)


def existence(rng: np.random.Generator, n: int, sd: float, law: Law = "uniform") -> Floats:
    """Draw n existence probabilities in (0, 1], reduced from 1 by non-negative noise.

    sd : parameter of the noise, >= 0: U[0, sd·sqrt(12)] or |N(0, sd)|; results outside (0, 1] are
    drawn again Source: Dallachiesa et al. (2015), section 7.1.
    """
    if sd == 0.0:
        return np.ones(n)
    drawn = np.empty(0)
    while drawn.size < n:
        uniform = law == "uniform"
        lack = rng.uniform(0.0, sd * np.sqrt(12.0), n) if uniform else abs(rng.normal(0.0, sd, n))
        some = 1.0 - lack
        drawn = np.concatenate([drawn, some[some > 0.0]])
    return drawn[:n]


def subsequences(rng: np.random.Generator, series: Floats, n: int = LENGTH) -> Floats:
    """Return n values: random subsequences of random series, one after the other.

    series : float64[series, length]. A subsequence has at least 30 values (or all there are); its
    length and its place are uniform, so that neighbours stay neighbours.
    Source: Dallachiesa et al. (2015), section 7.1.
    """
    parts, missing, longest = [], n, series.shape[1]
    while missing > 0:
        length = min(int(rng.integers(min(SHORTEST, longest), longest + 1)), missing)
        begin = int(rng.integers(0, longest - length + 1))
        parts.append(series[rng.integers(0, len(series)), begin : begin + length])
        missing -= length
    return np.concatenate(parts)


def uncertain_pair(
    rng: np.random.Generator, series: Floats, samples: int = SAMPLES, n: int = LENGTH
) -> ArrivalBatch:
    """Build two uncertain streams of one set, n tuples each, which arrive in turn, left first.

    A tuple has `samples` values: its own with normal noise of standard deviation 0.5. They share
    its existence equally, which is uniform with standard deviation 0.1. Source: Dallachiesa et al.
    (2015), sections 7.1 and 7.4, Table 2.
    """
    certain = np.stack([subsequences(rng, series, n) for _ in range(2)], axis=1).reshape(-1)
    points = certain[:, None] + rng.normal(0.0, VALUE_SD, (2 * n, samples))
    prob = np.repeat(existence(rng, 2 * n, EXISTENCE_SD) / samples, samples)
    return ArrivalBatch(
        side=np.tile(np.array([0, 1], np.uint8), n),
        key=np.zeros(2 * n, np.int64),
        offsets=np.arange(2 * n + 1) * samples,
        prob=prob,
        points=points.reshape(-1, 1),
    )


def distance_of_selectivity(
    rng: np.random.Generator,
    arrivals: ArrivalBatch,
    probability: float = 0.5,
    selectivity: float = 0.0005,
    pairs: int = 40_000,
    closest: float = 1.0,
) -> float:
    """Return the distance at which this share of pairs of a left and a right tuple match.

    A pair matches if its pairs of samples within the distance have a total weight of at least
    `probability`. The distance is estimated on random pairs. Only the share `closest` of them, by
    their means, is examined in detail; the others are treated as not matching. Source: Dallachiesa
    et al. (2015), Table 2.
    """
    tuples = arrivals.side.size
    samples = arrivals.prob.size // tuples
    values = arrivals.points.reshape(tuples, samples)
    exists = arrivals.prob.reshape(tuples, samples).sum(axis=1)
    left = 2 * rng.integers(0, tuples // 2, pairs)
    right = 2 * rng.integers(0, tuples // 2, pairs) + 1
    if closest < 1.0:
        means = values.mean(axis=1)
        order = np.argsort(np.abs(means[left] - means[right]))[: int(closest * pairs)]
        left, right = left[order], right[order]
    # Number of equally weighted sample pairs that must be near, if the pair can match at all.
    needed = np.ceil(probability * samples**2 / (exists[left] * exists[right]) - 1e-9)
    able = needed <= samples**2
    distances = np.abs(values[left[able], :, None] - values[right[able], None, :])
    ordered = np.sort(distances.reshape(-1, samples**2), axis=1)
    least = ordered[np.arange(len(ordered)), needed[able].astype(int) - 1]
    return float(np.partition(least, int(selectivity * pairs))[int(selectivity * pairs)])
