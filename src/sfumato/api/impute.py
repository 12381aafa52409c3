"""Imputation of missing attributes, for frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from sfumato.api.calls import (
    ColumnName,
    ColumnNames,
    engine_module,
    frame_of,
    in_memory,
    public_function,
    run,
)
from sfumato.api.imputation import Imputation
from sfumato.operators.imputation.dependency import Dependency
from sfumato.tables.imputation.imputation_arguments import DEFAULT_LEAST_ROWS
from sfumato.tables.imputation.table_imputation import stream_imputation_job


@public_function(
    'sf.impute(df, repository="past.parquet", dependencies="humidity -> celsius : '
    '0.05 -> 0.1", attributes="celsius")',
    "df",
)
def impute(
    df: Any,
    *,
    repository: Any,
    attributes: ColumnNames,
    dependencies: str | Dependency | Sequence[Dependency | str] | None = None,
    joint: bool = False,
    max_alternatives: int | None = None,
    fallback: str = "marginal",
    scaling: Mapping[str, tuple[float, float]] | None = None,
    method: str = "calibrated",
    least_donors: int | None = None,
    key: ColumnNames | None = None,
    least_rows: int = DEFAULT_LEAST_ROWS,
    order: ColumnName | None = None,
    forget_after: str | timedelta | float | None = None,
    gap_values: int | None = None,
    name: str | None = None,
) -> Any:
    """Replace missing attributes with distributions inferred from a repository of complete rows.

    Parameters
    ----------
    df
        A Spark DataFrame, or a table in memory with the whole stream. The result has the same type.
    repository, ..., least_rows
        See `sfumato.Imputation`.
    order
        Column that orders the stream, a timestamp or a number, as for `sf.earlier_values`. A
        missing value is then the last known value of its `key` plus a change since then, imputed
        from the changes in the past. The repository is the past of the stream, with gaps, and has
        this column and the key. `dependencies` are built by default; or pass dependencies that
        `sf.discover_dependencies` finds with the same `order` and `key`.
    forget_after
        With `order`: time to live of a key, as for `sf.earlier_values`.
    gap_values
        With `order`: number of equally probable values of a row in a gap, such as 20. The values of
        one gap have the same column ``gap_ATTR``, so that ``sf.window_aggregate(...,
        shared="gap_ATTR")`` treats their errors as one, and its ranges are not too narrow.
    name
        Name of the metrics, instead of the number N in ``sfumato_impute_N``.

    Returns
    -------
    One row per input row: all columns of `df` unchanged (a NULL stays NULL), `alternatives`:
    array<struct<prob, ATTR...>> over `attributes`, and `imputed_by`: the dependencies used. A
    complete row is its only alternative, and its `imputed_by` is NULL. A row that cannot be imputed
    has no alternatives, and the reason in `imputed_by`; ``sf.split_invalid`` finds such rows. If
    `df` has a column `existence`, the probabilities are multiplied by it. With `gap_values`, a
    column ``gap_ATTR`` (bigint) per attribute: the number of the gap, NULL outside of gaps.

    Raises
    ------
    ValueError, TypeError
        For values out of range, and for columns that are missing or have the wrong type.

    Notes
    -----
    The whole repository is read into memory during the call. Without `order`, the function has no
    state, needs no shuffle and accepts rows in any order. With `order`, it shuffles by key and
    keeps 4 numbers per attribute and key. Cost: microseconds per row, more with many donors.
    With `order`, the values in a gap depend on the same last known value, but windows treat rows as
    independent unless `gap_values` and `shared` are given.
    More: page reference/functions/impute of the documentation.

    References
    ----------
    Ren et al. (2019), sections 2.2 and 3. CIKM.

    Examples
    --------
    >>> filled = sf.impute(
    ...     readings.selectExpr("id", "humidity", "IF(id = 2, NULL, celsius) AS celsius"),
    ...     repository=history,
    ...     dependencies="humidity -> celsius : 0.05 -> 0.1",
    ...     attributes="celsius",
    ... )
    >>> [(row.id, row.imputed_by is not None) for row in filled.collect()]
    [(1, False), (2, True), (3, False), (4, False)]
    """
    frame = frame_of(df)
    if not frame.uncertain:  # before the dependencies of misspelled attributes
        frame.resolve("attributes", attributes)
    how = (joint, max_alternatives, fallback, scaling, method, least_donors, key, least_rows, order)
    imputation = Imputation(repository, dependencies, attributes, *how)
    return impute_frame(df, imputation, name, forget_after, gap_values)


def impute_frame(
    df: Any,
    imputation: Imputation,
    name: str | None = None,
    forget_after: str | timedelta | float | None = None,
    gap_values: int | None = None,
) -> Any:
    """Run `impute` with its arguments given as one `Imputation`."""
    frame = frame_of(df)
    imputation = imputation.with_bound(frame.max_alternatives)
    imputation.check(frame)
    if imputation.order is not None:
        settings, imputers = imputation.settings, imputation.prepared(frame)
        job = stream_imputation_job(frame, settings, imputers, forget_after, gap_values, name)
        return run(job)
    for argument, given in (("forget_after", forget_after), ("gap_values", gap_values)):
        if given is not None:
            raise ValueError(f"`{argument}` needs `order`; got {given!r}. Give both")
    imputer = imputation.imputer if in_memory(frame) else imputation.prepare(df.sparkSession)
    engine = engine_module(frame)
    return engine.impute(frame, imputation.settings, imputer, name)
