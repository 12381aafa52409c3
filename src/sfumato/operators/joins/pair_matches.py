"""Matches of given pairs of tuples, each surely in its window."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sfumato.kernels.joins.match_probability import criterion, match_probabilities
from sfumato.kernels.joins.matching_pairs import matching_pairs
from sfumato.kernels.joins.tuple_store import lone_tuples
from sfumato.kernels.laws.existence import existences
from sfumato.limits import MAX_ALTERNATIVES
from sfumato.operators.arrays import Floats, Ints
from sfumato.operators.state.columns import Columns


@dataclass(frozen=True)
class Tuples(Columns, flat=("prob", "points"), begins="offsets"):
    """offsets : int64[n + 1]    prob : float64[m]    points : float64[m, d]"""

    offsets: Ints
    prob: Floats
    points: Floats


class Matches(NamedTuple):
    """Pairs that match with enough probability.

    place : int64[k], which of the pairs    probability : float64[k]
    offsets : int64[k + 1], of its pairs of samples: prob, left and right sample
    """

    place: Ints
    probability: Floats
    offsets: Ints
    prob: Floats
    left_sample: npt.NDArray[np.int32]
    right_sample: npt.NDArray[np.int32]


def pair_matches(
    left: Tuples,
    right: Tuples,
    pairs: tuple[Ints, Ints],
    within: float,
    probability: float,
    most: int = MAX_ALTERNATIVES,
) -> Matches:
    """Those of the pairs (places in left, places in right) whose match is probable enough.

    most : pairs of samples that one match has at most, see `matching_pairs`
    Pr(match) is that of `SimilarityJoin` with T_j = 1. O(samples of both, multiplied) a pair; in
    one dimension, for many samples, O(samples log samples).
    """
    about = criterion(left.points.shape[1], within, probability)
    both = Tuples.joined([left, right])
    existence = existences(both.offsets, both.prob)
    tuples = lone_tuples(both.offsets, both.prob, both.points, existence, 0)
    one, other = pairs[0], pairs[1] + left.offsets.size - 1
    total = match_probabilities(tuples, one, other, about)
    place = np.flatnonzero(total >= 0.0)
    nothing = np.zeros(place.size, np.int64)
    begins, found = matching_pairs(
        tuples, one[place], other[place], nothing, np.ones(place.size), about, most
    )
    return Matches(place, total[place], begins, found.prob, found.left, found.right)
