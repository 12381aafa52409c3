"""The answers of joins."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from sfumato.kernels.joins.match_probability import criterion, match_probabilities
from sfumato.kernels.joins.matching_pairs import matching_pairs
from sfumato.kernels.joins.tuple_store import lone_tuples
from sfumato.kernels.laws.tuples import existences
from sfumato.limits import MAX_ALTERNATIVES
from sfumato.operators.arrays import Floats, Ints
from sfumato.operators.state.columns import Columns
from sfumato.operators.state.declared import Array, Declaration, Offsets, Record
from sfumato.operators.state.stateful import Stateful

NOT_LEFT = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Answers(Columns, flat=("prob", "left_sample", "right_sample"), begins="offsets"):
    """Pairs of tuples whose match is probable enough; k of them, with q pairs of samples.

    arrival : int64[k], position in the batch of the arrival that brought the answer in or out
    change : int8[k], +1 in, -1 out    left, right : int64[k], numbers of the tuples
    probability : float64[k], Pr(match)    offsets : int64[k + 1], of each answer's sample pairs:
    prob : float64[q], Pr(u_k) Pr(v_l) T_j    left_sample, right_sample : int32[q]
    """

    arrival: npt.NDArray[np.int64]
    change: npt.NDArray[np.int8]
    left: npt.NDArray[np.int64]
    right: npt.NDArray[np.int64]
    probability: npt.NDArray[np.float64]
    offsets: npt.NDArray[np.int64]
    prob: npt.NDArray[np.float64]
    left_sample: npt.NDArray[np.int32]
    right_sample: npt.NDArray[np.int32]

    layout: ClassVar[Mapping[str, Declaration]] = {
        "arrival": Array(int, "answers"),
        "change": Array(np.int8, "answers"),
        "left": Array(int, "answers", low=0),
        "right": Array(int, "answers", low=0),
        "probability": Array(float, "answers", low=0),
        "offsets": Offsets("answers", "pairs"),
        "prob": Array(float, "pairs", low=0),
        "left_sample": Array(np.int32, "pairs", low=0),
        "right_sample": Array(np.int32, "pairs", low=0),
    }

    def __len__(self) -> int:
        return self.left.size


class AnswerSet(Stateful):
    """The current answers: those of which both tuples are still in their windows.

    Cost of a batch: O(answers held) copied, O(log(tuples expired)) each.
    Source: B, section 4 (maintained answer set).
    """

    state = {"current": Record(Answers)}

    def __init__(self) -> None:
        self.current = Answers.none()

    def asked(self, output: str) -> Answers:
        """The current answers, by arrival. Raises ValueError unless `output` is "changes"."""
        if output != "changes":
            raise ValueError(
                f'the current answers are kept only with output="changes"; got output="{output}"'
            )
        return self.current

    def named(self, side: int, streams: int = 2) -> Ints:
        """Numbers of a stream's tuples in current answers; of many streams see `Numbers`."""
        if streams == 2:
            return self.current.right if side else self.current.left
        both = np.concatenate([self.current.left, self.current.right])
        return both[both % streams == side]

    def update(self, found: Answers, expired: tuple[Ints, Ints, Ints]) -> Answers:
        """Take new answers in, and those of expired tuples out; all changes in order.

        found : by arrival    expired : (arrival, side, number) of each tuple that left
        Returns the changes by arrival: first `+`, as found, then `-`, by left and right number.
        """
        arrival, side, number = expired
        both = Answers.joined([self.current, found])
        leaves = np.minimum(
            _leaving(both.left, number[side == 0], arrival[side == 0]),
            _leaving(both.right, number[side == 1], arrival[side == 1]),
        )
        gone = np.flatnonzero(leaves != NOT_LEFT)
        gone = gone[np.lexsort([both.right[gone], both.left[gone], leaves[gone]])]
        change = np.full(gone.size, -1, np.int8)
        out = replace(both.take(gone), arrival=leaves[gone], change=change)
        self.current = both.take(np.flatnonzero(leaves == NOT_LEFT))
        changes = Answers.joined([found, out])
        return changes.take(
            np.lexsort([np.arange(len(changes)), changes.change < 0, changes.arrival])
        )


def _leaving(wanted: Ints, number: Ints, arrival: Ints) -> Ints:
    """For each wanted tuple the arrival with which it left, or NOT_LEFT."""
    order = np.argsort(number)
    number, arrival = np.append(number[order], -1), np.append(arrival[order], NOT_LEFT)
    place = np.searchsorted(number[:-1], wanted)
    return np.where(number[place] == wanted, arrival[place], NOT_LEFT)


@dataclass(frozen=True)
class SampledTuples(Columns, flat=("prob", "points"), begins="offsets"):
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
    left: SampledTuples,
    right: SampledTuples,
    pairs: tuple[Ints, Ints],
    within: float,
    probability: float,
    most: int = MAX_ALTERNATIVES,
) -> Matches:
    """Select the pairs (places in left, places in right) whose match is probable enough.

    most : pairs of samples that one match has at most, see `matching_pairs`
    Pr(match) is that of `SimilarityJoin` with T_j = 1. O(samples of both, multiplied) a pair; in
    one dimension, for many samples, O(samples log samples).
    """
    about = criterion(left.points.shape[1], within, probability)
    both = SampledTuples.joined([left, right])
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
