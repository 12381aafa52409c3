"""Numbers for the streams that are ranked against each other, each a stream of one key."""

import numpy as np
import pyarrow as pa

from sfumato.operators.arrays import Ints, longer
from sfumato.operators.state.declared import Array, Part
from sfumato.operators.state.stateful import Stateful
from sfumato.tables.keys import KeyIndex
from sfumato.tables.row_store import RowStore


class StreamNumbers(Stateful):
    """Streams numbered in order of first appearance; they go with the key that they belong to.

    Numbers only grow, for they decide between equal streams; the codes of `index` come again.
    key, number : int64[codes], of each stream, -1 where a code is free
    """

    state = {
        "index": Part(),
        "values": Part(),
        **dict.fromkeys(("key", "number"), Array(int, "codes", low=-1)),
    }

    def __init__(self) -> None:
        self.index, self.values = KeyIndex(), RowStore()
        self.key = self.number = np.empty(0, np.int64)

    def encode(self, key: Ints, stream: pa.ChunkedArray) -> Ints:
        """int64[n]: numbers of streams, with their keys (int64[n])."""
        codes = self.index.encode(pa.table({"key": key, "stream": stream}))
        self.key = longer(self.key, self.index.size, -1)
        self.number = longer(self.number, self.index.size, -1)
        first = np.sort(np.unique(codes, return_index=True)[1])
        first = first[self.number[codes[first]] < 0]
        if len(first):
            fresh = pa.table({"stream": stream.take(pa.array(first))})
            self.key[codes[first]] = key[first]
            self.number[codes[first]] = self.values.append(fresh)
        return self.number[codes]

    def take(self, numbers: Ints) -> pa.ChunkedArray:
        """The streams that have these numbers."""
        return self.values.take(numbers).column("stream")

    def forget(self, keys: Ints) -> None:
        """Drop all streams of these keys."""
        codes = np.flatnonzero(np.isin(self.key, keys))
        if len(codes):
            self.index.forget(codes)
            self.key[codes] = self.number[codes] = -1
            self.values.forget(self.number[self.number >= 0])

    def before_saving(self) -> None:
        self.values.keep(self.number[self.number >= 0])

    def after_loading(self) -> None:
        free = np.flatnonzero(self.key < 0)
        known = np.sort(self.number[self.key >= 0])
        if (
            len(self.key) != self.index.size
            or not np.array_equal(free, np.sort(self.index.free))
            or not np.array_equal(known, self.values.numbers)
        ):
            raise ValueError("every stream has a number, and belongs to a key")
