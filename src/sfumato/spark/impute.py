"""Imputation of missing attributes as a DataFrame function."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, BooleanType, DoubleType, StringType, StructType

from sfumato.operators.imputation.dependency import Dependency
from sfumato.spark.model.alternatives import ALTERNATIVES
from sfumato.spark.model.entrance import public
from sfumato.spark.model.frame import SparkFrame
from sfumato.spark.model.imputation import Imputation, PreparedRepository
from sfumato.spark.model.names import Passed, column, under_fixed_names, without_constraints
from sfumato.spark.model.validity import clipped
from sfumato.spark.runtime.run import metrics_name
from sfumato.tables.imputation.arguments import BEYOND, FEW_ROWS, IMPUTED_BY
from sfumato.tables.imputation.imputation import UNIMPUTABLE, impute_table, numbers_of


@public(
    'sf.impute(df, repository="past.parquet", dependencies="humidity -> celsius : '
    '0.05 -> 0.1", attributes="celsius")',
    "df",
)
def impute(
    df: DataFrame,
    *,
    repository: DataFrame | str | Path,
    dependencies: str | Dependency | Sequence[Dependency | str],
    attributes: str | Sequence[str],
    joint: bool = False,
    max_alternatives: int | None = None,
    fallback: str = "marginal",
    scaling: Mapping[str, tuple[float, float]] | None = None,
    method: str = "calibrated",
    least_donors: int | None = None,
    name: str | None = None,
) -> DataFrame:
    """Rows with missing attributes as uncertain tuples: NULLs inferred from a complete repository.

    An attribute that is NULL (or NaN) is imputed from donors: rows of the repository near on the
    determinants of dependencies. By the method "calibrated", the default, at least 20 rows lend,
    the nearest of them, moved to where the object is; their probabilities are those that rows of
    the repository show when they are left out, so that a range of probability 90% has the true
    value in some 90% of the cases. By the method "plain" each distinct value of the donors of the
    first combination of dependencies that has any is an alternative, with their share as its
    probability: the more dependencies, the more certain, not the more right. `sfumato.Imputer` says
    more of both, and what bounds there are.

    df : streaming or static; the attributes and determinants as columns of numbers, the
        determinants of which may be NULL, too
    repository, ..., least_donors : see `sfumato.Imputation`
    name : of the metrics, instead of the number N

    Columns: all of `df` as they were (a NULL stays a NULL), `alternatives`:
    array<struct<prob, ATTR...>> over `attributes`, and `imputed_by`: text, the dependencies used. A
    complete row has itself as its only alternative, and NULL there. A row that cannot be imputed
    has NULL alternatives and "unimputable: ..." with the reason in `imputed_by`: ``sf.rejected``
    gives these rows, ``sf.checked`` the others. Where `df` has a column `existence`,
    probabilities are multiplied by it.

    The observed metrics ``sfumato_impute_N`` count rows, which are complete + imputed +
    unimputable, and beyond: imputed rows whose donors lie farther apart than twice the epsilon of
    the dependencies, so that they do not hold there; and few_rows: rows imputed from a repository
    of fewer than 19 complete rows, of which `sf.FewRowsWarning` warns when this is called. So few
    show no range of probability 90%, and the calibrated one is extrapolated.

    The repository is read when this is called, whole, into the driver's memory, and prepared: a
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


def impute_frame(df: DataFrame, imputation: Imputation, name: str | None = None) -> DataFrame:
    """`impute` with its arguments as one."""
    frame = SparkFrame(df)
    imputation = imputation.bounded(frame.max_alternatives)
    settings = imputation.settings
    imputation.check(frame)
    prepared = imputation.prepare(df.sparkSession)
    wanted = [column(n).cast("double") for n in frame.resolved("attributes", settings.names)]
    if "existence" in df.columns:
        wanted.append(clipped(column("existence")))
    passed, own = Passed(df.schema, df.columns), len(df.columns)
    answers = passed.named().add(ALTERNATIVES, _alternatives(settings.attributes))
    answers = answers.add(IMPUTED_BY, StringType()).add(BEYOND, BooleanType())
    answers = answers.add(FEW_ROWS, BooleanType())
    read = without_constraints(under_fixed_names(df.select("*", *wanted)))
    done = read.mapInArrow(_worker(prepared, own), answers)
    observed = _observed(done, metrics_name("impute", name))
    return observed.select(*(of.column for of in passed.results()), ALTERNATIVES, IMPUTED_BY)


def _worker(prepared: PreparedRepository, own: int):  # type: ignore[no-untyped-def]
    """What a worker does with batches whose first `own` columns are the frame's.

    Behind them are the values, and the existence where there is one.
    """

    def imputed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        imputer, names = prepared.newest(), (ALTERNATIVES, IMPUTED_BY, BEYOND, FEW_ROWS)
        values_end = own + len(imputer.names)
        for batch in batches:
            table = pa.table(batch)
            given = table.column_names
            existence = None
            if len(given) > values_end:
                existence = numbers_of(table, given[values_end:])[:, 0]
            rows = table.select(list(range(own)))
            values = numbers_of(table, given[own:values_end])
            for part, columns in impute_table(imputer, values, existence):
                whole = rows.slice(part.start, part.stop - part.start)
                for added, cells in zip(names, columns.columns, strict=True):
                    whole = whole.append_column(added, cells)
                yield from whole.to_batches()

    return imputed


def _alternatives(attributes: Sequence[str]) -> ArrayType:
    alternative = StructType().add("prob", DoubleType())
    for name in attributes:
        alternative = alternative.add(name, DoubleType())
    return ArrayType(alternative)


def _observed(df: DataFrame, metrics_name: str) -> DataFrame:
    by = F.col(IMPUTED_BY)
    unimputable = F.coalesce(by.startswith(UNIMPUTABLE), F.lit(False))

    def counted(condition, name):  # type: ignore[no-untyped-def]
        return F.coalesce(F.sum(condition.cast("long")), F.lit(0)).alias(name)

    return df.observe(
        metrics_name,
        F.count(F.lit(1)).alias("rows"),
        counted(by.isNull(), "complete"),
        counted(by.isNotNull() & ~unimputable, "imputed"),
        counted(unimputable, "unimputable"),
        counted(F.col(BEYOND), "beyond"),
        counted(F.col(FEW_ROWS), "few_rows"),
    )
