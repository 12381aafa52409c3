"""Window operators that answer every arrival, with a window for each group.

Of many groups those with the latest arrivals are ready for more; the others rest.
"""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.operators.arrays import Floats, Ints, fitted, offsets_of
from sfumato.operators.laws.aggregate import Measured
from sfumato.operators.state.declared import Array, Declaration, List, Saved, Sizes, Value
from sfumato.operators.state.stateful import Operator, Stateful


class RestingGroup(Stateful):
    """One group's window. `wake` goes on, here or in another one, where `rest` has left off."""

    @abstractmethod
    def rest(self) -> Ints:
        """Return the state to save as one array, and reset."""

    @abstractmethod
    def recall(self, rested: Ints) -> None:
        """Load packed state only to save it again."""

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


GROUPED: dict[str, Declaration] = {
    "overflow": Value(low=0),
    "codes": Array(int, "groups", low=0),
    "groups": List(GroupAtRest()),
}
AWAKE = 2048  # groups that are ready for arrivals: waking a long window takes ten times its row


@dataclass(frozen=True)
class WindowAnswers:
    """Answers of a call to `process`, one entry per arriving tuple, in the order of arrival.

    held : int64[n], tuples its group's window holds once the tuple has entered, w'
    results : one Measured for each aggregate, n results each
    """

    held: Ints
    results: list[Measured]


class GroupedWindows(Operator):
    """Groups by code, in order of appearance; a kind says what it keeps of each in `_new_group`.

    No answer tells which groups rest.
    """

    spread = ("options",)
    state = GROUPED

    def __init__(self) -> None:
        self.overflow = 0  # tuples evicted so far, over all groups, only because of `max_tuples`
        self._groups: dict[int, Any] = {}  # an array: it rests
        self._recent: dict[int, Any] = {}  # those that do not, latest arrival last

    @abstractmethod
    def _new_group(self) -> Any:
        """A `RestingGroup` that has seen nothing."""

    def _group(self, code: int) -> Any:
        """Return the group of a code, ready for arrivals; a new one for a new code."""
        group = self._recent.pop(code, None)
        if group is None:
            group, rested = self._spare(), self._groups.get(code)
            if rested is not None:
                group.wake(rested)
            self._groups[code] = group
        self._recent[code] = group
        return group

    def _spare(self) -> Any:
        """One that has seen nothing: where there are many, that of a group that rests for it."""
        if len(self._recent) < AWAKE:
            return self._new_group()
        code = next(iter(self._recent))
        group = self._recent.pop(code)
        self._rests(code)
        self._groups[code] = group.rest()
        return group

    def _rests(self, code: int) -> None:
        """A group is not ready any more, or is no more."""

    def forget(self, codes: npt.ArrayLike) -> None:
        """Groups of which no tuple comes any more; those that are not known are passed over."""
        for code in np.asarray(codes).tolist():
            self._groups.pop(code, None)
            self._recent.pop(code, None)
            self._rests(code)
        self._groups = fitted(self._groups)

    @cached_property
    def scratch(self) -> Any:
        """One that is no group's: those at rest are saved and loaded by it, in turn."""
        return self._new_group()

    def _to_save(self, group: Any) -> Any:
        if isinstance(group, np.ndarray):
            self.scratch.recall(group)
            return self.scratch
        return group

    @property
    def codes(self) -> Ints:
        """The groups known, in order of appearance."""
        return np.array(list(self._groups), dtype=np.int64)

    @codes.setter
    def codes(self, codes: Ints) -> None:
        self._groups = dict.fromkeys(codes.tolist())

    @property
    def groups(self) -> Iterable[Any]:
        """Iterate over groups; the yielded object is reused."""
        return map(self._to_save, self._groups.values())

    @groups.setter
    def groups(self, groups: list[Any]) -> None:
        if len(groups) != len(self._groups):
            raise ValueError("every code must have its group, once")
        self._groups = dict(zip(self._groups, groups, strict=True))
