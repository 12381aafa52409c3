"""The answers of a join: as they are found, and as a set that changes."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from sfumato.operators.arrays import Ints
from sfumato.operators.state.columns import Columns
from sfumato.operators.state.declared import Array, Declaration, Offsets, Record
from sfumato.operators.state.stateful import Stateful

NEVER = np.iinfo(np.int64).max


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
        gone = np.flatnonzero(leaves != NEVER)
        gone = gone[np.lexsort([both.right[gone], both.left[gone], leaves[gone]])]
        change = np.full(gone.size, -1, np.int8)
        out = replace(both.take(gone), arrival=leaves[gone], change=change)
        self.current = both.take(np.flatnonzero(leaves == NEVER))
        changes = Answers.joined([found, out])
        return changes.take(
            np.lexsort([np.arange(len(changes)), changes.change < 0, changes.arrival])
        )


def _leaving(wanted: Ints, number: Ints, arrival: Ints) -> Ints:
    """For each wanted tuple the arrival with which it left, or NEVER."""
    order = np.argsort(number)
    number, arrival = np.append(number[order], -1), np.append(arrival[order], NEVER)
    place = np.searchsorted(number[:-1], wanted)
    return np.where(number[place] == wanted, arrival[place], NEVER)
