"""Window operators that answer every arrival, with a window for each group."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.operators.arrays import Ints
from sfumato.operators.laws.aggregate import Measured
from sfumato.operators.state.declared import Array, Declaration, Part, Value
from sfumato.operators.state.declared_list import List
from sfumato.operators.state.stateful import Operator

GROUPED: dict[str, Declaration] = {
    "overflow": Value(low=0),
    "codes": Array(int, "groups", low=0),
    "groups": List(Part("_new_group")),
}


@dataclass(frozen=True)
class WindowAnswers:
    """What a call to `process` answers, one entry an arriving tuple, in the order of arrival.

    held : int64[n], tuples its group's window holds once the tuple has entered, w'
    results : one Measured for each aggregate, n results each
    """

    held: Ints
    results: list[Measured]


class GroupedWindows(Operator):
    """Groups by code, in order of appearance; a kind says what it keeps of each in `_new_group`."""

    spread = ("options",)

    def __init__(self) -> None:
        self.overflow = 0  # tuples evicted so far, over all groups, only because of `max_tuples`
        self._groups: dict[int, Any] = {}

    @abstractmethod
    def _new_group(self) -> Any: ...

    def _group(self, code: int) -> Any:
        if code not in self._groups:
            self._groups[code] = self._new_group()
        return self._groups[code]

    def forget(self, codes: npt.ArrayLike) -> None:
        """Groups of which no tuple comes any more; those that are not known are passed over."""
        for code in np.asarray(codes).tolist():
            self._groups.pop(code, None)

    @property
    def codes(self) -> Ints:
        """The groups known, in order of appearance."""
        return np.array(list(self._groups), dtype=np.int64)

    @codes.setter
    def codes(self, codes: Ints) -> None:
        self._groups = dict.fromkeys(codes.tolist())

    @property
    def groups(self) -> list[Any]:
        """What is kept of each."""
        return list(self._groups.values())

    @groups.setter
    def groups(self, groups: list[Any]) -> None:
        if len(groups) != len(self._groups):
            raise ValueError("every code must have its group, once")
        self._groups = dict(zip(self._groups, groups, strict=True))
