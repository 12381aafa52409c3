"""Dependencies discovered in a repository."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sfumato.api.frames import in_memory
from sfumato.api.imputation import repository_frame
from sfumato.operators.imputation.dependency import Dependency
from sfumato.operators.imputation.discovery import EPSILONS
from sfumato.operators.imputation.discovery import discover_dependencies as discover
from sfumato.tables.imputation.imputation import complete_columns
from sfumato.tables.imputation.query import dependents_left, discovered_of


def discover_dependencies(
    repository: Any,
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

    repository : a static DataFrame, a pandas, Polars or Arrow table, a Parquet path or a table's
        name, as for `sfumato.impute`
    attributes : the columns to look at, determinants and dependents; None: all of numbers
    dependents : those of them to infer (None: all)
    max_rows : at most so many complete rows are collected (chosen by a hash of their values and
        `seed`, so always the same ones); pairs of `sample` of them are compared
    within, ..., sample, seed : see `operators.imputation.discovery`; by default scaled
        by their minimum and extent over the whole repository, as `sfumato.impute` does

    A column in which no row has a finite number is left out, with a warning. Another one says when
    less than half of the rows have all columns.

    Returns `sf.engine_free.Dependency` objects with confidence, support and spread as seen in the
    sample. Runs Spark jobs when it is called. Raises ValueError or TypeError for wrong arguments.

    >>> str(sf.discover_dependencies(history)[0]).split(" : ")[0]
    'celsius -> humidity'
    """
    frame = repository_frame(repository)
    asked = discovered_of(frame, attributes, max_rows)
    engine: Any
    if in_memory(frame):
        from sfumato.memory import discovery as engine
    else:
        from sfumato.spark.model import discovery as engine
    found = engine.complete_rows(frame, asked, max_rows, seed)
    if found is None:
        return []
    rows, extents = found
    wanted = [*extents]
    return discover(
        complete_columns(rows, wanted),
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
