"""The one binary form of saved state: scalars and arrays, versioned, no pickle.

Layout, little-endian: the magic ``SFUM``, a CRC-32 of everything after it, the header's length,
the header (JSON: kind, version, scalars, and the place of every part), then the parts, each
starting at a multiple of 8 bytes: the raw bytes of arrays.
"""

import json
import math
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

MAGIC = b"SFUM"
SNAPSHOT_PREFIX = struct.Struct("<4sII")
ALLOWED_KINDS = "biuf"  # bool, signed, unsigned, float: nothing that could hold an object
HEADER_TYPES = {"kind": str, "version": int, "values": dict, "parts": dict}
PART_TYPES = {"offset": int, "length": int, "dtype": str, "shape": list}
DAMAGE = (
    ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, RecursionError,
    TypeError, ValueError,
)  # fmt: skip
"""Errors that forged bytes can cause where they are read; each is reported as SnapshotError."""


class SnapshotError(ValueError):
    """The bytes are not a snapshot of the wanted kind and version, or they are damaged."""


@dataclass(frozen=True)
class Snapshot:
    """The saved state of one operator.

    values : scalars (int, float, str, bool, None) or lists and dicts of them
    arrays : NumPy arrays of bool, integer or float dtype, any shape
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)


def pack(kind: str, version: int, snapshot: Snapshot) -> bytes:
    """Bytes of `snapshot`, labelled with the operator's `kind` and the `version` of its layout.

    Raises TypeError for an array of another dtype, ValueError for a scalar JSON cannot hold.
    Cost: one copy of every part.
    """
    parts: list[bytes] = []
    places: dict[str, dict[str, Any]] = {}
    offset = 0
    for name, array in snapshot.arrays.items():
        contiguous = np.asarray(array, order="C")
        if contiguous.dtype.kind not in ALLOWED_KINDS:
            raise TypeError(f"array `{name}` must be of numbers or bools; got {contiguous.dtype}")
        little = contiguous.astype(contiguous.dtype.newbyteorder("<"), copy=False)
        about = {"dtype": little.dtype.str, "shape": array.shape}
        places[name] = {"offset": offset, "length": little.nbytes, **about}
        parts.append(little.tobytes() + b"\0" * (-little.nbytes % 8))
        offset += len(parts[-1])
    header = json.dumps(
        {"kind": kind, "version": version, "values": dict(snapshot.values), "parts": places},
        separators=(",", ":"),
    ).encode()
    header += b" " * (-(SNAPSHOT_PREFIX.size + len(header)) % 8)
    body = b"".join([header, *parts])
    return SNAPSHOT_PREFIX.pack(MAGIC, zlib.crc32(body), len(header)) + body


def unpack(data: bytes, kind: str, version: int) -> Snapshot:
    """The snapshot in `data`; arrays are fresh and writable.

    Raises SnapshotError when the bytes are cut, damaged, or of another kind or version. Every
    damage is covered: a header that is not valid JSON or has another structure, and parts that
    overlap, are too short or leave bytes over.
    """
    if len(data) < SNAPSHOT_PREFIX.size or data[:4] != MAGIC:
        raise SnapshotError(f"expected a sfumato snapshot of `{kind}`; got {len(data)} other bytes")
    _, checksum, header_length = SNAPSHOT_PREFIX.unpack_from(data)
    view = memoryview(data)[SNAPSHOT_PREFIX.size :]
    if zlib.crc32(view) != checksum:
        raise SnapshotError(f"the snapshot of `{kind}` is damaged: its checksum does not match")
    try:
        header = json.loads(bytes(view[:header_length]))
        _check_keys("header", header, HEADER_TYPES)
        found_kind, found_version = header["kind"], header["version"]
        if (found_kind, found_version) == (kind, version):
            return _read(header["values"], header["parts"], view[header_length:])
    except DAMAGE as error:
        raise SnapshotError(f"the snapshot of `{kind}` is damaged: {error}") from error
    raise SnapshotError(
        f"expected a snapshot of `{kind}` version {version}; "
        f"got `{found_kind:.80}` version {found_version}: "
        "start from an empty checkpoint, or use the release that wrote it"
    )


def cut(data: bytes, size: int) -> list[memoryview]:
    """A snapshot's bytes in pieces of at most `size`, which joined are `data` again.

    Cuts lie where parts begin, or whole pieces behind: an array of which only the end is new, or
    that comes behind one that has grown, is cut into the same pieces as before.
    """
    view = memoryview(data)
    _, _, header_length = SNAPSHOT_PREFIX.unpack_from(data)
    body = SNAPSHOT_PREFIX.size + header_length
    header = json.loads(bytes(view[SNAPSHOT_PREFIX.size : body]))
    ends = [body + place["offset"] for place in header["parts"].values()]
    pieces = []
    start, small = 0, size // 16  # small parts stay together, so that there are few pieces
    for before, end in pairwise([0, *ends, len(data)]):
        if end - before > small or end - start > size:
            pieces.append(view[start:before])
            start = before
        while end - start > size:
            pieces.append(view[start : start + size])
            start += size
        if end - before > small:
            pieces.append(view[start:end])
            start = end
    pieces.append(view[start:])
    return [piece for piece in pieces if len(piece)]


def _check_keys(what: str, found: Any, types: Mapping[str, type]) -> None:
    """Raise ValueError unless `found` is a JSON object with these keys and types."""
    if type(found) is not dict or found.keys() != types.keys():
        raise ValueError(f"its {what} is not an object with the keys {', '.join(types)}")
    for key, kind in types.items():
        if type(found[key]) is not kind:
            raise ValueError(f"`{key}` of its {what} is not of type {kind.__name__}")


def _read(values: dict[str, Any], places: dict[str, dict[str, Any]], body: memoryview) -> Snapshot:
    arrays: dict[str, np.ndarray] = {}
    expected = 0
    for name, place in places.items():
        _check_keys(f"part `{name:.80}`", place, PART_TYPES)
        offset, length = place["offset"], place["length"]
        if offset != expected or not 0 <= length <= len(body) - offset:
            raise ValueError(f"the part `{name}` is not where it should be")
        part = body[offset : offset + length]
        expected = offset + length + -length % 8
        arrays[name] = _array(name, part, place["dtype"], place["shape"])
    if expected != len(body):
        raise ValueError("there are bytes after its parts")
    return Snapshot(values, arrays)


def _array(name: str, part: memoryview, kind: str, shape: list[int]) -> np.ndarray:
    dtype = np.dtype(kind)
    if dtype.kind not in ALLOWED_KINDS or dtype.itemsize == 0:
        raise ValueError(f"the array `{name}` is of {kind!r}")
    whole = all(type(length) is int and length >= 0 for length in shape)
    if not whole or math.prod(shape) * dtype.itemsize != len(part):
        raise ValueError(f"the array `{name}` has not the shape {shape}")
    if dtype.kind == "b" and (np.frombuffer(part, np.uint8) > 1).any():
        raise ValueError(f"the array `{name}` holds bytes that are no bools")
    return np.frombuffer(part, dtype).reshape(shape).astype(dtype.newbyteorder("="))
