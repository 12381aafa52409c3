"""Dependencies discovered in a table: `sfumato.discover_dependencies` without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.local.model.imputation import repository_frame
from sfumato.operators.imputation.dependency import Dependency
from sfumato.operators.imputation.discovery import EPSILONS
from sfumato.operators.imputation.discovery import discover_dependencies as discover
from sfumato.tables.imputation.imputation import complete_columns
from sfumato.tables.imputation.query import (
    dependents_left,
    discovered_of,
    warn_of_gaps,
    with_values,
)
from sfumato.tables.reading.ties import ties_of
from sfumato.tables.reading.types import as_doubles, floats_of


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

    repository : a pandas, Polars or Arrow table, or the path of Parquet data
    The other arguments are those of `sfumato.discover_dependencies`, and so is what comes out.
    Raises ValueError or TypeError for wrong arguments.
    """
    frame = repository_frame(repository)
    asked = discovered_of(frame, attributes, max_rows)
    columns = dict(zip(asked, frame.resolved("attributes", asked), strict=True))
    numbers = {name: as_doubles(frame.table.column(of), f"`{of}`") for name, of in columns.items()}
    finite = {name: np.isfinite(floats_of(column)) for name, column in numbers.items()}
    known = {name: int(np.count_nonzero(each)) for name, each in finite.items()}
    wanted = with_values(asked, known)
    whole = np.ones(frame.table.num_rows, np.bool_)
    for name in wanted:
        whole &= finite[name]
    rows = pa.table([numbers[name] for name in wanted], names=wanted).filter(pa.array(whole))
    warn_of_gaps(wanted, known, whole.size, rows.num_rows)
    if rows.num_rows < 2 or len(wanted) < 2:
        return []
    extents = {}
    for name in wanted:
        values = floats_of(rows.column(name).combine_chunks())
        extents[name] = float(values.min()), float(values.max() - values.min()) or 1.0
    return discover(
        complete_columns(_few(rows, max_rows, seed), wanted),
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


def _few(rows: pa.Table, most: int, seed: int) -> pa.Table:
    """At most so many of the rows: those whose hash, begun with the seed, is least."""
    if rows.num_rows <= most:
        return rows
    seeds = pa.array(np.full(rows.num_rows, seed, np.int32))
    hashes = ties_of(rows.add_column(0, "__seed", seeds)).to_numpy()
    return rows.take(pa.array(np.argsort(hashes, kind="stable")[:most]))
