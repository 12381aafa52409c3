"""Dependencies discovered in a repository that Spark holds."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from sfumato.operators.imputation.dependency import Dependency
from sfumato.operators.imputation.discovery import EPSILONS
from sfumato.operators.imputation.discovery import discover_dependencies as discover
from sfumato.spark.model.frame import SparkFrame
from sfumato.spark.model.imputation import arrow_of, check_repository, frame_of
from sfumato.spark.model.names import column
from sfumato.tables.imputation.imputation import complete_columns
from sfumato.tables.imputation.query import (
    dependents_left,
    discovered_of,
    warn_of_gaps,
    with_values,
)


def discover_dependencies(
    repository: DataFrame | str | Path,
    attributes: str | Sequence[str] | None = None,
    *,
    dependents: Iterable[str] | None = None,
    within: float = 0.1,
    confidence: float = 0.95,
    epsilons: Sequence[float] = EPSILONS,
    max_determinants: int = 2,
    least_donors: float = 1.0,
    scaling: Mapping[str, tuple[float, float]] | None = None,
    sample: int = 1000,
    max_rows: int = 100_000,
    seed: int = 0,
) -> list[Dependency]:
    """Differential dependencies that nearly hold in a repository, best first for each dependent.

    repository : a static DataFrame, a Parquet path or a table's name, as for `sfumato.impute`
    attributes : the columns to look at, determinants and dependents; None: all of numbers
    dependents : those of them to infer (None: all)
    max_rows : at most so many complete rows are collected (chosen by a hash of their values and
        `seed`, so always the same ones); pairs of `sample` of them are compared
    within, ..., sample, seed : see `operators.imputation.discovery`; by default scaled
        by their minimum and extent over the whole repository, as `sfumato.impute` does

    A column in which no row has a finite number is left out, with a warning. Another one says when
    less than half of the rows have all columns.

    Returns `sfumato.Dependency` with confidence, support and spread as seen in the sample. Runs
    Spark jobs when it is called. Raises ValueError or TypeError for wrong arguments.

    >>> str(sf.discover_dependencies(history)[0]).split(" : ")[0]
    'celsius -> humidity'
    """
    check_repository(repository)
    df = repository
    if isinstance(df, str | Path):
        df = frame_of(df, SparkSession.active())
    asked = discovered_of(SparkFrame(df), attributes, max_rows)
    rows = df.select(*(column(name).cast("double").alias(name) for name in asked))
    # NaN counts as greater than every number in Spark.
    finite = {name: F.abs(column(name)) < float("inf") for name in asked}
    counted = rows.agg(F.count(F.lit(1)), *(F.count_if(each) for each in finite.values())).first()
    assert counted is not None
    total, known = counted[0], dict(zip(asked, counted[1:], strict=True))
    wanted = with_values(asked, known)
    rows = rows.select(*map(column, wanted))
    for name in wanted:
        rows = rows.where(finite[name])
    if len(wanted) < 2:
        warn_of_gaps(wanted, known, total, 0)
        return []
    ends = rows.agg(
        F.count(F.lit(1)).alias("complete"),
        *(F.min(column(name)).alias(f"low{i}") for i, name in enumerate(wanted)),
        *(F.max(column(name)).alias(f"high{i}") for i, name in enumerate(wanted)),
    ).first()
    assert ends is not None
    warn_of_gaps(wanted, known, total, ends["complete"])
    if ends["complete"] < 2:
        return []
    extents = {
        name: (ends[f"low{i}"], (ends[f"high{i}"] - ends[f"low{i}"]) or 1.0)
        for i, name in enumerate(wanted)
    }
    hashed = F.xxhash64(F.lit(seed), *(column(name) for name in wanted))
    few = arrow_of(rows.orderBy(hashed).limit(max_rows), wanted)
    return discover(
        complete_columns(few, wanted),
        names=wanted,
        dependents=dependents_left(dependents, asked, wanted),
        within=within,
        confidence=confidence,
        epsilons=epsilons,
        max_determinants=max_determinants,
        least_donors=least_donors,
        scaling={**extents, **(scaling or {})},
        sample=sample,
        seed=seed,
    )
