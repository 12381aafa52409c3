"""Imputation of missing attributes as a function of frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sfumato.api.calls import public
from sfumato.api.frames import frame_of, in_memory
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
    attributes: str | Sequence[str],
    joint: bool = False,
    max_alternatives: int | None = None,
    fallback: str = "marginal",
    scaling: Mapping[str, tuple[float, float]] | None = None,
    method: str = "calibrated",
    least_donors: int | None = None,
    name: str | None = None,
) -> Any:
    """Rows with missing attributes as uncertain tuples: NULLs inferred from a complete repository.

    An attribute that is NULL (or NaN) is imputed from donors: rows of the repository near on the
    determinants of dependencies. By the method "calibrated", the default, at least 20 rows lend,
    the nearest of them, moved to where the object is; their probabilities are those that rows of
    the repository show when they are left out, so that a range of probability 90% has the true
    value in some 90% of the cases. By the method "plain" each distinct value of the donors of the
    first combination of dependencies that has any is an alternative, with their share as its
    probability: the more dependencies, the more certain, not the more right.
    `sf.engine_free.Imputer` says more of both, and what bounds there are.

    df : a DataFrame of Spark, streaming or static; or a pandas, Polars or Arrow table, the whole
        stream. The result is of the same kind
        The attributes and determinants are columns of numbers, the determinants may be NULL, too
    repository, ..., least_donors : see `sfumato.Imputation`
    name : of the metrics, instead of the number N

    Columns: all of `df` as they were (a NULL stays a NULL), `alternatives`:
    array<struct<prob, ATTR...>> over `attributes`, and `imputed_by`: text, the dependencies used. A
    complete row has itself as its only alternative, and NULL there. A row that cannot be imputed
    has NULL alternatives and "unimputable: ..." with the reason in `imputed_by`;
    ``sf.split_invalid`` tells these rows from the others. Where `df` has a column `existence`,
    probabilities are multiplied by it.

    The observed metrics ``sfumato_impute_N`` count rows, which are complete + imputed +
    unimputable, and beyond: imputed rows whose donors lie farther apart than twice the epsilon of
    the dependencies, so that they do not hold there; and few_rows: rows imputed from a repository
    of fewer than 19 complete rows, of which `sf.errors.FewRowsWarning` warns when this is called.
    So few show no range of probability 90%, and the calibrated one is extrapolated.

    The repository is read when this is called, whole, into this process's memory, and prepared: a
    job of Spark that collects it (nothing else of the query is started). It goes to the workers
    with the plan and is kept by each process. If it is a path that the workers can see (to pyarrow:
    local or shared disks, and the stores it knows), a new version there takes effect with the tasks
    that start after it: put it there at once, by renaming a finished file; a file that cannot be
    read stops the query. A DataFrame or a table is what it was when this was called.

    Stateless: no shuffle, any order, one row in and one row out.
    Cost: microseconds a row, more with many donors. Source: E, sections 2.2 and 3.
    Raises ValueError or TypeError for wrong arguments.

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
    """`impute` with its arguments as one."""
    frame = frame_of(df)
    imputation = imputation.bounded(frame.max_alternatives)
    imputation.check(frame)
    engine: Any
    if in_memory(frame):
        from sfumato.memory import impute as engine

        return engine.imputed(frame, imputation.settings, imputation.imputer, name)
    from sfumato.spark.runtime import impute as engine

    prepared = imputation.prepare(df.sparkSession)
    return engine.imputed(frame, imputation.settings, prepared, name)
