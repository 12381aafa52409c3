"""Row functions over tables in memory: split_invalid, where and impute."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.memory.alternatives import existence_of
from sfumato.memory.frame import ArrowFrame
from sfumato.memory.run import warn_of_invalid, with_record
from sfumato.operators.arrays import offsets_of
from sfumato.operators.imputation.imputer import Imputer
from sfumato.tables.arrow import as_array
from sfumato.tables.imputation.imputation_arguments import FAR_DONORS, FEW_ROWS, IMPUTED_BY
from sfumato.tables.imputation.table_imputation import UNIMPUTABLE, ImputationSettings, impute_table
from sfumato.tables.joins.metric import bounds_of
from sfumato.tables.reading.expressions import (
    ColumnRef,
    field_at,
    find_name,
    names_in,
    parse_expression,
    truths,
)
from sfumato.tables.reading.tuples import ALTERNATIVES, Tuples
from sfumato.tables.reading.types import as_doubles, floats_of
from sfumato.tables.reading.validity import (
    add_of_rules,
    checked_attributes,
    require_order,
    why_emptied,
    why_invalid,
)

Names = str | Sequence[str] | None


def split_rows(
    frame: ArrowFrame,
    attributes: Names,
    key: Names,
    order: Names,
    metric: str,
    exclusive: str | None,
    strict: bool,
) -> tuple[pa.Table, pa.Table]:
    """Implement `split_invalid` for a table. If `strict`, raises ValueError for an invalid row."""
    wanted, table = checked_attributes(frame, attributes), frame.table
    reasons = why_invalid(table, wanted, bounds=bounds_of(metric, wanted))
    named = {"key": frame.resolved("key", key), "order": frame.resolved("order", order)}
    for argument, columns in named.items():
        for name in columns:
            missing = as_array(table.column(name)).is_null().to_numpy(zero_copy_only=False)
            reasons.add(missing, f"{argument} is NULL")
    if exclusive is not None:
        require_order(order)
        rule = [frame.one("exclusive", exclusive), *named["key"]]
        cells = zip(*(table.column(name).to_pylist() for name in rule), strict=True)
        rules = [None if of[0] is None else of for of in cells]
        numbered = table.append_column("", pa.array(np.arange(table.num_rows)))  # a stable sort
        by = [(name, "ascending") for name in [*named["order"], ""]]
        places = pc.sort_indices(numbered, sort_keys=by).to_numpy()
        add_of_rules(reasons, _existences(Tuples(table)), rules, places)
    invalid = table.append_column("reason", reasons.column()).filter(pa.array(reasons.invalid))
    if strict and invalid.num_rows:
        raise ValueError(f"invalid row: {invalid['reason'][0].as_py()}")
    return table.filter(pa.array(~reasons.invalid)) if invalid.num_rows else table, invalid


def split(frame: ArrowFrame, mark: str) -> tuple[pa.Table, pa.Table]:
    """Return the rows where a boolean column is not true, and the rows where it is true."""
    marked = pc.fill_null(frame.table.column(mark), False)
    return frame.table.filter(pc.invert(marked)), frame.table.filter(marked)


def _existences(tuples: Tuples) -> np.ndarray:
    """Return float64[n]: the existence of each row; NaN for invalid rows."""
    if tuples.uncertain:
        return existence_of(tuples)
    given = "existence" if "existence" in tuples.table.column_names else None
    return floats_of(tuples.prob(given).flatten())


def filtered(frame: ArrowFrame, condition: str, name: str | None) -> pa.Table:
    """Implement `where` for a table."""
    asked = parse_expression("condition", condition)
    tuples = Tuples(frame.table)
    if not tuples.mentioned(asked):

        def cells(name: ColumnRef) -> pa.Array:
            column = frame.one("condition", name.parts[0])
            return field_at(as_array(frame.table.column(column)), name, 1)

        return frame.table.filter(truths(asked, cells, frame.table.num_rows))
    holds = truths(asked, tuples.cells, len(tuples.owner))
    kept = pc.fill_null(holds, False).to_numpy(zero_copy_only=False)
    lengths = np.bincount(tuples.owner, kept, frame.table.num_rows).astype(np.int64)
    meant = (find_name(one.parts[0], tuples.attributes) for one in names_in(asked))
    attributes = list(dict.fromkeys(one for one in meant if one is not None))
    reasons = why_emptied(frame.table, attributes, lengths > 0)
    lengths[reasons.invalid] = 0
    kept &= (lengths > 0)[tuples.owner]
    counted = reasons.counts()
    warn_of_invalid("where", frame.table.num_rows, counted)
    offsets = pa.array(offsets_of(lengths), pa.int32())
    place = frame.columns.index(ALTERNATIVES)
    field = frame.schema.field(place)
    flat = tuples.flat.filter(pa.array(kept))
    left = pa.ListArray.from_arrays(offsets, flat, type=field.type)
    counts = {"rows": frame.table.num_rows, "invalid": sum(counted.values()), "reasons": counted}
    result = frame.table.set_column(place, field, left).filter(pa.array(lengths > 0))
    return with_record(result, [frame.table], "where", name, {"_input": counts})


def imputed(
    frame: ArrowFrame, settings: ImputationSettings, imputer: Imputer, name: str | None
) -> pa.Table:
    """Implement `impute` for a table."""
    wanted = frame.resolved("attributes", list(settings.names))
    values = np.stack([_numbers(frame, column) for column in wanted], axis=1)
    existence = None
    if "existence" in frame.columns:
        existence = np.minimum(_numbers(frame, "existence"), 1.0)
    alternative = [("prob", pa.float64()), *((of, pa.float64()) for of in settings.attributes)]
    empty = pa.schema(
        [
            (ALTERNATIVES, pa.list_(pa.struct(alternative))),
            (IMPUTED_BY, pa.string()),
            (FAR_DONORS, pa.bool_()),
            (FEW_ROWS, pa.bool_()),
        ]
    ).empty_table()
    parts = [part for _, part in impute_table(imputer, values, existence)]
    added_columns = pa.concat_tables([empty, *(part.cast(empty.schema) for part in parts)])
    result = frame.table
    for column in (ALTERNATIVES, IMPUTED_BY):
        result = result.append_column(column, added_columns.column(column).combine_chunks())
    counts, reasons = _counted(added_columns)
    warn_of_invalid("impute", frame.table.num_rows, reasons)
    return with_record(result, [frame.table], "impute", name, {"": counts})


def _numbers(frame: ArrowFrame, name: str) -> np.ndarray:
    return floats_of(as_doubles(frame.table.column(name), f"`{name}`"))


def _counted(added: pa.Table) -> tuple[dict[str, int], dict[str, int]]:
    """Return the counters, and the number of rows that could not be imputed, per reason."""
    by = added.column(IMPUTED_BY)
    unimputable = pc.fill_null(pc.starts_with(by, UNIMPUTABLE), False)
    reasons = by.filter(unimputable).value_counts().to_pylist()
    unimputed, complete = pc.sum(unimputable).as_py() or 0, by.null_count
    counts = {
        "rows": added.num_rows,
        "complete": complete,
        "imputed": added.num_rows - complete - unimputed,
        "unimputable": unimputed,
        FAR_DONORS: pc.sum(added.column(FAR_DONORS)).as_py() or 0,
        "few_rows": pc.sum(added.column(FEW_ROWS)).as_py() or 0,
    }
    return counts, {str(reason["values"]): reason["counts"] for reason in reasons}
