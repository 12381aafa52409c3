"""The answers of a join: as they are found, and as a set that changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from sfumato.operators.arrays import Ints, chosen, offsets_of
from sfumato.operators.state.declared import Array, Declaration, Offsets, Record
from sfumato.operators.state.stateful import Stateful

FLAT = ("prob", "left_sample", "right_sample")
NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Answers:
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

    def __len__(self) -> int:
        return self.left.size

    @classmethod
    def none(cls) -> Answers:
        """No answers."""
        return cls(
            arrival=np.empty(0, np.int64),
            change=np.empty(0, np.int8),
            left=np.empty(0, np.int64),
            right=np.empty(0, np.int64),
            probability=np.empty(0),
            offsets=np.zeros(1, np.int64),
            prob=np.empty(0),
            left_sample=np.empty(0, np.int32),
            right_sample=np.empty(0, np.int32),
        )

    def take(self, places: Ints) -> Answers:
        """The answers at these places, in that order."""
        offsets, flat = chosen(self.offsets, places)
        return Answers(
            offsets=offsets,
            **{
                field.name: getattr(self, field.name)[flat if field.name in FLAT else places]
                for field in fields(Answers)
                if field.name != "offsets"
            },
        )

    def changed(self, arrival: Ints, change: int) -> Answers:
        """The same answers as another change, of other arrivals."""
        own = {field.name: getattr(self, field.name) for field in fields(Answers)}
        own |= {"arrival": arrival, "change": np.full(len(self), change, np.int8)}
        return Answers(**own)


def concatenate(parts: Sequence[Answers]) -> Answers:
    """Answers one after the other."""
    counts = np.concatenate([np.diff(part.offsets) for part in parts])
    return Answers(
        offsets=offsets_of(counts),
        **{
            field.name: np.concatenate([getattr(part, field.name) for part in parts])
            for field in fields(Answers)
            if field.name != "offsets"
        },
    )


LAYOUT: dict[str, Declaration] = {
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


class AnswerSet(Stateful):
    """The current answers: those of which both tuples are still in their windows.

    Cost of a batch: O(answers held) copied, O(log(tuples expired)) each.
    Source: B, section 4 (maintained answer set).
    """

    state = {"current": Record(Answers, LAYOUT)}

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
        both = concatenate([self.current, found])
        leaves = np.minimum(
            _leaving(both.left, number[side == 0], arrival[side == 0]),
            _leaving(both.right, number[side == 1], arrival[side == 1]),
        )
        gone = np.flatnonzero(leaves != NEVER)
        gone = gone[np.lexsort([both.right[gone], both.left[gone], leaves[gone]])]
        out = both.take(gone).changed(leaves[gone], -1)
        self.current = both.take(np.flatnonzero(leaves == NEVER))
        changes = concatenate([found, out])
        return changes.take(
            np.lexsort([np.arange(len(changes)), changes.change < 0, changes.arrival])
        )


def _leaving(wanted: Ints, number: Ints, arrival: Ints) -> Ints:
    """For each wanted tuple the arrival with which it left, or NEVER."""
    order = np.argsort(number)
    number, arrival = np.append(number[order], -1), np.append(arrival[order], NEVER)
    place = np.searchsorted(number[:-1], wanted)
    return np.where(number[place] == wanted, arrival[place], NEVER)
