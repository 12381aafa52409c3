"""Lists as declared state: the arrays of all items end to end, in one array for each part."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.operators.state.declared import Declaration, Saved, Sizes, Value
from sfumato.operators.state.snapshot import SnapshotError


@dataclass(frozen=True)
class List:
    """A list of what `of` declares. Arrays of the items are stored end to end, one for all items.

    Lengths named inside an item are the item's own, those named before are shared.
    Cost: some 20 microseconds an item: for more than thousands keep one array over all items.
    """

    of: Declaration

    def save(self, value: Any, name: str, saved: Saved) -> None:
        items = []
        for item in value:
            one = Saved()
            self.of.save(item, "item", one)
            items.append(one)
        names = list(dict.fromkeys(part for one in items for part in one.values))
        saved.values[name] = {
            "items": len(items),
            "values": {part: [one.values.get(part) for one in items] for part in names},
        }
        for part in dict.fromkeys(part for one in items for part in one.arrays):
            present = [one.arrays.get(part) for one in items]
            filled = [array for array in present if array is not None]
            absent = (-1,) * filled[0].ndim
            shapes = [absent if array is None else array.shape for array in present]
            saved.arrays[f"{name}/{part}"] = np.concatenate([array.ravel() for array in filled])
            saved.arrays[f"{name}/{part}:shapes"] = np.array(shapes, np.int64)

    def load(self, saved: Saved, name: str, sizes: Sizes, owner: Any, present: Any) -> list[Any]:
        about = Value(dict).load(saved, name, sizes, owner, None)
        count, values = about.get("items"), about.get("values")
        if type(count) is not int or count < 0 or not isinstance(values, dict):
            raise SnapshotError(f"`{name}` does not say how many items it has")
        columns = [column for column in values.values() if isinstance(column, list)]
        if len(columns) != len(values) or any(len(column) != count for column in columns):
            raise SnapshotError(f"the values of `{name}` are not those of {count} items")
        mark = f"{name}/"
        parts = [p for p in saved.arrays if p.startswith(mark) and not p.endswith(":shapes")]
        cut = {part[len(mark) :]: _cut(saved, part, count) for part in parts}
        if count and not cut and not values:
            raise SnapshotError(f"`{name}` has {count} items without any part")
        out = []
        for i in range(count):
            one = Saved(
                {part: column[i] for part, column in values.items()},
                {part: arrays[i] for part, arrays in cut.items() if arrays[i] is not None},
            )
            out.append(self.of.load(one, "item", dict(sizes), owner, None))
            one.values = {part: value for part, value in one.values.items() if value is not None}
            one.check_empty()
        return out


def _cut(saved: Saved, name: str, count: int) -> list[Any]:
    """The arrays of the items out of one: None where an item has none."""
    flat, shapes = saved.array(name), saved.array(f"{name}:shapes")
    fits = shapes.dtype == np.int64 and shapes.ndim == 2 and len(shapes) == count
    if not fits or flat.ndim != 1:
        raise SnapshotError(f"`{name}` is not one array of {count} items")
    out: list[Any] = []
    begin = 0
    for shape in shapes.tolist():
        if any(length < 0 for length in shape):
            out.append(None)
            continue
        end = begin + math.prod(shape)
        if end > flat.size:
            raise SnapshotError(f"`{name}` is shorter than its items")
        out.append(flat[begin:end].reshape(shape))
        begin = end
    if begin != flat.size:
        raise SnapshotError(f"`{name}` is longer than its items")
    return out
