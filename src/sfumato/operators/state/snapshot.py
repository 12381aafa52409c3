"""Binary format of saved state: versioned scalars and arrays, without pickle.

Layout, little-endian: the magic ``SFUM``, a CRC-32 of the header and arrays, the header's length,
the header (JSON: kind, version, scalars, and the place of every array), then the raw bytes of each
array, aligned to 8 bytes.
"""

import json
import math
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

MAGIC = b"SFUM"
SNAPSHOT_PREFIX = struct.Struct("<4sII")
OTHER_LAYOUT = "Start from an empty checkpoint, or use the release that wrote the snapshot"
ALLOWED_KINDS = "biuf"  # bool, signed, unsigned, float: no kind that can contain objects


class SnapshotError(ValueError):
    """Error for bytes that are damaged or are not a snapshot of the expected kind and version."""


@dataclass
class SavedState:
    """The saved state of one operator: parts by name. Loading a part removes it.

    values : scalars (int, float, str, bool, None), and lists and dicts of scalars
    arrays : NumPy arrays of bool, integer or float dtype, of any shape
    convert : function of a loaded table's name and content that adds columns the saved table does
        not have; None to keep tables as they are
    """

    values: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    convert: Callable[[str, Any], Any] | None = None

    def value(self, name: str) -> Any:
        if name not in self.values:
            raise SnapshotError(f"the snapshot has no value `{name}`. {OTHER_LAYOUT}")
        return self.values.pop(name)

    def array(self, name: str) -> np.ndarray:
        if name not in self.arrays:
            raise SnapshotError(f"the snapshot has no array `{name}`. {OTHER_LAYOUT}")
        return self.arrays.pop(name)

    def check_empty(self) -> None:
        """Raise SnapshotError if parts are left."""
        if left := [*self.values, *self.arrays]:
            raise SnapshotError(f"the snapshot has the unknown parts {left}. {OTHER_LAYOUT}")


def pack(kind: str, version: int, saved: SavedState) -> bytes:
    """Serialise `saved`, labelled with the operator's `kind` and the `version` of its layout.

    Raises TypeError for arrays of other dtypes, and for values that JSON cannot represent.
    """
    parts: list[bytes] = []
    places: dict[str, dict[str, Any]] = {}
    offset = 0
    for name, array in saved.arrays.items():
        contiguous = np.asarray(array, order="C")
        if contiguous.dtype.kind not in ALLOWED_KINDS:
            raise TypeError(f"array `{name}` must be numeric or boolean; got {contiguous.dtype}")
        little = contiguous.astype(contiguous.dtype.newbyteorder("<"), copy=False)
        about = {"dtype": little.dtype.str, "shape": array.shape}
        places[name] = {"offset": offset, "length": little.nbytes, **about}
        parts.append(little.tobytes() + b"\0" * (-little.nbytes % 8))
        offset += len(parts[-1])
    header = json.dumps(
        {"kind": kind, "version": version, "values": saved.values, "parts": places},
        separators=(",", ":"),
    ).encode()
    header += b" " * (-(SNAPSHOT_PREFIX.size + len(header)) % 8)
    body = b"".join([header, *parts])
    return SNAPSHOT_PREFIX.pack(MAGIC, zlib.crc32(body), len(header)) + body


def unpack(data: bytes, kind: str, version: int) -> SavedState:
    """Return the state in `data`, with new writable arrays.

    Raises SnapshotError for bytes that are truncated, damaged, or of a different kind or version.
    """
    if len(data) < SNAPSHOT_PREFIX.size or data[:4] != MAGIC:
        raise SnapshotError(
            f"expected a sfumato snapshot of `{kind}`; got {len(data)} bytes of a different format"
        )
    _, checksum, header_length = SNAPSHOT_PREFIX.unpack_from(data)
    view = memoryview(data)[SNAPSHOT_PREFIX.size :]
    if zlib.crc32(view) != checksum:
        raise SnapshotError(f"the snapshot of `{kind}` is damaged: its checksum does not match")
    try:
        header = json.loads(bytes(view[:header_length]))
        found = header["kind"], header["version"]
        if header.keys() != {"kind", "version", "values", "parts"} or type(found[1]) is not int:
            raise ValueError("its header has the wrong fields")
        if found == (kind, version):
            return _read(header["values"], header["parts"], view[header_length:])
    except Exception as error:  # forged bytes can raise any error
        raise SnapshotError(f"the snapshot of `{kind}` is damaged: {error}") from error
    raise SnapshotError(
        f"expected a snapshot of `{kind}` version {version}; got `{found[0]!s:.80}` version "
        f"{found[1]}. {OTHER_LAYOUT}"
    )


def cut(data: bytes, size: int) -> list[memoryview]:
    """Split a snapshot into pieces of at most `size` bytes; the joined pieces equal `data`.

    A piece starts at the start of an array, or a multiple of `size` bytes after that start. If an
    array has grown at its end, its earlier pieces and the following arrays are split as before.
    """
    view = memoryview(data)
    _, _, header_length = SNAPSHOT_PREFIX.unpack_from(data)
    body = SNAPSHOT_PREFIX.size + header_length
    header = json.loads(bytes(view[SNAPSHOT_PREFIX.size : body]))
    ends = [body + place["offset"] for place in header["parts"].values()]
    pieces = []
    start, small = 0, size // 16  # small arrays share a piece, to limit the number of pieces
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


def _read(
    values: dict[str, Any], places: dict[str, dict[str, Any]], body: memoryview
) -> SavedState:
    """Read all arrays; their dtypes and shapes must imply the stored offsets and lengths."""
    arrays, offset = {}, 0
    for name, place in places.items():
        dtype, shape = np.dtype(place["dtype"]), place["shape"]
        if dtype.kind not in ALLOWED_KINDS or dtype.itemsize == 0:
            raise ValueError(f"the array `{name}` has the unknown type {place['dtype']!r}")
        whole = all(type(length) is int and length >= 0 for length in shape)
        size = math.prod(shape) * dtype.itemsize if whole else -1
        about = {"offset": offset, "length": size, "dtype": dtype.str, "shape": shape}
        if repr(place) != repr(about) or not 0 <= size <= len(body) - offset:
            raise ValueError(f"the array `{name}` has a wrong type, shape or position")
        part = np.frombuffer(body[offset : offset + size], np.uint8)
        if dtype.kind == "b" and (part > 1).any():
            raise ValueError(f"the array `{name}` has bytes other than 0 and 1")
        arrays[name] = part.view(dtype).reshape(shape).astype(dtype.newbyteorder("="))
        offset += size + -size % 8
    if offset != len(body):
        raise ValueError("it has extra bytes at its end")
    if type(values) is not dict:
        raise ValueError("its values are not an object")
    return SavedState(values, arrays)
