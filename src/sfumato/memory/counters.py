"""What an operator counted, in the metadata of its result; a warning where rows are left out."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from sfumato.memory.frame import frame_of
from sfumato.memory.kinds import is_pandas, is_polars, said_of
from sfumato.tables.reading.invalid_rows import InvalidRowsWarning
from sfumato.tables.reading.shared_rows import calls_from_user

KEPT = b"sfumato.counters"  # metadata of a schema: JSON list of what each operator counted


def counters(table: Any) -> dict[str, dict[str, Any]]:
    """What the operators behind a result counted, the newest last, by the names of Spark's metrics.

    table : a pandas, Polars or Arrow table that a function gave; filters and selections of an Arrow
        or pandas table keep what was counted, those of a Polars one do not

    Each operator has `sfumato_OPERATOR_NAME` (NAME is the argument `name`, or a number), with the
    counters that its function documents. Where it leaves out invalid rows there is also
    `..._input`, of a join `..._left` and `..._right`: `rows`, `invalid`, and `reasons`, how many
    rows each reason has.

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
    """The records of the operators behind a table, the oldest first."""
    schema = said_of(table) if is_pandas(table) or is_polars(table) else table.schema
    said = None if schema is None else (schema.metadata or {}).get(KEPT)
    return [] if said is None else list(json.loads(said))


def with_record(
    result: pa.Table,
    inputs: Sequence[pa.Table],
    operator: str,
    name: str | None,
    counts: Mapping[str, Mapping[str, Any]],
) -> pa.Table:
    """The result with what its operator counted, behind what those of its inputs did.

    counts : of the operator ("") and of its inputs ("_input", or "_left" and "_right")
    """
    records = [*_of_all(inputs), {"operator": operator, "name": name, "counts": counts}]
    return result.replace_schema_metadata({KEPT: json.dumps(records)})


def union(parts: Sequence[tuple[Any, Mapping[str, str]]]) -> pa.Table:
    """Return results one after the other, each with columns of constant texts before its own, and
    what was counted for all of them."""
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
    """The records of the operators behind some tables, each once."""
    records: list[dict[str, Any]] = []
    for table in tables:
        records += [record for record in recorded(table) if record not in records]
    return records


def check_name(name: str | None) -> None:
    """Raise TypeError or ValueError for a name that is not made of letters, digits and `_`."""
    if name is not None and not isinstance(name, str):
        raise TypeError(f"`name` must be text; got {name!r}")
    if name is not None and not re.fullmatch(r"\w+", name):
        raise ValueError(f"`name` must be made of letters, digits and `_`; got {name!r}")


def warn_of_invalid(function: str, rows: int, reasons: Mapping[str, int]) -> None:
    """Warn how many rows were skipped as invalid, and why; no warning without such rows."""
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
