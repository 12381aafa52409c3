"""What an operator reads of a frame: its columns under fixed names, ties, buckets, what is invalid.

What a later operator of a chain reads is computed of the same frame, before the first operator,
and rides through those between as a struct among the columns of `row`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sfumato.operators.state.config import COLUMN_ORDER
from sfumato.spark.crossing import chunks
from sfumato.spark.crossing.columns_once import Cells
from sfumato.spark.model.frame import SparkFrame
from sfumato.spark.model.names import Passed, column, fixed, without_constraints
from sfumato.spark.model.same import Constant, Whole
from sfumato.spark.model.validity import ABSENT
from sfumato.tables.link import INVALID, LATE
from sfumato.tables.operator import ROW, TIE

REASON = "__reason"  # why a row is invalid


@dataclass(frozen=True)
class Input:
    """One frame as an operator reads it.

    passed : the columns that come out again, as a struct `row`
    order, key : names of columns, which become order0.. and key0..
    values : what else the operator reads, by its fixed name: columns computed of the frame
    taken : and the columns that it reads as they are, by their names: those of a disorder
        controller, `late` and `punctuation`, or of extents. spares_late : late rows need not be
        valid
    bucket : numbers of the keys that decide which rows share an operator; None: all
    light : the operator does so little that it may as well run in coarser buckets
    invalid : which rows take no part and are counted beside the operator, by the fixed names;
        reason : the same by columns of the frame: why a row is not used, else NULL; ABSENT for a
        row of existence 0, which is valid and has no effect; None, both: every row is used
    lacking : why not by the fixed names, in words
    ordered : whether the operator takes rows in an order of arrival
    about : what of the query the config does not say, for the fingerprint: JSON values
    same : what some of `values` are, see `Once`: equal for all inputs that compute the same of a
        frame
    """

    frame: DataFrame
    passed: Passed
    order: Sequence[str] = ()
    key: Sequence[str] = ()
    values: Mapping[str, Column] = field(default_factory=dict)
    taken: Sequence[str] = ()
    spares_late: bool = False
    bucket: Sequence[int] | None = None
    light: bool = False
    invalid: Column | None = None
    reason: Column | None = None
    lacking: str = "its order or its key is missing"
    ordered: bool = True
    about: Mapping[str, Any] = field(default_factory=dict)
    same: Mapping[str, Any] = field(default_factory=dict)

    @property
    def described(self) -> dict[str, Any]:
        """What a checkpoint is recognised by."""
        columns = {f.name: f.dataType.simpleString() for f in self.frame.schema.fields}
        known = {"columns": columns, COLUMN_ORDER: [*columns]}
        return {**known, "order": [*self.order], "key": [*self.key], **self.about}

    @property
    def bucket_key(self) -> list[str]:
        """The columns whose values decide which rows share an operator."""
        return [*self.key] if self.bucket is None else [self.key[i] for i in self.bucket]

    @property
    def columns(self) -> dict[str, str]:
        """The columns of the order and of the key, by fixed name."""
        orders = {f"order{i}": name for i, name in enumerate(self.order)}
        return orders | {f"key{i}": name for i, name in enumerate(self.key)}

    @property
    def computed(self) -> dict[str, Column]:
        """Everything to be computed of the frame's columns, by fixed name."""
        known = {} if self.reason is None else {REASON: self.reason}
        return {**self.values, **known}

    @property
    def validated(self) -> bool:
        """Whether some rows may take no part."""
        return self.invalid is not None or self.reason is not None

    def is_invalid(self, *, late_known: bool) -> Column:
        """Which rows take no part, by the fixed names; without regard to `late` if not known.

        NULL for absent rows, which are not counted as invalid.
        """
        conditions = [] if self.reason is None else [F.col(REASON).isNotNull()]
        conditions += [] if self.invalid is None else [self.invalid]
        found = reduce(lambda a, b: a | b, conditions)
        if self.spares_late and late_known:
            found &= ~F.col(LATE)
        return (
            found
            if self.reason is None
            else F.when(F.col(REASON) != ABSENT, found).when(F.col(REASON).isNull(), found)
        )

    def tie(self, names: Sequence[str]) -> Column:
        """What distinguishes rows: a 64-bit hash of all columns that can be hashed, but for those
        that operators added.

        names : those of the columns c0, c1, ...
        """
        frame = SparkFrame(self.frame)
        hashable = [
            F.col(fixed(names.index(name)))
            for name in frame.tied
            if not re.search(r"\b(map<|variant)", frame.shown(name))
        ]
        return F.xxhash64(*hashable) if hashable else F.lit(0).cast("long")


@dataclass
class Reader:
    """An input of an operator, and what rides in its rows for later operators of a chain.

    bucket_key : the columns that decide which rows of a frame meet in one operator
    metrics : where rows of a frame are counted, and the invalid ones, which do not come
    name : of the struct in which what it reads rides itself
    known : the columns of its frame that the frame below all steps has too; None: all
    last : whether its rows come out of the chain: with the columns passed, else with riders only
    riders : what later operators read
    """

    input: Input
    bucket_key: Sequence[str]
    metrics: str = ""
    name: str = ""
    known: Sequence[str] | None = None
    last: bool = True
    riders: list[Reader] = field(default_factory=list)

    def knows(self, name: str) -> bool:
        """Whether a column is computed before all steps."""
        return self.known is None or name in self.known

    def all(self) -> Iterator[Reader]:
        """What rides first, this one last."""
        for rider in self.riders:
            yield from rider.all()
        yield self

    @property
    def computed(self) -> dict[str, Column]:
        """What is computed of the frame's columns, by fixed name."""
        taken = [name for name in self.input.taken if self.knows(name)]
        return {**self.input.computed, **{name: _as_it_is(name) for name in taken}}

    @property
    def values(self) -> dict[str, Column]:
        """The same by names that are this reader's own."""
        return {f"{self.name}_{name}": found for name, found in self.computed.items()}

    @property
    def tie(self) -> str:
        """The name under which `ties` of this reader's own are computed."""
        return f"{self.name}_{TIE}"

    def ties(self, names: Sequence[str]) -> dict[str, Column]:
        """What distinguishes rows where the operator takes them in an order, by `tie`."""
        return {self.tie: self.input.tie(names)} if self.input.ordered else {}

    def read(self, rows: DataFrame, names: Sequence[str]) -> tuple[DataFrame, list[str]]:
        """`rows` and behind them the columns that the operator reads, but `row`; their names.

        names : those of the columns c0, c1, ... of `rows`, which has `values` and `ties` too
        """
        one = self.input
        columns = {
            of: F.col(fixed(names.index(name)))
            for of, name in one.columns.items()
            if self.knows(name)
        }
        columns |= {name: F.col(f"{self.name}_{name}") for name in self.computed}
        if one.ordered:
            columns[TIE] = F.col(self.tie)
        found = rows.select("*", *(cells.alias(name) for name, cells in columns.items()))
        if not one.validated:
            return found, list(columns)
        invalid = one.is_invalid(late_known=self.knows(LATE))
        read = [name for name in columns if name != REASON]
        return found.withColumn(INVALID, invalid), [*read, INVALID]

    def same(self) -> dict[str, Any]:
        """What the columns are that it reads: equal where they have equal values, see `Once`."""
        one, tied = self.input, SparkFrame(self.input.frame)
        found: dict[str, Any] = {name: (self.name, name) for name in (*self.computed, INVALID)}
        found |= one.same
        found |= {of: Whole(name) for of, name in one.columns.items() if self.knows(name)}
        found[TIE] = ("tie", *((name, tied.shown(name)) for name in tied.tied))
        row: dict[str, Any] = {rider.name: rider.same() for rider in self.riders}
        if self.last:
            passed = enumerate(of.name for of in one.passed.fields)
            row = {fixed(i): Whole(n) if self.knows(n) else Constant(None) for i, n in passed}
        return found | {ROW: row or {fixed(0): Constant(0)}}

    def row(self, names: Sequence[str], riders: Mapping[str, Cells]) -> Cells:
        """The cells of `row`. names : as for `read`    riders : what rides in it, by name"""
        none: Cells = {fixed(0): F.lit(0)}
        if not self.last:
            return {rider.name: riders[rider.name] for rider in self.riders} or none
        cells: dict[str, Cells | Column] = {}
        for i, of in enumerate(self.input.passed.fields):
            # What only an operator before this one knows is put in between the two.
            known = F.col(fixed(names.index(of.name))) if self.knows(of.name) else F.lit(None)
            cells[fixed(i)] = known.cast(of.dataType)
        return cells or none


def _as_it_is(name: str) -> Column:
    return F.coalesce(column(name), F.lit(False)) if name == LATE else column(name)


def projected(reader: Reader, buckets: int) -> tuple[DataFrame, Cells]:
    """A frame, with a bucket, and of its columns what the operators of a chain read, by fixed name.

    reader : how the first operator reads it    buckets : how many there are
    """
    frame, names = reader.input.frame, reader.input.frame.columns
    values = {name: of for one in reader.all() for name, of in one.values.items()}
    given = [*(fixed(i) for i in range(len(names))), *values]
    rows = frame.select("*", *values.values()).toDF(*given)
    ties = {name: of for one in reader.all() for name, of in one.ties(names).items()}
    given += ties
    # Below this everything that is computed of many columns, above it names are given to them.
    rows = without_constraints(rows.select("*", *(of.alias(name) for name, of in ties.items())))
    riders: dict[str, Cells] = {}
    for rider in reader.all():
        rows, own = rider.read(rows, names)
        places = {name: name for name in own}
        if rider is not reader:
            places = {name: f"{rider.name}__{name}" for name in own}
            apart = [F.col(name).alias(place) for name, place in places.items()]
            rows = rows.select(*given, *apart)
            given += places.values()
        cells = {name: F.col(place) for name, place in places.items()}
        riders[rider.name] = {ROW: rider.row(names, riders), **cells}
    found = dict(riders[reader.name])
    keys = [F.col(fixed(names.index(name))) for name in reader.bucket_key]
    rows = rows.withColumn(chunks.BUCKET, _bucket(keys, buckets))
    if not reader.input.validated:
        return rows, found
    del found[INVALID]
    reasons = [] if reader.input.reason is None else [F.col(REASON)]
    why = F.coalesce(*reasons, F.lit(reader.input.lacking))
    counted = rows.observe(reader.metrics, *counted_invalid(F.col(INVALID), why))
    return counted.where(~F.col(INVALID)), found


def counted_invalid(invalid: Column, reason: Column) -> list[Column]:
    """What is observed of an input's rows: how many, how many invalid ones, their commonest reason.

    reason : text; what it says behind the last "to", a number, does not count
    """
    kind = F.regexp_replace(reason, r" to \S+$", " to more than 1")
    return [
        F.count(F.lit(1)).alias("rows"),
        F.coalesce(F.sum(invalid.cast("long")), F.lit(0)).alias("invalid"),
        F.mode(F.when(invalid, kind)).alias("reason"),
    ]


def _bucket(keys: Sequence[Column], buckets: int) -> Column:
    return F.pmod(F.xxhash64(*keys), F.lit(buckets)).cast("int") if keys else F.lit(0)
