"""Declared state: arrays, values, parts and records, validated when they are loaded.

A declaration describes an attribute. Lengths have names: a name stands for the same length in all
arrays of a state, and integers of the state's config are also lengths. Restored arrays are
contiguous, writable and of the declared dtype, shape and range.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Protocol, get_origin, get_type_hints

import numpy as np

from sfumato.operators.state.snapshot import SavedState, SnapshotError

MAX_COUNT = 2**60  # sums of counts fit in int64
Sizes = dict[str, int]  # lengths known so far, by name
Size = str | int | None  # a name, a fixed length, or None for any length


class Declaration(Protocol):
    """A declaration, which saves and loads an attribute as the parts `name` and `name.*`.

    owner : object with the attribute; present : current value of the attribute
    """

    def save(self, value: Any, name: str, saved: SavedState) -> None: ...

    def load(self, saved: SavedState, name: str, sizes: Sizes, owner: Any, present: Any) -> Any: ...


@dataclass(frozen=True)
class Value:
    """A JSON scalar, list or dict.

    kind : int, float, str, bool, list, dict or tuple (a list of scalars or None)
    low : inclusive lower bound of a number, which is then at most 2**60
    none : whether None is allowed
    """

    kind: type = int
    low: int | None = None
    none: bool = False

    def save(self, value: Any, name: str, saved: SavedState) -> None:
        saved.values[name] = value.item() if isinstance(value, np.generic) else value

    def load(self, saved: SavedState, name: str, sizes: Sizes, owner: Any, present: Any) -> Any:
        value = saved.value(name)
        if value is None and self.none:
            return None
        if self.kind is float and type(value) is int:
            value = float(value)
        if self.kind is tuple and type(value) is list:
            return tuple(value)
        if type(value) is not self.kind or not self._within(value):
            raise SnapshotError(f"`{name}` must be {self}; got {value!r:.80}")
        return value

    def _within(self, value: Any) -> bool:
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            return False
        return self.low is None or self.low <= value <= MAX_COUNT


class Array:
    """An array with a dtype and a length per dimension.

    dtype : bool, int (int64), float (float64) or another numeric NumPy dtype
    sizes : per dimension a name, a number, or None for any length
    low, high : inclusive lower bound; exclusive upper bound, a number or the name of a length. The
        default for numbers and codes, integers from 0 or -1, is MAX_COUNT
    """

    def __init__(
        self,
        dtype: Any,
        *sizes: Size,
        low: int | float | None = None,
        high: int | float | str | None = None,
    ) -> None:
        self.dtype, self.sizes = np.dtype(dtype), sizes or (None,)
        if high is None and low in (0, -1) and self.dtype == np.int64:
            high = MAX_COUNT
        self.low, self.high = low, high

    def save(self, value: Any, name: str, saved: SavedState) -> None:
        array = np.asarray(value)
        if array.dtype != self.dtype or array.ndim != len(self.sizes):
            raise TypeError(
                f"`{name}` is declared as {self.dtype} with {len(self.sizes)} dimensions; it is "
                f"{array.dtype} of shape {array.shape}"
            )
        saved.arrays[name] = array

    def load(
        self, saved: SavedState, name: str, sizes: Sizes, owner: Any, present: Any
    ) -> np.ndarray:
        array = saved.array(name)
        if array.dtype != self.dtype or array.ndim != len(self.sizes):
            raise SnapshotError(
                f"`{name}` must be {self.dtype} with {len(self.sizes)} dimensions; got "
                f"{array.dtype} of shape {array.shape}"
            )
        for size, length in zip(self.sizes, array.shape, strict=True):
            check_size(name, size, length, sizes)
        if array.size and self.low is not None and not array.min() >= self.low:
            raise SnapshotError(f"`{name}` must be at least {self.low}; got {array.min()}")
        if array.size and self.high is not None:
            high = sizes[self.high] if isinstance(self.high, str) else self.high
            if not array.max() < high:
                raise SnapshotError(f"`{name}` must be below {high}; got {array.max()}")
        return np.require(array, self.dtype, ["C", "W"])


class Offsets(Array):
    """Offsets int64[n + 1] of n lists that are stored end to end in an array of length m.

    n, m : names of these two lengths, or numbers
    """

    def __init__(self, n: Size, m: Size) -> None:
        super().__init__(int)
        self.n, self.m = n, m

    def load(
        self, saved: SavedState, name: str, sizes: Sizes, owner: Any, present: Any
    ) -> np.ndarray:
        offsets = super().load(saved, name, sizes, owner, present)
        if not offsets.size or offsets[0] != 0 or (offsets[1:] < offsets[:-1]).any():
            raise SnapshotError(f"`{name}` must begin with 0 and not decrease")
        check_size(name, self.n, offsets.size - 1, sizes)
        check_size(name, self.m, int(offsets[-1]), sizes)
        return offsets


@dataclass(frozen=True)
class Part:
    """An attribute with declared state, created by the owner's constructor.

    make : name of the owner's method that creates an empty part; required in `Optional`
    """

    make: str | None = None

    def save(self, value: Any, name: str, saved: SavedState) -> None:
        value.save_state(saved, f"{name}.")

    def load(self, saved: SavedState, name: str, sizes: Sizes, owner: Any, present: Any) -> Any:
        part = present if self.make is None else getattr(owner, self.make)()
        part.load_state(saved, f"{name}.")
        return part


@dataclass(frozen=True)
class Record:
    """A NamedTuple or dataclass, saved field by field; see `declared_fields`."""

    kind: Callable[..., Any]

    def save(self, value: Any, name: str, saved: SavedState) -> None:
        for part, declaration in declared_fields(self.kind).items():
            declaration.save(getattr(value, part), f"{name}.{part}", saved)

    def load(self, saved: SavedState, name: str, sizes: Sizes, owner: Any, present: Any) -> Any:
        return self.kind(
            **{
                part: declaration.load(
                    saved, f"{name}.{part}", sizes, owner, getattr(present, part, None)
                )
                for part, declaration in declared_fields(self.kind).items()
            }
        )


@cache
def declared_fields(kind: Any) -> dict[str, Declaration]:
    """Return the declarations of a class's fields: `NAME: Annotated[TYPE, DECLARATION]`."""
    hints = get_type_hints(kind, include_extras=True)
    fields = [(name, hints[name]) for name in kind.__match_args__]
    return {name: of.__metadata__[0] for name, of in fields if get_origin(of) is Annotated}


@dataclass(frozen=True)
class Optional:
    """None, or a value declared by `of`."""

    of: Declaration

    def save(self, value: Any, name: str, saved: SavedState) -> None:
        saved.values[f"{name}?"] = value is not None
        if value is not None:
            self.of.save(value, name, saved)

    def load(self, saved: SavedState, name: str, sizes: Sizes, owner: Any, present: Any) -> Any:
        if not Value(bool).load(saved, f"{name}?", sizes, owner, None):
            return None
        return self.of.load(saved, name, sizes, owner, present)


def check_size(name: str, size: Size, length: int, sizes: Sizes) -> None:
    """Compare `length` with the known length of the name `size`, or record `length`."""
    if size is None:
        return
    known = sizes.setdefault(size, length) if isinstance(size, str) else size
    if length != known:
        raise SnapshotError(f"`{name}` must have length {known} (`{size}`); got {length}")
