"""Buckets dealt out evenly to partitions.

Spark chooses a row's partition by a hash, which may give one of two partitions 20 of 32 buckets.
So each partition has a number whose hash leads there, and a bucket goes by one of these.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sfumato.spark.runtime.chunks import BUCKET

PARTITION = "__partition"
SEED, WORD = 42, 0xFFFFFFFF


def evenly(frame: DataFrame, partitions: int) -> DataFrame:
    """The rows in so many partitions, those of BUCKET i in the same one as those of i + partitions;
    with a column PARTITION, which Spark knows them to be partitioned by."""
    numbers = F.array(*map(F.lit, numbers_of(partitions)))
    of = F.element_at(numbers, F.col(BUCKET) % F.lit(partitions) + F.lit(1))
    return frame.withColumn(PARTITION, of).repartition(partitions, PARTITION)


def numbers_of(partitions: int) -> list[int]:
    """A number for each partition that Spark puts there."""
    found: dict[int, int] = {}
    number = 0
    while len(found) < partitions:
        found.setdefault(murmur3(number) % partitions, number)
        number += 1
    return [found[partition] for partition in range(partitions)]


def murmur3(number: int) -> int:
    """The hash of an int >= 0 by which Spark partitions (32 bits of MurmurHash3)."""
    mixed = _turned(number * 0xCC9E2D51 & WORD, 15) * 0x1B873593 & WORD
    found = (_turned(SEED ^ mixed, 13) * 5 + 0xE6546B64 & WORD) ^ 4
    found = (found ^ found >> 16) * 0x85EBCA6B & WORD
    found = (found ^ found >> 13) * 0xC2B2AE35 & WORD
    found ^= found >> 16
    return found if found < 1 << 31 else found - (1 << 32)


def _turned(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) & WORD
