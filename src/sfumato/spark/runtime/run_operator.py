"""Run an operator over tables on frames: fixed names, ties, buckets, state, metrics, and back."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from sfumato.spark.model.names import Passed, fixed, under_fixed_names
from sfumato.spark.runtime import chunks
from sfumato.spark.runtime.buckets import observed, run_buckets
from sfumato.spark.runtime.whole_frames import run_whole
from sfumato.tables.operator import ROW, TIE, TableConfig

BUCKETS = 32  # enough to even out the work of 16 cores, few enough to share accesses to the state
MOST_BUCKETS = 100_000
BUCKETS_SETTING = "spark.sfumato.buckets"  # another number, for larger clusters
ENDS_SETTING = "spark.sfumato.ends"  # streams can end: whether they do in this run; see run_to_end
INVALID = "__invalid"
_NUMBERS: Counter[str] = Counter()  # of the operators of each kind so far


@dataclass(frozen=True)
class Input:
    """One frame as an operator reads it.

    passed : the columns that come out again, as a struct `row`; None: all, as c0, c1, ... by place
    order, key : names of columns, which become order0.. and key0..
    values : what else the operator reads, by its fixed name: columns of the frame
    bucket : numbers of the keys that decide which rows share an operator; None: all
    invalid : which rows take no part and are counted beside the operator, by the fixed names;
        known_invalid : the same by columns of the frame; None, both: every row takes part
    about : what of the query the config does not say, for the fingerprint: JSON values
    """

    frame: DataFrame
    passed: Passed | None
    order: Sequence[str] = ()
    key: Sequence[str] = ()
    values: Mapping[str, Column] = field(default_factory=dict)
    bucket: Sequence[int] | None = None
    invalid: Column | None = None
    known_invalid: Column | None = None
    about: Mapping[str, Any] = field(default_factory=dict)

    @property
    def described(self) -> dict[str, Any]:
        """What a checkpoint is recognised by."""
        columns = {f.name: f.dataType.simpleString() for f in self.frame.schema.fields}
        return {"columns": columns, "order": [*self.order], "key": [*self.key], **self.about}

    def projected(self, buckets: int, metrics: str) -> DataFrame:
        """The columns under fixed names; without the invalid rows, which `metrics` counts."""
        known = self.frame.columns
        values = dict(self.values)
        if self.known_invalid is not None:
            values[INVALID] = self.known_invalid
        given = under_fixed_names(self.frame.select("*", *values.values()))
        orders, keys = (
            [F.col(fixed(known.index(name))) for name in names] for names in (self.order, self.key)
        )
        columns = [F.col(fixed(i)) for i in range(len(known))]
        if self.passed is not None:
            columns = [self.passed.struct.alias(ROW)]
            columns += [column.alias(f"order{i}") for i, column in enumerate(orders)]
            columns += [column.alias(f"key{i}") for i, column in enumerate(keys)]
        rows = given.select(
            *columns,
            *(F.col(fixed(len(known) + i)).alias(name) for i, name in enumerate(values)),
            self._tie().alias(TIE),
            self._bucket(keys, buckets).alias(chunks.BUCKET),
        )
        conditions = [F.col(INVALID)] if self.known_invalid is not None else []
        conditions += [] if self.invalid is None else [self.invalid]
        if not conditions:
            return rows
        counted = rows.withColumn(INVALID, reduce(lambda a, b: a | b, conditions)).observe(
            metrics,
            F.count(F.lit(1)).alias("rows"),
            F.coalesce(F.sum(F.col(INVALID).cast("long")), F.lit(0)).alias("invalid"),
        )
        return counted.where(~F.col(INVALID)).drop(INVALID)

    def _bucket(self, keys: list[Column], buckets: int) -> Column:
        wanted = keys if self.bucket is None else [keys[i] for i in self.bucket]
        if not wanted:
            return F.lit(0)
        return F.pmod(F.xxhash64(*wanted), F.lit(buckets)).cast("int")

    def _tie(self) -> Column:
        """What distinguishes rows: a 64-bit hash of all columns that can be hashed."""
        hashable = [
            F.col(fixed(i))
            for i, of in enumerate(self.frame.schema.fields)
            if not re.search(r"\b(map<|variant)", of.dataType.simpleString())
        ]
        return F.xxhash64(*hashable) if hashable else F.lit(0).cast("long")


def run_operator(
    inputs: Sequence[Input],
    config: TableConfig,
    answers: StructType,
    columns: Sequence[Column],
    *,
    metrics: str,
    idle_timeout: int | None = None,
) -> DataFrame:
    """The answers of an operator to one or several frames.

    config : the operator's; `config.make()` has been tried on the driver
    answers : the columns the operator gives, under fixed names
    columns : the columns of the result, made of those
    metrics : name of the observed metrics; those of an input's invalid rows end in "_input", of
        two inputs in "_left" and "_right"
    idle_timeout : microseconds without rows after which `idle` is called; streams only

    Nothing is started or collected.
    """
    buckets = bucket_count(inputs[0].frame)
    sides = ["input"] if len(inputs) == 1 else ["left", "right"]
    frames = [
        one.projected(buckets, f"{metrics}_{name}") for one, name in zip(inputs, sides, strict=True)
    ]
    if not any(frame.isStreaming for frame in frames):
        out = observed(run_whole(frames, config, buckets), config, metrics)
        return chunks.unpack(out, answers).select(*columns)
    packed = [chunks.pack(frame, side) for side, frame in enumerate(frames)]
    milliseconds = None if idle_timeout is None else max(1, idle_timeout // 1000)
    ends = inputs[0].frame.sparkSession.conf.get(ENDS_SETTING, None)
    if ends is not None:
        from sfumato.spark.runtime.end_of_stream import end_marks  # needs PySpark 4.2

        packed.append(end_marks(inputs[0].frame.sparkSession, buckets, ends == "true"))
    together = reduce(lambda a, b: a.union(b), packed)
    out = run_buckets(together, config, _fingerprint(config, inputs, sides), milliseconds)
    return chunks.unpack(observed(out, config, metrics), answers).select(*columns)


def _fingerprint(config: TableConfig, inputs: Sequence[Input], sides: Sequence[str]) -> str:
    """What the config and the frames are, as text."""
    known = json.loads(config.fingerprint()) | {"buckets": bucket_count(inputs[0].frame)}
    known |= {side: one.described for side, one in zip(sides, inputs, strict=True)}
    return json.dumps(known, sort_keys=True)


def bucket_count(df: DataFrame) -> int:
    """Into how many buckets keys are hashed: the same whatever the cores and partitions are, so
    that a checkpoint may go on with others."""
    given = df.sparkSession.conf.get(BUCKETS_SETTING, str(BUCKETS)) or ""
    if not given.isdecimal() or not 1 <= int(given) <= MOST_BUCKETS:
        raise ValueError(
            f"`{BUCKETS_SETTING}` must be a whole number from 1 to {MOST_BUCKETS}; got {given!r}"
        )
    return int(given)


def metrics_name(operator: str, name: str | None = None) -> str:
    """The name of an operator's observed metrics: sfumato_OPERATOR_NAME, or a number for NAME.

    Raises TypeError or ValueError for a name that is not made of letters, digits and `_`.
    """
    if name is None:
        _NUMBERS[operator] += 1
        return f"sfumato_{operator}_{_NUMBERS[operator]}"
    if not isinstance(name, str):
        raise TypeError(f"`name` must be text; got {name!r}")
    if not re.fullmatch(r"\w+", name):
        raise ValueError(f"`name` must be made of letters, digits and `_`; got {name!r}")
    return f"sfumato_{operator}_{name}"


@contextmanager
def same_numbers_again(again: bool) -> Iterator[None]:
    """Operators made behind this have the numbers of those made in here, if `again`."""
    before = Counter(_NUMBERS)
    try:
        yield
    finally:
        if again:
            _NUMBERS.clear()
            _NUMBERS.update(before)
