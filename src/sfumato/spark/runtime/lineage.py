"""The operators that created frames, remembered as long as the frames exist.

Only the frame itself is remembered: a method called on it creates another frame without lineage.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, DoubleType, StructType

from sfumato.operators.state.config import COLUMN_ORDER
from sfumato.spark.crossing.figures import MetricsName
from sfumato.spark.model.frame import SparkFrame
from sfumato.tables.operator import TableConfig
from sfumato.tables.reading.chain import Condition, Path, Place
from sfumato.tables.reading.job import Input

STRUCT_NUMBERS = ("mean", "stddev", "existence")  # fields of results that are never NaN


def frame_of(one: Input) -> SparkFrame:
    """Return the frame of an input as a Spark frame."""
    assert isinstance(one.frame, SparkFrame)
    return one.frame


def described(one: Input) -> dict[str, Any]:
    """Return the identity of an input for checkpoints."""
    columns = {f.name: f.dataType.simpleString() for f in frame_of(one).schema.fields}
    known = {"columns": columns, COLUMN_ORDER: [*columns]}
    return {**known, "order": [*one.reading.order], "key": [*one.reading.key], **one.about}


def bucket_key(one: Input) -> list[str]:
    """Return the columns that decide which rows share an operator."""
    key = one.reading.key
    return [*key] if one.bucket is None else [key[i] for i in one.bucket]


@dataclass(frozen=True)
class FrameLineage:
    """The operator that created a frame, and its inputs.

    idle_timeout : microseconds, or None
    columns : positions of the frame's columns in the answers
    order : the input columns by which answers are ordered; None: no operator can run in the same
        step
    late : whether rows flagged late are exempt from the order
    where : conditions that select the frame's answers
    fused_with : the operators that run in the same step
    not_fused_because : the reasons why others do not
    first_use : the `first_use` of the first operator that was fused with this one
    """

    inputs: Sequence[Input]
    config: TableConfig
    metrics: MetricsName
    idle_timeout: int | None = None
    columns: Mapping[str, Place] = field(default_factory=dict)
    order: Sequence[str] | None = None
    late: bool = False
    where: tuple[Condition, ...] = ()
    fused_with: Sequence[str] = ()
    not_fused_because: Sequence[str] = ()
    first_use: list[Any] = field(default_factory=list, repr=False, compare=False)

    def is_first_use(self, by: FrameLineage) -> bool:
        """Return whether `by` is the first operator that reads the answers in the same step."""
        if not self.first_use:
            self.first_use.append(by.first_use)
        return self.first_use[0] is by.first_use

    def origin(self, name: str) -> str | None:
        """Return the input column that a column of the frame copies unchanged, else None."""
        place = self.columns.get(name)
        reading = self.inputs[0].reading
        if place is None or len(place.path) > 1 or place.cast:
            return None
        found = re.fullmatch(r"(c|key)(\d+)", place.path[0])
        if found is None:
            return None
        return (reading.passed if found[1] == "c" else reading.key)[int(found[2])]


_LINEAGES: WeakKeyDictionary[DataFrame, FrameLineage] = WeakKeyDictionary()


def record_lineage(frame: DataFrame, how: FrameLineage | None) -> None:
    if how is not None:
        _LINEAGES[frame] = how


def lineage_of(frame: DataFrame) -> FrameLineage | None:
    """Return how a frame was created; None for a frame not created by an operator."""
    return _LINEAGES.get(frame)


def steps_of(frame: DataFrame) -> str:
    """Describe which operators run in one step with a frame's operator, and why others do not."""
    how = lineage_of(frame)
    if how is None:
        return ""
    others = [name for name in how.fused_with if name != how.metrics]
    texts = [f"in one step with {' and '.join(others)}"] if others else []
    return "; ".join([*texts, *(f"apart from {reason}" for reason in how.not_fused_because)])


@dataclass(frozen=True)
class Selection:
    """Selected columns of a frame, or their fields, by name, each with an optional cast type.

    None: all columns. where : conditions on columns and fields of the frame
    """

    columns: Mapping[str, tuple[Path, str]] | None
    where: tuple[Condition, ...] = ()


def remember_selected(frame: DataFrame, of: DataFrame, what: Selection) -> None:
    """Record that a frame is a selection of another frame, if an operator created that frame."""
    how = lineage_of(of)
    record_lineage(frame, None if how is None or how.order is None else selected(how, of, what))


def selected(how: FrameLineage, frame: DataFrame, what: Selection) -> FrameLineage | None:
    """Return how a selection of a frame was created; None if only Spark can compute it."""
    where = []
    for condition in what.where:
        place = _within(how, frame, condition.path)
        # Any column of the frame may contain NaN; comparisons with NaN are left to Spark.
        result = place is not None and place.path[0].startswith("result")
        if place is None or place.cast or not result:
            return None
        plain = len(place.path) == 1 and _is_double(frame, condition.path[0])
        if not plain and place.path[-1] not in STRUCT_NUMBERS:
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


def _within(how: FrameLineage, frame: DataFrame, path: Path) -> Place | None:
    """Return the position of a column, or of its field, in the answers; None if it is ambiguous."""
    kind: DataType = frame.schema
    for part in path:
        if not isinstance(kind, StructType) or part not in kind.names:
            return None
        kind = kind[part].dataType
    place = how.columns.get(path[0])
    if place is None or (len(path) > 1 and (place.cast or place.kind is not None)):
        return None
    return replace(place, path=(*place.path, *path[1:]))
