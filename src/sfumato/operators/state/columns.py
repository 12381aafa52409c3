"""Records of parallel arrays: parts of them, several as one, and none."""

from collections.abc import Mapping, Sequence
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
        arrays = {}
        for name, first in vars(parts[0]).items():
            if first is not None:
                several = [getattr(part, name) for part in parts]
                if name == cls._begins:
                    ends = np.cumsum([each[-1] for each in several])
                    several[1:] = [e[1:] + end for e, end in zip(several[1:], ends, strict=False)]
                arrays[name] = np.concatenate(several, axis=cls._axis if first.ndim > 1 else 0)
        return cls(**arrays)

    def part(self, begin: int, end: int, copy: bool = False) -> Self:
        """Items [begin, end), not copied unless asked for."""
        items, flat, offsets = slice(begin, end), slice(0, 0), getattr(self, self._begins, None)
        if offsets is not None:
            offsets = offsets[begin : end + 1]
            flat, offsets = slice(offsets[0], offsets[-1]), offsets - offsets[0]
        return self._picked(items, flat, offsets, copy)

    def take(self, places: Any) -> Self:
        """A copy of the items at some places (int64[k]), in that order, or where bool[n] marks."""
        places = np.flatnonzero(places) if places.dtype == np.bool_ else places
        k = places.size
        if k and places[-1] - places[0] == k - 1 and (places[1:] > places[:-1]).all():  # a range
            return self.part(int(places[0]), int(places[-1]) + 1, copy=True)
        flat, offsets = places, getattr(self, self._begins, None)
        if offsets is not None:
            offsets, flat = chosen(offsets, places)
        return self._picked(places, flat, offsets, True)

    def _picked(self, items: Any, flat: Any, offsets: Any, copy: bool) -> Self:
        """Some items, and of those fields that have lists the entries `flat`."""
        arrays = {}
        for name, array in vars(self).items():
            if name == self._begins or array is None:
                arrays[name] = offsets if name == self._begins else None
                continue
            index, last = flat if name in self._flat else items, self._axis and array.ndim > 1
            if isinstance(index, slice):
                view = array[..., index] if last else array[index]
                arrays[name] = view.copy() if copy else view
            else:
                arrays[name] = array.take(index, -1 if last else 0)
        return type(self)(**arrays)
