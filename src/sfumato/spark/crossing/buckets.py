"""Rows on their way to Python: the raw columns that operators read, and the bucket.

Spark computes nothing else: the columns are interpreted in Python, once.

Spark puts a row into the partition that the hash of a number gives, and may so give one of two
partitions 20 of 32 buckets. The hash of an int has an inverse: a stream's bucket i is sent under
the int whose hash is i, its place, so that it is in partition i modulo the partitions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DataType

from sfumato.spark.model.columns import without_constraints

BUCKET = "__bucket"
WORD_MASK = 0xFFFFFFFF
# MurmurHash3 of one int, as Spark computes it: the seed, the odd factors by which a word is
# multiplied modulo 2**32, and what is added.
SEED, FIRST, SECOND, MIX, LAST, FINAL = 42, 0xCC9E2D51, 0x1B873593, 5, 0x85EBCA6B, 0xC2B2AE35
ADDED, BYTES = 0xE6546B64, 4


@dataclass(frozen=True)
class RawRows:
    """The rows of one frame under names that no user chose.

    frame : BUCKET, an int column, and the others
    columns : their names here, by their names in the user's frame
    kinds : their types, by their names here
    """

    frame: DataFrame
    columns: Mapping[str, str]
    kinds: Mapping[str, DataType]


@dataclass(frozen=True)
class RawSelection:
    """The columns to select of a user's frame by name, each with its type; see `raw_rows`.

    key : the columns whose values decide the bucket
    """

    frame: DataFrame
    columns: Mapping[str, tuple[Column, DataType]]
    key: Sequence[Column]


def raw_rows(selections: Sequence[RawSelection], buckets: int) -> list[RawRows]:
    """Return the rows of frames with columns of short names.

    Columns of one type have the same names in all frames, so that rows of several frames can be
    sorted together in few columns. Names are given, and ties computed, where Spark derives nothing
    from it.
    """
    numbers: dict[str, int] = {}  # of the types
    found = []
    for of in selections:
        names, count = dict[str, str](), Counter[int]()
        for name, (_, kind) in of.columns.items():
            number = numbers.setdefault(kind.json(), len(numbers))
            names[name] = f"c{number}_{count[number]}"
            count[number] += 1
        cells = [column.alias(names[name]) for name, (column, _) in of.columns.items()]
        rows = of.frame.select(*cells, _bucket(of.key, buckets).alias(BUCKET))
        frame = without_constraints(rows)
        kinds = {names[name]: kind for name, (_, kind) in of.columns.items()}
        found.append(RawRows(frame, names, kinds))
    return found


def _bucket(keys: Sequence[Column], buckets: int) -> Column:
    return F.pmod(F.xxhash64(*keys), F.lit(buckets)).cast("int") if keys else F.lit(0)


def spark_hash(value: int) -> int:
    """Return the hash of an int by which Spark partitions."""
    mixed = _rotated(value * FIRST & WORD_MASK, 15) * SECOND & WORD_MASK
    found = (_rotated(SEED ^ mixed, 13) * MIX + ADDED & WORD_MASK) ^ BYTES
    found = (found ^ found >> 16) * LAST & WORD_MASK
    found = (found ^ found >> 13) * FINAL & WORD_MASK
    return _signed(found ^ found >> 16)


@cache
def place(bucket: int) -> int:
    """Return the int whose `spark_hash` is a number from 0 to 2**31 - 1."""
    word = _unshifted(_unshifted(bucket, 16) * pow(FINAL, -1, 1 << 32) & WORD_MASK, 13)
    word = _unshifted(word * pow(LAST, -1, 1 << 32) & WORD_MASK, 16)
    word = ((word ^ BYTES) - ADDED) * pow(MIX, -1, 1 << 32) & WORD_MASK
    word = (_rotated(word, 32 - 13) ^ SEED) * pow(SECOND, -1, 1 << 32) & WORD_MASK
    return _signed(_rotated(word, 32 - 15) * pow(FIRST, -1, 1 << 32) & WORD_MASK)


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) & WORD_MASK


def _unshifted(word: int, bits: int) -> int:
    """Return x of x ^ x >> bits; bits > 10."""
    return word ^ word >> bits ^ word >> 2 * bits


def _signed(word: int) -> int:
    return word if word < 1 << 31 else word - (1 << 32)
