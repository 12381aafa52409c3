"""Damaged snapshots with a correct checksum."""

import json

import numpy as np

from sfumato.operators.state.snapshot import SNAPSHOT_PREFIX, SavedState, pack, unpack

WHOLE = [-1, 0, 1, 2, 7, 100, 2**31, 2**40, 2**62, 2**63 - 1, -(2**63)]
REAL = [np.nan, np.inf, -np.inf, 0.0, -1.0, 1e308, 1e-320, 2.0, 1e18]


def damaged(data: bytes, rng: np.random.Generator) -> bytes:
    """Return a snapshot with one array or value of its state changed in content, length or type."""
    _, _, length = SNAPSHOT_PREFIX.unpack_from(data)
    header = json.loads(data[SNAPSHOT_PREFIX.size : SNAPSHOT_PREFIX.size + length])
    kind, version = header["kind"], header["version"]
    saved = unpack(data, kind, version)
    values, arrays = json.loads(json.dumps(saved.values)), dict(saved.arrays)
    chosen = rng.choice([*arrays, ""]) if arrays else ""
    if chosen:
        arrays[chosen] = _array(arrays[chosen], rng)
    else:
        values["state"] = _value(values["state"], rng)
    return pack(kind, version, SavedState(values, arrays))


def _array(array, rng):
    """Return the array with changed entries, or a different length, shape or type."""
    form = rng.choice(["entries", "entries", "entries", "shorter", "longer", "flat", "type"])
    if form == "shorter" and len(array):
        return array[:-1]
    if form == "longer" and len(array):
        return np.concatenate([array, array[-1:]])
    if form == "flat":
        return array.reshape(-1)
    if form == "type":
        return np.zeros(array.shape, np.int32 if array.dtype.kind == "f" else np.float64)
    other = array.copy()
    flat = other.reshape(-1)
    for place in rng.integers(0, flat.size, min(flat.size, int(rng.integers(1, 4)))):
        flat[place] = _entry(flat, place, rng)
    return other


def _entry(flat, place, rng):
    if flat.dtype.kind == "b":
        return not flat[place]
    if flat.dtype.kind == "f":
        return rng.choice([*REAL, rng.choice(flat)])
    near = int(flat[place]) + int(rng.choice([-3, -1, 1, 3]))
    wanted = near if rng.random() < 0.5 else WHOLE[rng.integers(len(WHOLE))]
    kind = np.iinfo(flat.dtype)
    return min(max(wanted, kind.min), kind.max)


def _value(value, rng):
    """Change one leaf of a JSON tree, or remove one branch, and return the tree."""
    if isinstance(value, dict | list) and value:
        names = [*value] if isinstance(value, dict) else range(len(value))
        name = names[rng.integers(len(names))]
        if rng.random() < 0.1:
            del value[name]
        else:
            value[name] = _value(value[name], rng)
        return value
    others = [None, "x", 1.5, [], {}, True, *WHOLE]
    if type(value) is int and rng.random() < 0.7:
        others = [value - 1, value + 1, *WHOLE]
    return others[rng.integers(len(others))]
