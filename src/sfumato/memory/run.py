"""Run operators on whole tables, with their counters in the metadata of the result."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.limits import MAX_EMPTY_EXTENTS
from sfumato.memory.frame import ArrowFrame, library_of, schema_of
from sfumato.reports import EMITTED_INVALID, describe_drift
from sfumato.tables.operator import ROW
from sfumato.tables.reading.job import Job
from sfumato.tables.reading.results import ListOf, Output, Struct, result_table
from sfumato.tables.reading.rows import Reading, Ties
from sfumato.tables.reading.user_warnings import DriftWarning, InvalidRowsWarning, warn_user
from sfumato.tables.reading.validity import ABOVE_ONE, ABOVE_ONE_HINT, generalize_reason

# Functions that add columns to rows, so that the result has the rows in their given order
ADD_COLUMNS = ("impute", "earlier_values")
PLACE = "__place"  # column of the places of rows; underscores are appended if the name is taken


def run_in_memory(job: Job) -> pa.Table:
    """Run a job's operator on whole tables; return its answers, with its counters as metadata."""
    fixed = [_field(of.source[0], of.kind, None, True) for of in job.outputs if len(of.source) == 1]
    operator = job.config.typed(lambda: pa.schema(fixed)).make()
    sides = ["_input"] if len(job.inputs) == 1 else ["_left", "_right"]
    counts: dict[str, Any] = {}
    outputs, adds_columns = [*job.outputs], job.function in ADD_COLUMNS
    batch, given, answers = [], [], list[pa.Table]()
    for number, (one, side) in enumerate(zip(job.inputs, sides, strict=True)):
        assert isinstance(one.frame, ArrowFrame)
        given.append(one.frame.table)
        table, reading = one.frame.table, one.reading
        if adds_columns:
            place = (ROW, f"c{len(reading.passthrough)}")
            table, reading = with_places(one.frame, reading)
            outputs.append(Output(reading.passthrough[-1], place, pa.int64()))
        read = reading.read(table, whole=len(job.inputs) == 1)
        of = "" if side == "_input" else f" of the {side[1:]} table"
        counted = count_invalid(job.function + of, read.row_count, read.invalid)
        if one.reading.rule.checks:
            counts[side] = counted
        if read.rows.num_rows:
            batch.append((number, read.rows))
        if read.dropped is not None:
            answers += operator.process_dropped(read.dropped)
    answers += [*operator.process(batch, 0), *operator.flush()] if batch else []
    counts[""] = operator.counters()
    _warn_of_counted(job, counts[""])
    result = table_of(answers, outputs)
    if adds_columns:
        result = result.sort_by(outputs[-1].name).drop_columns(outputs[-1].name)
    return with_record(result, given, job.metrics, job.name, counts)


def with_places(frame: ArrowFrame, reading: Reading) -> tuple[pa.Table, Reading]:
    """Add the places of the rows to a table and to the columns that pass through its operator."""
    if reading.tie == Ties():  # break ties by the given columns
        reading = replace(reading, tie=Ties(tuple(frame.columns)))
    name, places = frame.free_name(PLACE), pa.array(np.arange(frame.table.num_rows))
    table = frame.table.append_column(name, places)
    return table, replace(reading, passthrough=(*reading.passthrough, name))


def table_of(answers: Sequence[pa.Table], outputs: Sequence[Output]) -> pa.Table:
    """Convert an operator's answers, which have fixed names, to a table of the outputs."""
    columns = []
    for of in outputs:
        kind = of.kind if of.cast is None else of.cast
        columns.append((of.source, _field(of.name, kind, of.metadata)))
    return result_table(answers, columns)


def _field(
    name: str, kind: Any, metadata: Mapping[str, Any] | None, fixed: bool = False
) -> pa.Field:
    """Return the Arrow field of an `Output`; nested fields have user names, or fixed names."""
    if isinstance(kind, ListOf):
        kind = pa.list_(_field("item", kind.kind, None, fixed).type)
    elif isinstance(kind, Struct):
        parts = ((of.fixed if fixed and of.fixed else of.name, of) for of in kind.parts)
        kind = pa.struct([_field(called, of.kind, of.metadata, fixed) for called, of in parts])
    given: Any = {**metadata} if metadata else None
    return pa.field(name, kind, metadata=given)


def _warn_of_counted(job: Job, counts: Mapping[str, int]) -> None:
    """Warn about what only the operator can count: rows out of range, drift, skipped extents."""
    for counter, reason in (
        ("invalid", "order or time is missing or out of range"),
        ("rejected", "the probabilities of its rule sum to more than 1"),
    ):
        if number := counts.get(counter):
            warn_of_invalid(job.function, counts["rows"], {reason: number}, counter == "invalid")
    drifted = describe_drift(counts)
    if drifted is not None:
        warn_user(f"{job.function}: {drifted}", DriftWarning)
    bounded = not isinstance(getattr(getattr(job.config, "window", None), "empty", True), bool)
    if counts.get("skipped") and not bounded:
        warn_user(
            f"{job.function}: {counts['skipped']} extents without rows are not in the answers, "
            f"because a gap has more than {MAX_EMPTY_EXTENTS:,} extents; look for a row with a "
            "wrong time",
            UserWarning,
        )


# Key in a schema's metadata: JSON list of counters, one per operator
COUNTERS_METADATA = b"sfumato.counters"


def counters(table: Any) -> dict[str, dict[str, Any]]:
    """Return the counters of the operators that computed a result, by metrics name.

    Parameters
    ----------
    table
        A pandas, Polars or Arrow table that a function returned. Filters and selections of an Arrow
        or pandas table keep the counters; Polars operations drop them.

    Returns
    -------
    One entry `sfumato_OPERATOR_NAME` per operator (NAME is the argument `name`, or a number), with
    the counters documented for its function, under the same names as the metrics on Spark. An
    operator that leaves out invalid rows also has an entry `..._input` (a join: `..._left` and
    `..._right`) with `rows`, `invalid`, and `reasons`, the number of rows per reason.

    Raises
    ------
    TypeError
        For anything that is not a table in memory.

    Notes
    -----
    Cost: none; the counters are stored in the table's metadata.

    Examples
    --------
    >>> import pyarrow as pa
    >>> rows = pa.table({"made": [2, 1, 3], "arrival": [1, 2, 3]})
    >>> ordered = sf.reorder(rows, event_time="made", arrival="arrival", slack=0, name="intake")
    >>> sf.ops.counters(ordered)["sfumato_reorder_intake"]["late"]
    1
    """
    if not library_of(table) and not isinstance(table, pa.Table):
        raise TypeError(
            "`table` must be a pandas, Polars or Arrow table that a function returned; got "
            f"{type(table).__name__}. For Spark DataFrames, read the query's metrics"
        )
    found: dict[str, dict[str, Any]] = {}
    numbers: dict[str, int] = {}
    for record in records_of(table):
        kind, name = record["operator"], record["name"]
        if name is None:
            name = numbers[kind] = numbers.get(kind, 0) + 1
        for side, counts in record["counts"].items():
            found[f"sfumato_{kind}_{name}{side}"] = counts
    return found


def records_of(table: Any) -> list[dict[str, Any]]:
    """Return the records (`operator`, `name`, `counts`) in a table's metadata, oldest first."""
    schema = schema_of(table)
    metadata = {} if schema is None else schema.metadata or {}
    return list(json.loads(metadata.get(COUNTERS_METADATA, "[]")))


def with_record(
    result: pa.Table,
    inputs: Sequence[pa.Table],
    operator: str,
    name: str | None,
    counts: Mapping[str, Mapping[str, Any]],
) -> pa.Table:
    """Return the result with the counters of its inputs, followed by its operator's counters.

    counts : counters of the operator ("") and of its inputs ("_input", or "_left" and "_right")
    """
    return with_records(result, inputs, {"operator": operator, "name": name, "counts": counts})


def with_records(result: pa.Table, inputs: Sequence[pa.Table], *own: dict[str, Any]) -> pa.Table:
    records: list[dict[str, Any]] = []
    for table in inputs:
        records += [record for record in records_of(table) if record not in records]
    return result.replace_schema_metadata({COUNTERS_METADATA: json.dumps([*records, *own])})


def count_invalid(function: str, rows: int, reasons: Mapping[str, int]) -> dict[str, Any]:
    """Warn about invalid rows that are left out; return the counters of the input."""
    warn_of_invalid(function, rows, reasons)
    return {"rows": rows, "invalid": sum(reasons.values()), "reasons": {**reasons}}


def warn_of_invalid(
    function: str, rows: int, reasons: Mapping[str, int], by_operator: bool = False
) -> None:
    """Warn about invalid rows, with their number and the most common reasons.

    by_operator : whether the operator found them, and may have emitted them
    """
    invalid = sum(reasons.values())
    if not invalid:
        return
    kinds = Counter[str]()
    for reason, count in reasons.items():
        kinds[generalize_reason(reason)] += count
    several = len(kinds) > 1
    why = ", ".join(f"{r} ({n:,} of them)" if several else r for r, n in kinds.most_common(3))
    why += f". {ABOVE_ONE_HINT}" if ABOVE_ONE in kinds else ""
    emitted = EMITTED_INVALID.get(function) if by_operator else None
    fate = emitted or f"were left out as invalid: {why}"
    warn_user(
        f"{function}: {invalid} of {rows} rows ({invalid / rows:.1%}) {fate}", InvalidRowsWarning
    )
