"""Run an operator over tables on whole tables: read, process, flush, and under users' names."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from sfumato.memory.counters import warn_of_invalid, with_record
from sfumato.memory.frame import ArrowFrame
from sfumato.operators.windows.extent_aggregate import MOST_EMPTY
from sfumato.tables.reading.job import Job
from sfumato.tables.reading.results import (
    NUMBER,
    TEXT,
    TRUTH,
    WHOLE,
    ListOf,
    Output,
    ResultColumn,
    Struct,
    result_table,
)
from sfumato.tables.reading.user_warnings import calls_from_user

ARROW_TYPES = {
    NUMBER: pa.float64(),
    WHOLE: pa.int64(),
    TEXT: pa.string(),
    TRUTH: pa.bool_(),
    "int": pa.int32(),
}


def run_in_memory(job: Job) -> pa.Table:
    """Return the answers of an operator to whole tables, with its counters in their metadata.

    Raises what the config and the reading of the rows raise.
    """
    operator = job.config.make()
    sides = ["_input"] if len(job.inputs) == 1 else ["_left", "_right"]
    counts: dict[str, Any] = {}
    batch, given = [], []
    for number, (one, side) in enumerate(zip(job.inputs, sides, strict=True)):
        assert isinstance(one.frame, ArrowFrame)
        given.append(one.frame.table)
        read = one.reading.read(one.frame.table)
        if one.reading.rule.checks:
            invalid = sum(read.invalid.values())
            counts[side] = {"rows": read.given, "invalid": invalid, "reasons": {**read.invalid}}
        of = "" if side == "_input" else f" of the {side[1:]} table"
        warn_of_invalid(job.function + of, read.given, read.invalid)
        if read.rows.num_rows:
            batch.append((number, read.rows))
    answers = [*operator.process(batch, 0), *operator.flush()] if batch else []
    counts[""] = operator.counters()
    _warn_of_counted(job, counts[""])
    result = result_table(answers, [_result_column(output) for output in job.outputs])
    return with_record(result, given, job.metrics, job.name, counts)


def _result_column(output: Output) -> ResultColumn:
    metadata: Any = {**output.metadata} if output.metadata else None
    kind = _type_of(output.kind) if output.cast is None else output.cast
    return ResultColumn(output.source, pa.field(output.name, kind, metadata=metadata))


def _type_of(kind: Any) -> pa.DataType:
    """Return the type of an `Output`, its fields under users' names."""
    if isinstance(kind, Struct):
        fields = []
        for part in kind.parts:
            metadata: Any = {**part.metadata} if part.metadata else None
            fields.append(pa.field(part.name, _type_of(part.kind), metadata=metadata))
        return pa.struct(fields)
    if isinstance(kind, ListOf):
        return pa.list_(_type_of(kind.kind))
    return ARROW_TYPES[kind] if isinstance(kind, str) else kind


def _warn_of_counted(job: Job, counts: Mapping[str, int]) -> None:
    """Warn of what only the operator finds: rows out of range, extents that are not emitted."""
    out_of_range = {"its order or its time is missing or out of range": counts.get("invalid", 0)}
    warn_of_invalid(job.function, counts["rows"], {k: n for k, n in out_of_range.items() if n})
    above = {"the probabilities of its rule sum to more than 1": counts.get("rejected", 0)}
    warn_of_invalid(job.function, counts["rows"], {k: n for k, n in above.items() if n})
    if counts.get("skipped"):
        warnings.warn(
            f"{job.function}: {counts['skipped']} extents without a row are not in the answers: "
            f"a gap has more than {MOST_EMPTY:,} of them; look for a row with a wrong time",
            UserWarning,
            stacklevel=calls_from_user() + 1,
        )
