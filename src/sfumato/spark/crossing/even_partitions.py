"""Buckets dealt out evenly to partitions, however many there are.

Spark puts a row into the partition that the hash of a number says, and may so give one of two
partitions 20 of 32 buckets. The hash of an int has an inverse: a bucket goes by the int whose hash
is the bucket's number, its place, so that bucket i is in partition i modulo the partitions.
"""

from __future__ import annotations

from functools import cache

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

BUCKET = "__bucket"
PARTITION = "__partition"
SEED, WORD = 42, 0xFFFFFFFF
# The odd factors of MurmurHash3, by which a word is multiplied modulo 2**32.
FIRST, SECOND, MIX, LAST, FINAL = 0xCC9E2D51, 0x1B873593, 5, 0x85EBCA6B, 0xC2B2AE35
ADDED, BYTES = 0xE6546B64, 4


def evenly(frame: DataFrame, partitions: int) -> DataFrame:
    """The rows in so many partitions, those of BUCKET i in the same one as those of i + partitions;
    with a column PARTITION, which Spark knows them to be partitioned by."""
    numbers = F.array(*(F.lit(place(i)) for i in range(partitions)))
    of = F.element_at(numbers, F.col(BUCKET) % F.lit(partitions) + F.lit(1))
    return frame.withColumn(PARTITION, of).repartition(partitions, PARTITION)


@cache
def place(number: int) -> int:
    """The int whose hash is a number, from 0 to 2**31 - 1."""
    word = _unshifted(_unshifted(number, 16) * _inverse(FINAL) & WORD, 13)
    word = _unshifted(word * _inverse(LAST) & WORD, 16)
    word = ((word ^ BYTES) - ADDED) * _inverse(MIX) & WORD
    word = (_turned(word, 32 - 13) ^ SEED) * _inverse(SECOND) & WORD
    return _signed(_turned(word, 32 - 15) * _inverse(FIRST) & WORD)


def murmur3(place: int) -> int:
    """The hash of an int by which Spark partitions (32 bits of MurmurHash3)."""
    mixed = _turned(place * FIRST & WORD, 15) * SECOND & WORD
    found = (_turned(SEED ^ mixed, 13) * MIX + ADDED & WORD) ^ BYTES
    found = (found ^ found >> 16) * LAST & WORD
    found = (found ^ found >> 13) * FINAL & WORD
    return _signed(found ^ found >> 16)


def _turned(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) & WORD


def _unshifted(word: int, bits: int) -> int:
    """x of x ^ x >> bits; bits > 10."""
    return word ^ word >> bits ^ word >> 2 * bits


@cache
def _inverse(factor: int) -> int:
    return pow(factor, -1, 1 << 32)


def _signed(word: int) -> int:
    return word if word < 1 << 31 else word - (1 << 32)
