"""Run an operator over tables on whole tables: read, process, flush, and under users' names."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sfumato.local.model.counters import check_name, warn_of_invalid, with_record
from sfumato.local.model.frame import ArrowFrame
from sfumato.operators.windows.extent_aggregate import MOST_EMPTY
from sfumato.tables.operator import TableConfig
from sfumato.tables.reading.input import Reading
from sfumato.tables.reading.naming import Shown, shown


@dataclass(frozen=True)
class Input:
    """A frame, and how the operator reads it."""

    frame: ArrowFrame
    reading: Reading


@dataclass(frozen=True)
class Job:
    """An operator and its name in messages and counters.

    function : of `sfumato.local`     operator : in `sfumato_OPERATOR_NAME`
    name : the user's, or None
    """

    function: str
    operator: str
    name: str | None


def run(
    job: Job, inputs: Sequence[Input], config: TableConfig, columns: Sequence[Shown]
) -> pa.Table:
    """The answers of an operator to whole tables, with its counters in their metadata.

    config : the operator's    columns : of the result
    Raises what the config and the reading of the rows raise.
    """
    check_name(job.name)
    operator = config.make()
    sides = ["_input"] if len(inputs) == 1 else ["_left", "_right"]
    counts: dict[str, Any] = {}
    batch = []
    for number, (one, side) in enumerate(zip(inputs, sides, strict=True)):
        read = one.reading.read(one.frame.table)
        if one.reading.rule.checks:
            invalid = sum(read.invalid.values())
            counts[side] = {"rows": read.given, "invalid": invalid, "reasons": {**read.invalid}}
        of = "" if side == "_input" else f" of the {side[1:]} table"
        warn_of_invalid(job.function + of, read.given, read.invalid, 2)
        if read.rows.num_rows:
            batch.append((number, read.rows))
    answers = [*operator.process(batch, 0), *operator.flush()] if batch else []
    counts[""] = operator.counters()
    _warn_of_counted(job, counts[""])
    result = shown(answers, columns)
    given = [one.frame.table for one in inputs]
    return with_record(result, given, job.operator, job.name, counts)


def _warn_of_counted(job: Job, counts: Mapping[str, int]) -> None:
    """Warn of what only the operator finds: rows out of range, extents that are not emitted."""
    out_of_range = {"its order or its time is missing or out of range": counts.get("invalid", 0)}
    warn_of_invalid(job.function, counts["rows"], {k: n for k, n in out_of_range.items() if n}, 3)
    above = {"the probabilities of its rule sum to more than 1": counts.get("rejected", 0)}
    warn_of_invalid(job.function, counts["rows"], {k: n for k, n in above.items() if n}, 3)
    if counts.get("skipped"):
        warnings.warn(
            f"{job.function}: {counts['skipped']} extents without a row are not in the answers: "
            f"a gap has more than {MOST_EMPTY:,} of them; look for a row with a wrong time",
            UserWarning,
            stacklevel=6,
        )


def passed(
    names: Sequence[str], frame: ArrowFrame, shown_as: Sequence[str], of: str
) -> list[Shown]:
    """The columns that pass through an operator in the struct `of`, under their names."""
    return [
        Shown((of, f"c{i}"), field.with_name(name))
        for i, (field, name) in enumerate(zip(frame.fields(names), shown_as, strict=True))
    ]


def struct_of(names: Sequence[str], frame: ArrowFrame) -> pa.DataType:
    """The type of the struct `row` with the columns' own names."""
    fields = [field.with_nullable(True) for field in frame.fields(names)]
    return pa.struct(fields or [pa.field("col1", pa.int32())])
