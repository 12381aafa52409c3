"""Records of parallel arrays: parts of them, several as one, and none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, ClassVar, Self

import numpy as np

from sfumato.operators.arrays import chosen
from sfumato.operators.state.declared import Array, Declaration


class Columns:
    """A dataclass of arrays, one entry an item; a field that is None stays None.

    flat : fields that have a list of entries for each item, end to end
    begins : the field with their offsets, int64[n + 1]    axis : of the items in all arrays
    layout : how each field is saved, where it is
    """

    layout: ClassVar[Mapping[str, Declaration]] = {}
    _flat: ClassVar[tuple[str, ...]] = ()
    _begins: ClassVar[str] = ""
    _axis: ClassVar[int] = 0

    def __init_subclass__(cls, **given: Any) -> None:
        for name, value in given.items():
            setattr(cls, f"_{name}", value)

    @classmethod
    def none(cls, **lengths: int) -> Self:
        """No items; of other dimensions these lengths."""
        arrays = {}
        for name, declared in cls.layout.items():
            if isinstance(declared, Array):
                sizes = (lengths.get(s, 0) if isinstance(s, str) else s for s in declared.sizes)
                arrays[name] = np.empty([size or 0 for size in sizes], declared.dtype)
        return cls(**arrays, **({cls._begins: np.zeros(1, np.int64)} if cls._begins else {}))

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Some parts, at least one, one after the other."""
        if len(parts) == 1:
            return parts[0]
        first, arrays = parts[0], {}
        for name in first._there():
            several = [getattr(part, name) for part in parts]
            if name == cls._begins:
                ends = np.cumsum([0] + [each[-1] for each in several[:-1]])
                several[1:] = [e[1:] + end for e, end in zip(several[1:], ends[1:], strict=True)]
            arrays[name] = np.concatenate(several, axis=cls._axis if several[0].ndim > 1 else 0)
        return cls(**arrays)

    def part(self, begin: int, end: int) -> Self:
        """Items [begin, end), not copied."""
        items, flat, offsets = slice(begin, end), slice(0, 0), None
        if self._begins in self._there():
            offsets = getattr(self, self._begins)[begin : end + 1]
            flat, offsets = slice(offsets[0], offsets[-1]), offsets - offsets[0]
        return self._picked(offsets, lambda array, axis, inner: array[
            (*[slice(None)] * axis, flat if inner else items)])  # fmt: skip

    def take(self, places: Any) -> Self:
        """A copy of the items at some places (int64[k]), in that order, or where bool[n] marks."""
        places = np.flatnonzero(places) if places.dtype == np.bool_ else places
        if places.size and (np.diff(places) == 1).all():  # a range, as where there is one group
            part = self.part(int(places[0]), int(places[-1]) + 1)
            offsets = getattr(part, self._begins, None)
            return part._picked(offsets, lambda array, axis, inner: array.copy())
        offsets, flat = None, places
        if self._begins in self._there():
            offsets, flat = chosen(getattr(self, self._begins), places)
        return self._picked(
            offsets, lambda array, axis, inner: np.take(array, flat if inner else places, axis)
        )

    def _there(self) -> Iterable[str]:
        return [f.name for f in fields(self) if getattr(self, f.name) is not None]  # type: ignore[arg-type]

    def _picked(self, offsets: Any, pick: Callable[[Any, int, bool], Any]) -> Self:
        arrays = {self._begins: offsets} if offsets is not None else {}
        for name in self._there():
            if name != self._begins:
                array = getattr(self, name)
                axis = self._axis if array.ndim > 1 else 0
                arrays[name] = pick(array, axis, name in self._flat)
        return type(self)(**arrays)
