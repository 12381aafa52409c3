"""How frames were made that operators gave, for as long as the frames exist.

A frame is known by itself: what was done to it since, other than by an operator, made another
frame, which is read as any frame is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import DataType, DoubleType, StructType

from sfumato.operators.state.config import COLUMN_ORDER
from sfumato.spark.crossing.figures import MetricsName
from sfumato.tables.operator import TableConfig
from sfumato.tables.reading.chain import Condition, Path, Place
from sfumato.tables.reading.input import Reading

NUMBERS = ("mean", "stddev", "existence")  # fields of results, which are never NaN


@dataclass(frozen=True)
class Input:
    """One frame as an operator reads it.

    reading : how the operator's rows are made of the frame's
    about : what of the query the config does not say, for the fingerprint: JSON values
    computed : columns that only Spark can compute of the frame, with their types, by names of the
        reading that the frame does not have
    bucket : numbers of the keys that decide which rows share an operator; None: all
    light : the operator does so little that it may as well run in coarser buckets
    """

    frame: DataFrame
    reading: Reading
    about: Mapping[str, Any] = field(default_factory=dict)
    computed: Mapping[str, tuple[Column, DataType]] = field(default_factory=dict)
    bucket: Sequence[int] | None = None
    light: bool = False

    @property
    def described(self) -> dict[str, Any]:
        """What a checkpoint is recognised by."""
        columns = {f.name: f.dataType.simpleString() for f in self.frame.schema.fields}
        known = {"columns": columns, COLUMN_ORDER: [*columns]}
        order, key = [*self.reading.order], [*self.reading.key]
        return {**known, "order": order, "key": key, **self.about}

    @property
    def bucket_key(self) -> list[str]:
        """The columns whose values decide which rows share an operator."""
        key = self.reading.key
        return [*key] if self.bucket is None else [key[i] for i in self.bucket]


@dataclass(frozen=True)
class Made:
    """By which operator, of what, a frame was made.

    idle_timeout : microseconds, or None
    columns : where the frame's columns lie in the answers
    order : the columns of the input in whose order answers come; None: no operator takes them in
        one step with this one
    late : but for those among them that are marked late
    where : which answers are in the frame; all for which these hold
    together : the operators that run in one step with it; apart : why others do not
    first_use : the `first_use` of the operator that first took the answers in one step with it
    """

    inputs: Sequence[Input]
    config: TableConfig
    metrics: MetricsName
    idle_timeout: int | None = None
    columns: Mapping[str, Place] = field(default_factory=dict)
    order: Sequence[str] | None = None
    late: bool = False
    where: tuple[Condition, ...] = ()
    together: Sequence[str] = ()
    apart: Sequence[str] = ()
    first_use: list[Any] = field(default_factory=list, repr=False, compare=False)

    def is_first_use(self, by: Made) -> bool:
        """Return whether `by` is the first operator that takes the answers in one step with it."""
        if not self.first_use:
            self.first_use.append(by.first_use)
        return self.first_use[0] is by.first_use

    def origin(self, name: str) -> str | None:
        """Return the column of the input that a column of the frame is, unchanged; else None."""
        place = self.columns.get(name)
        reading = self.inputs[0].reading
        if place is None or len(place.path) > 1 or place.cast:
            return None
        found = re.fullmatch(r"(c|key)(\d+)", place.path[0])
        if found is None:
            return None
        return (reading.passed if found[1] == "c" else reading.key)[int(found[2])]


_MADE: WeakKeyDictionary[DataFrame, Made] = WeakKeyDictionary()


def remember(frame: DataFrame, how: Made | None) -> None:
    """Know from now on how a frame was made."""
    if how is not None:
        _MADE[frame] = how


def made(frame: DataFrame) -> Made | None:
    """Return how a frame was made; None for one that no operator gave."""
    return _MADE.get(frame)


def steps_of(frame: DataFrame) -> str:
    """Describe which operators run in one step with that of a frame, and why others do not."""
    how = made(frame)
    if how is None:
        return ""
    others = [name for name in how.together if name != how.metrics]
    said = [f"in one step with {' and '.join(others)}"] if others else []
    return "; ".join([*said, *(f"apart from {reason}" for reason in how.apart)])


@dataclass(frozen=True)
class Selection:
    """Some columns of a frame, or fields of them, by name, each with a type it is cast to, if any;
    None: all. where : by columns and fields of the frame."""

    columns: Mapping[str, tuple[Path, str]] | None
    where: tuple[Condition, ...] = ()


def remember_selected(frame: DataFrame, of: DataFrame, what: Selection) -> None:
    """Know that a frame is a selection of another one, if an operator gave that."""
    how = made(of)
    remember(frame, None if how is None or how.order is None else selected(how, of, what))


def selected(how: Made, frame: DataFrame, what: Selection) -> Made | None:
    """Return how a selection of a frame was made; None where only Spark can make it."""
    where = []
    for condition in what.where:
        place = _within(how, frame, condition.path)
        # Of what may be NaN, as any column of the frame may, Spark knows better.
        result = place is not None and place.path[0].startswith("result")
        if place is None or place.cast or not result:
            return None
        plain = len(place.path) == 1 and _is_double(frame, condition.path[0])
        if not plain and place.path[-1] not in NUMBERS:
            return None
        where.append(replace(condition, path=place.path))
    columns = how.columns
    if what.columns is not None:
        columns = {}
        for name, (path, cast) in what.columns.items():
            place = _within(how, frame, path)
            if place is None or (cast and (place.cast or not _is_result(place))):
                return None
            columns[name] = replace(place, cast=cast or place.cast)
    return replace(how, columns=columns, where=(*how.where, *where))


def _is_double(frame: DataFrame, name: str) -> bool:
    return isinstance(frame.schema[name].dataType, DoubleType)


def _is_result(place: Place) -> bool:
    return not re.fullmatch(r"(c|key)\d+", place.path[0])


def _within(how: Made, frame: DataFrame, path: Path) -> Place | None:
    """Return where a column, or a field of one, lies in the answers; None if that is not sure."""
    kind: DataType = frame.schema
    for part in path:
        if not isinstance(kind, StructType) or part not in kind.names:
            return None
        kind = kind[part].dataType
    place = how.columns.get(path[0])
    if place is None or (len(path) > 1 and (place.cast or place.kind is not None)):
        return None
    return replace(place, path=(*place.path, *path[1:]))
