"""Imputation of missing attributes, for frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sfumato.api.calls import ColumnNames, frame_of, in_memory, public
from sfumato.api.imputation import Imputation
from sfumato.operators.imputation.dependency import Dependency


@public(
    'sf.impute(df, repository="past.parquet", dependencies="humidity -> celsius : '
    '0.05 -> 0.1", attributes="celsius")',
    "df",
)
def impute(
    df: Any,
    *,
    repository: Any,
    dependencies: str | Dependency | Sequence[Dependency | str],
    attributes: ColumnNames,
    joint: bool = False,
    max_alternatives: int | None = None,
    fallback: str = "marginal",
    scaling: Mapping[str, tuple[float, float]] | None = None,
    method: str = "calibrated",
    least_donors: int | None = None,
    name: str | None = None,
) -> Any:
    """Turn rows with missing attributes into uncertain tuples, inferred from a complete repository.

    An attribute that is NULL (or NaN) is imputed from donors: rows of the repository that are near
    on the determinants of dependencies.

    Parameters
    ----------
    df
        A DataFrame of Spark, streaming or static, or a pandas, Polars or Arrow table that is the
        whole stream. The result is of the same kind. The attributes and determinants are columns of
        numbers; the determinants may be NULL, too.
    repository, ..., least_donors
        See `sfumato.Imputation`.
    name
        Name of the metrics, instead of the number N.

    Returns
    -------
    A row per input row: all columns of `df` unchanged (a NULL stays a NULL), `alternatives`:
    array<struct<prob, ATTR...>> over `attributes`, and `imputed_by`: text, the dependencies used. A
    complete row has itself as its only alternative, and `imputed_by` NULL. A row that cannot be
    imputed has NULL alternatives and "unimputable: ..." with the reason in `imputed_by`;
    ``sf.split_invalid`` finds these rows. Where `df` has a column `existence`, the probabilities
    are multiplied by it.

    Raises
    ------
    ValueError, TypeError
        For wrong arguments.

    Notes
    -----
    Method "calibrated", the default: at least 20 donors, the nearest ones, are moved to the place
    of the object. Their probabilities are those that rows of the repository show when they are left
    out, so that a range of probability 90% has the true value in some 90% of the cases. Method
    "plain": each distinct value of the donors of the first combination of dependencies that has any
    is an alternative, with their share as its probability; more dependencies make it more certain,
    not more right. `sf.engine_free.Imputer` describes both, and their bounds.

    The observed metrics ``sfumato_impute_N`` count rows (complete + imputed + unimputable) and
    far_donors: imputed rows whose donors lie farther apart than twice the epsilon of the
    dependencies, so that these do not hold there. They also count few_rows: rows imputed from a
    repository of fewer than 19 complete rows, for which `sf.errors.FewRowsWarning` warns at the
    call. So few rows show no range of probability 90%, and the calibrated one is extrapolated.

    The whole repository is read into this process's memory at the call, by a job of Spark that
    collects it, and prepared; nothing else of the query is started. It is sent to the workers with
    the plan, and each process keeps it. If it is a path that the workers can see (to pyarrow: local
    or shared disks, and the stores it knows), a new version there takes effect with the tasks that
    start after it. Replace it at once, by renaming a finished file; a file that cannot be read
    stops the query. A DataFrame or a table keeps the state it had at the call.

    Stateless: no shuffle, any order. Cost: microseconds per row, more with many donors.
    References: Ren et al. (2019), sections 2.2 and 3: see the page of papers.

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
    how = (joint, max_alternatives, fallback, scaling, method, least_donors)
    return impute_frame(df, Imputation(repository, dependencies, attributes, *how), name)


def impute_frame(df: Any, imputation: Imputation, name: str | None = None) -> Any:
    """Run `impute` with its arguments given as one `Imputation`."""
    frame = frame_of(df)
    imputation = imputation.bounded(frame.max_alternatives)
    imputation.check(frame)
    engine: Any
    if in_memory(frame):
        from sfumato.memory import rows as engine

        return engine.imputed(frame, imputation.settings, imputation.imputer, name)
    from sfumato.spark import rows as engine

    prepared = imputation.prepare(df.sparkSession)
    return engine.imputed(frame, imputation.settings, prepared, name)
