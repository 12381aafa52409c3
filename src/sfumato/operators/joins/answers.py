"""The answers of joins."""

from dataclasses import dataclass, replace
from typing import Annotated, NamedTuple

import numpy as np
import numpy.typing as npt

from sfumato.kernels.distributions.tuples import existences, reaches_all
from sfumato.kernels.joins.match_probability import criterion, exclude_partners, match_probabilities
from sfumato.kernels.joins.matching_pairs import matching_pairs
from sfumato.kernels.joins.tuple_store import StoredTuples, tuples_without_windows
from sfumato.limits import MAX_ALTERNATIVES
from sfumato.operators.arrays import Floats, Ints, gather_lists
from sfumato.operators.state.columns import Columns
from sfumato.operators.state.declared import Array, Offsets

NOT_LEFT = np.iinfo(np.int64).max


@dataclass(frozen=True)
class JoinAnswers(Columns, flat=("prob", "left_sample", "right_sample"), begins="offsets"):
    """Pairs of tuples whose match is probable enough: k pairs, with q pairs of samples.

    arrival : int64[k], position in the batch of the arrival that added or removed the answer
    change : int8[k], +1 added, -1 removed    left, right : int64[k], numbers of the tuples
    probability : float64[k], Pr(match)    offsets : int64[k + 1] of each answer's sample pairs
    prob : float64[q], Pr(u_k) Pr(v_l) T_j    left_sample, right_sample : int32[q]
    """

    arrival: Annotated[Ints, Array(int, "answers")]
    change: Annotated[npt.NDArray[np.int8], Array(np.int8, "answers")]
    left: Annotated[Ints, Array(int, "answers", low=0)]
    right: Annotated[Ints, Array(int, "answers", low=0)]
    probability: Annotated[Floats, Array(float, "answers", low=0)]
    offsets: Annotated[Ints, Offsets("answers", "pairs")]
    prob: Annotated[Floats, Array(float, "pairs", low=0)]
    left_sample: Annotated[npt.NDArray[np.int32], Array(np.int32, "pairs", low=0)]
    right_sample: Annotated[npt.NDArray[np.int32], Array(np.int32, "pairs", low=0)]

    def __len__(self) -> int:
        return self.left.size


def changed_answers(
    current: JoinAnswers, found: JoinAnswers, expired: tuple[Ints, Ints, Ints]
) -> tuple[JoinAnswers, JoinAnswers]:
    """Add new answers and remove answers of expired tuples. Returns (current answers, changes).

    current : answers whose tuples were both in their windows    found : new answers, by arrival
    expired : (arrival, side, number) of each evicted tuple
    Changes are ordered by arrival: first +1, as found, then -1, by left and right number.
    Cost: a copy of the current answers, and O(log(expired tuples)) per answer.
    Source: Lian and Chen (2009), section 4 (maintained answer set).
    """
    arrival, side, number = expired
    both = JoinAnswers.concat([current, found])
    leaves = np.minimum(
        _eviction_arrivals(both.left, number[side == 0], arrival[side == 0]),
        _eviction_arrivals(both.right, number[side == 1], arrival[side == 1]),
    )
    gone = np.flatnonzero(leaves != NOT_LEFT)
    gone = gone[np.lexsort([both.right[gone], both.left[gone], leaves[gone]])]
    change = np.full(gone.size, -1, np.int8)
    out = replace(both.take(gone), arrival=leaves[gone], change=change)
    changes = JoinAnswers.concat([found, out])
    order = np.lexsort([np.arange(len(changes)), changes.change < 0, changes.arrival])
    return both.take(np.flatnonzero(leaves == NOT_LEFT)), changes.take(order)


def _eviction_arrivals(wanted: Ints, number: Ints, arrival: Ints) -> Ints:
    """Return the arrival that evicted each requested tuple, or NOT_LEFT."""
    order = np.argsort(number)
    number, arrival = np.append(number[order], -1), np.append(arrival[order], NOT_LEFT)
    place = np.searchsorted(number[:-1], wanted)
    return np.where(number[place] == wanted, arrival[place], NOT_LEFT)


@dataclass(frozen=True)
class SampledTuples(Columns, flat=("prob", "points"), begins="offsets"):
    """Samples of tuples. offsets : int64[n + 1]    prob : float64[m]    points : float64[m, d]"""

    offsets: Ints
    prob: Floats
    points: Floats


def _stored(first: SampledTuples, then: SampledTuples) -> StoredTuples:
    of = SampledTuples.concat([first, then])
    existence = existences(of.offsets, of.prob)
    return tuples_without_windows(of.offsets, of.prob, of.points, existence, 0)


class Unmatched(NamedTuple):
    """Tuples of one side without a partner, as answers.

    number : int64[n]    probability : float64[n], Pr(the tuple exists and has no partner)
    offsets : int64[n + 1]    prob : float64[m], each sample's part of the probability
    """

    number: Ints
    probability: Floats
    offsets: Ints
    prob: Floats


def unmatched_tuples(
    mine: SampledTuples,
    others: SampledTuples,
    pairs: tuple[Ints, Ints],
    within: float,
    probability: float,
) -> Unmatched:
    """Select the tuples of `mine` that are likely enough to have no partner. The field
    `number` is the place in `mine`. pairs : places of possible partners in both, each pair once"""
    about, tuples = criterion(mine.points.shape[1], within, probability), _stored(mine, others)
    alone, first = np.ones(mine.prob.size), mine.offsets.size - 1
    exclude_partners(tuples, pairs[0], pairs[1] + first, mine.offsets[pairs[0]], alone, about)
    prob = mine.prob * alone
    total = existences(mine.offsets, prob)
    places = np.flatnonzero(reaches_all(total, probability))
    offsets, at = gather_lists(mine.offsets, places)
    return Unmatched(places, total[places], offsets, prob[at])


def pair_matches(
    left: SampledTuples,
    right: SampledTuples,
    pairs: tuple[Ints, Ints],
    within: float,
    probability: float,
    most: int = MAX_ALTERNATIVES,
) -> JoinAnswers:
    """Select the pairs (places in left, places in right) whose match is probable enough.

    most : largest number of sample pairs per match, see `matching_pairs`
    In the answers, `arrival` is the place of the pair in `pairs`, and `left` and `right` are its
    places. Pr(match) is as in `SimilarityJoin` with T_j = 1. Cost per pair: O(left samples * right
    samples), or O(samples log samples) for many samples in one dimension.
    """
    about, tuples = criterion(left.points.shape[1], within, probability), _stored(left, right)
    one, other = pairs[0], pairs[1] + left.offsets.size - 1
    total = match_probabilities(tuples, one, other, about)
    place = np.flatnonzero(total >= 0.0)
    one, other, total, swap = one[place], other[place], total[place], np.zeros_like(place)
    offsets, found = matching_pairs(
        tuples, one, other, swap, total, np.ones(place.size), about, most
    )
    change = np.ones(place.size, np.int8)
    return JoinAnswers(place, change, one, pairs[1][place], total, offsets, *found)
