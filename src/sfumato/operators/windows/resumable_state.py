"""What the operators share whose window is cut into an older and a newer part."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from sfumato.kernels.windows.held_tuples import HeldTuples


class ResumableState(ABC):
    """Laws of both parts of a window; the tuples themselves are the caller's.

    Between two calls it is kept where the older part ends and the laws of both parts; `memo` and
    `resume` save and bring back the little that does not follow from the held tuples.
    """

    _state: Any  # NamedTuple of arrays; `marks` and `reals` say what the others hold

    def clear(self) -> None:
        """Be as a new one; what memory there is stays."""
        for record in (self._state.marks, self._state.reals):
            record.view(np.int64).fill(0)  # three times as fast as a record of fields

    @property
    @abstractmethod
    def memo(self) -> tuple[int, float, float]:
        """Stream index where the older part ends, and two numbers the values do not tell; the
        index is -1 before the first arrival."""

    def resume(self, memo: tuple[int, float, float], tuples: HeldTuples) -> None:
        """Go on as the one whose `memo` this is, over the tuples it held.

        Raises ValueError for a memo that cannot be theirs.
        """
        middle, *numbers = memo
        if middle < 0:
            return
        if middle - tuples.first >= tuples.offsets.size:
            raise ValueError(f"its older part cannot end at tuple {middle}, which has not come")
        self._recall(*numbers)
        while not self._rebuilt(tuples, max(middle - tuples.first, 0)):
            self._grow()

    @abstractmethod
    def _recall(self, first: float, second: float) -> None:
        """Take the two numbers of a memo."""

    @abstractmethod
    def _rebuilt(self, tuples: HeldTuples, middle: int) -> bool:
        """Build both parts, the older one up to position `middle`; False for want of room."""

    @abstractmethod
    def _grow(self) -> None:
        """Make the room that was wanting."""


def with_room(state: Any) -> Any:
    """A state with planes at a stride, as large as its marks say that it must be.

    state : NamedTuple with `extent` (and `facts`) by block, `saved`, `rows` [stride, planes, width]
    and `bands` (and `row_facts`) by row of a block
    """
    marks = state.marks[0]
    blocks, saved = int(marks["blocks_needed"]) + 1, int(marks["saved_needed"])
    stride, width = 1 << int(marks["shift"]), int(marks["width_needed"])
    larger: dict[str, np.ndarray] = {}
    if blocks > len(state.extent):
        larger |= _longer(state, ("extent", "facts"), blocks)
    if saved > state.saved.size:
        larger["saved"] = np.zeros(saved * 5 // 4)
    rows, planes, cells = state.rows.shape
    if stride > rows or width > cells:
        larger["rows"] = np.zeros((stride, planes, max(width * 5 // 4, cells)))
        larger |= _longer(state, ("bands", "row_facts"), stride)
    return state._replace(**larger)


def _longer(state: Any, names: tuple[str, ...], length: int) -> dict[str, np.ndarray]:
    arrays = {name: getattr(state, name) for name in names if hasattr(state, name)}
    return {
        name: np.zeros((length, *array.shape[1:]), array.dtype) for name, array in arrays.items()
    }
