"""Run an operator on whole tables: read, process, flush, and rename the results."""

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
    """Return the answers of an operator to whole tables, with its counters in their metadata."""
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
    kind = output.kind if output.cast is None else output.cast
    return output.source, _field(output.name, kind, output.metadata)


def _field(name: str, kind: Any, metadata: Mapping[str, Any] | None) -> pa.Field:
    """Return the field of an `Output`, with user names for its nested fields."""
    if isinstance(kind, ListOf):
        kind = pa.list_(_field("item", kind.kind, None).type)
    elif isinstance(kind, Struct):
        kind = pa.struct([_field(part.name, part.kind, part.metadata) for part in kind.parts])
    given: Any = {**metadata} if metadata else None
    return pa.field(name, ARROW_TYPES[kind] if isinstance(kind, str) else kind, metadata=given)


def _warn_of_counted(job: Job, counts: Mapping[str, int]) -> None:
    """Warn about rows out of range and extents not emitted, which only the operator can count."""
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
