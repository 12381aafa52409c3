"""A group's window that may rest: what is saved of it as one array, a fraction of its memory."""

from abc import abstractmethod
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from sfumato.operators.arrays import Floats, Ints, offsets_of
from sfumato.operators.state.declared import Saved, Sizes
from sfumato.operators.state.stateful import Stateful


class RestingGroup(Stateful):
    """One group's window. `wake` goes on, here or in another one, where `rest` has left off."""

    @abstractmethod
    def rest(self) -> Ints:
        """What is saved, as one array; this is as a new one then."""

    @abstractmethod
    def recall(self, rested: Ints) -> None:
        """Have what was saved, for nothing but to be saved again."""

    @abstractmethod
    def wake(self, rested: Ints) -> None:
        """Go on as the one that rested, if this is as a new one."""


class GroupAtRest:
    """A group as declared state, awake or at rest; a loaded one is at rest.

    All are loaded by the owner's `scratch`, in turn.
    """

    def save(self, value: RestingGroup, name: str, saved: Saved) -> None:
        value.save_state(saved, f"{name}.")

    def load(self, saved: Saved, name: str, sizes: Sizes, owner: Any, present: Any) -> Ints:
        group: RestingGroup = owner.scratch
        group.load_state(saved, f"{name}.")
        return group.rest()


def packed(whole: Sequence[Ints], reals: Sequence[Floats]) -> Ints:
    """Arrays of one dimension as one: their sizes, then they."""
    parts = [*whole, *(part.view(np.int64) for part in reals)]
    return np.concatenate([np.array([part.size for part in parts]), *parts])


def unpacked(array: Ints, whole: int, reals: int) -> tuple[list[Ints], list[Floats]]:
    """So many arrays of whole numbers and of real ones, as `packed` took them: views."""
    sizes = array[: whole + reals]
    ends = (offsets_of(sizes) + sizes.size).tolist()
    parts = [array[begin:end] for begin, end in pairwise(ends)]
    return parts[:whole], [part.view(np.float64) for part in parts[whole:]]
