"""Records of parallel arrays that can be sliced and concatenated."""

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np

from sfumato.operators.arrays import gather_lists
from sfumato.operators.state.declared import Array, declared_fields


class Columns:
    """Base class of dataclasses of arrays with one entry per item; a field that is None stays None.

    flat : fields with a list of entries per item, stored end to end
    begins : field with the offsets of these lists, int64[n + 1]
    axis : axis of the items in matrices
    """

    _flat: ClassVar[tuple[str, ...]] = ()
    _begins: ClassVar[str] = ""
    _axis: ClassVar[int] = 0

    def __init_subclass__(cls, **given: Any) -> None:
        for name, value in given.items():
            setattr(cls, f"_{name}", value)

    @classmethod
    def empty(cls, **lengths: int) -> Self:
        """Return an instance without items; `lengths` are the other dimensions, by name."""
        arrays = {}
        for name, declared in declared_fields(cls).items():  # type: ignore[arg-type]
            if isinstance(declared, Array):
                sizes = (lengths.get(s, 0) if isinstance(s, str) else s for s in declared.sizes)
                arrays[name] = np.empty([size or 0 for size in sizes], declared.dtype)
        if cls._begins:
            arrays[cls._begins] = np.zeros(1, np.int64)
        return cls(**arrays)

    @classmethod
    def concat(cls, parts: Sequence[Self]) -> Self:
        """Concatenate one or more parts."""
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

    def for_kernels(self) -> Self:
        """Return the items as contiguous, writable arrays, so that kernels compile only once."""
        arrays = vars(self).items()
        return type(self)(
            **{name: a if a is None else np.require(a, None, ["C", "W"]) for name, a in arrays}
        )

    def part(self, begin: int, end: int, copy: bool = False) -> Self:
        """Return items [begin, end), as views unless `copy`."""
        items, flat, offsets = slice(begin, end), slice(0, 0), getattr(self, self._begins, None)
        if offsets is not None:
            offsets = offsets[begin : end + 1]
            flat, offsets = slice(offsets[0], offsets[-1]), offsets - offsets[0]
        return self._picked(items, flat, offsets, copy)

    def take(self, places: Any) -> Self:
        """Return a copy of items: at places int64[k], in that order, or selected by bool[n]."""
        places = np.flatnonzero(places) if places.dtype == np.bool_ else places
        k = places.size
        if k and places[-1] - places[0] == k - 1 and (places[1:] > places[:-1]).all():  # a range
            return self.part(int(places[0]), int(places[-1]) + 1, copy=True)
        flat, offsets = places, getattr(self, self._begins, None)
        if offsets is not None:
            offsets, flat = gather_lists(offsets, places)
        return self._picked(places, flat, offsets, True)

    def _picked(self, items: Any, flat: Any, offsets: Any, copy: bool) -> Self:
        """Select `items`, and the entries `flat` of fields with lists."""
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
