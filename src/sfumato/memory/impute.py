"""Imputation of tables in memory."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.memory.counters import warn_of_invalid, with_record
from sfumato.memory.frame import ArrowFrame
from sfumato.operators.imputation.imputer import Imputer
from sfumato.tables.imputation.imputation_arguments import FAR_DONORS, FEW_ROWS, IMPUTED_BY
from sfumato.tables.imputation.table_imputation import UNIMPUTABLE, ImputationSettings, impute_table
from sfumato.tables.reading.tuples import ALTERNATIVES
from sfumato.tables.reading.types import as_doubles, floats_of


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
