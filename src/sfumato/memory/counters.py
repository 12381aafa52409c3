"""Counters of operators in the metadata of their results, and warnings about skipped rows."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from sfumato.memory.frame import frame_of
from sfumato.memory.kinds import is_pandas, is_polars, metadata_of
from sfumato.tables.reading.user_warnings import InvalidRowsWarning, calls_from_user

KEPT = b"sfumato.counters"  # metadata of a schema: JSON list of the counters per operator


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
    the counters documented for its function, under the same names as Spark's metrics. An operator
    that skips invalid rows also has an entry `..._input` (a join: `..._left` and `..._right`) with
    `rows`, `invalid`, and `reasons`, the number of rows per reason.

    Examples
    --------
    >>> import pyarrow as pa
    >>> rows = pa.table({"made": [2, 1, 3], "arrival": [1, 2, 3]})
    >>> ordered = sf.reorder(rows, event_time="made", arrival="arrival", slack=0, name="intake")
    >>> sf.ops.counters(ordered)["sfumato_reorder_intake"]["late"]
    1
    """
    found: dict[str, dict[str, Any]] = {}
    numbers: dict[str, int] = {}
    for record in recorded(table):
        kind, name = record["operator"], record["name"]
        if name is None:
            name = numbers[kind] = numbers.get(kind, 0) + 1
        for side, counts in record["counts"].items():
            found[f"sfumato_{kind}_{name}{side}"] = counts
    return found


def recorded(table: Any) -> list[dict[str, Any]]:
    """Return the records of the operators that computed a table, oldest first."""
    schema = metadata_of(table) if is_pandas(table) or is_polars(table) else table.schema
    schema_metadata = None if schema is None else (schema.metadata or {}).get(KEPT)
    return [] if schema_metadata is None else list(json.loads(schema_metadata))


def with_record(
    result: pa.Table,
    inputs: Sequence[pa.Table],
    operator: str,
    name: str | None,
    counts: Mapping[str, Mapping[str, Any]],
) -> pa.Table:
    """Return the result with its operator's counters, appended to the counters of its inputs.

    counts : counters of the operator ("") and of its inputs ("_input", or "_left" and "_right")
    """
    records = [*_of_all(inputs), {"operator": operator, "name": name, "counts": counts}]
    return result.replace_schema_metadata({KEPT: json.dumps(records)})


def union(parts: Sequence[tuple[Any, Mapping[str, str]]]) -> pa.Table:
    """Concatenate results, each after columns of constant texts, and merge their counters."""
    tables, given = [], []
    for part, texts in parts:
        table = frame_of(part).table
        given.append(table)
        for name, text in reversed([*texts.items()]):
            cells = pa.array([text] * table.num_rows, pa.string())
            table = table.add_column(0, name, cells)
        tables.append(table.replace_schema_metadata(None))
    return pa.concat_tables(tables).replace_schema_metadata({KEPT: json.dumps(_of_all(given))})


def _of_all(tables: Sequence[pa.Table]) -> list[dict[str, Any]]:
    """Return the records of the operators that computed some tables, without duplicates."""
    records: list[dict[str, Any]] = []
    for table in tables:
        records += [record for record in recorded(table) if record not in records]
    return records


def warn_of_invalid(function: str, rows: int, reasons: Mapping[str, int]) -> None:
    """Warn about the number of skipped invalid rows and the reasons, if there are any."""
    invalid = sum(reasons.values())
    if not invalid:
        return
    commonest = sorted(reasons, key=lambda reason: -reasons[reason])[:3]
    why = ", ".join(f"{reason} ({reasons[reason]})" for reason in commonest)
    warnings.warn(
        f"{function}: {invalid} of {rows} rows ({invalid / rows:.1%}) were skipped as invalid: "
        f"{why}",
        InvalidRowsWarning,
        stacklevel=calls_from_user() + 1,
    )
