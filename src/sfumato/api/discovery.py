"""Discovery of dependencies in a repository."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sfumato.api.calls import (
    ColumnName,
    ColumnNames,
    engine_module,
    is_of_spark,
    plain_name,
    replace_columns,
)
from sfumato.api.imputation import Imputation, active_session, repository_frame
from sfumato.operators.arguments import scaling_pairs
from sfumato.operators.imputation.dependency import Dependency
from sfumato.operators.imputation.discovery import EPSILONS
from sfumato.operators.imputation.discovery import discover_dependencies as discover
from sfumato.operators.imputation.stream_discovery import MIN_CHANGES, discover_changes
from sfumato.tables.imputation.discovery_query import (
    check_attribute_count,
    columns_to_search,
    require_defaults,
    warn_of_gaps,
)
from sfumato.tables.imputation.repositories import MAX_PAST_ROWS, changes_of, complete_matrix
from sfumato.tables.imputation.table_earlier_values import require_ages
from sfumato.tables.reading.frame import column_names
from sfumato.tables.reading.types import floats_of


def discover_dependencies(
    repository: Any,
    attributes: ColumnNames | None = None,
    *,
    dependents: ColumnNames | None = None,
    within: float = 0.1,
    confidence: float = 0.95,
    epsilons: Sequence[float] = EPSILONS,
    max_determinants: int = 2,
    least_donors: float = 1.0,
    scaling: Mapping[str, tuple[float, float]] | None = None,
    sample: int = 1000,
    max_rows: int = 100_000,
    seed: int = 0,
    order: ColumnName | None = None,
    key: ColumnNames | None = None,
) -> list[Dependency]:
    """Find differential dependencies that nearly hold in a repository, best first per dependent.

    Parameters
    ----------
    repository
        A static frame or table, a Parquet path or a table's name, as for `sfumato.impute`.
    attributes
        Columns to examine as determinants and dependents; None for all numeric columns.
    dependents
        The attributes to infer; None for all.
    within
        Maximum epsilon of a dependent, as a share of its extent.
    confidence
        Minimum share of pairs close on the determinants that are close on the dependent, in (0, 1].
    epsilons
        Candidates for the epsilon of a dependency's determinants.
    max_determinants
        Maximum number of determinants of a dependency.
    least_donors
        Minimum number of donors that a row is expected to have in the whole repository.
    scaling
        As for `sfumato.Imputation`: by default minimum and extent over the whole repository.
    sample
        Number of collected rows that are compared in pairs.
    max_rows, seed
        Maximum number of complete rows to collect. The rows are chosen by a hash of their values
        and `seed`, so every call chooses the same rows.
    order, key
        The order of a stream and its key, as for `sf.impute`. The repository is then the past of
        the stream, with gaps, and the dependencies are on earlier values and changes, which
        `sf.impute` computes if it gets the same `order` and `key`. `max_determinants` is the number
        of other attributes, `sample` the number of rows imputed to compare dependencies. `within`,
        `confidence`, `epsilons`, `least_donors` and `scaling` cannot be given.

    Returns
    -------
    A list of `sf.engine_free.Dependency` objects with the confidence, support and spread in the
    sample; with `order`, with the score of the imputed rows.

    Raises
    ------
    ValueError, TypeError
        For values out of range, and for columns that are missing or have the wrong type.

    Notes
    -----
    Spark jobs run during the call. A column without any finite number is left out, with a warning.
    Another warning reports that fewer than half of the rows have values in all columns.
    More: page reference/semantics/stream-imputation of the documentation.
    Cost: O(sample²) per combination of determinants, dependent and epsilon; `max_rows` in memory.

    References
    ----------
    Ren et al. (2019), section 6.1. CIKM.
    Song and Chen (2011), Differential dependencies, ACM TODS 36(3).

    Examples
    --------
    >>> str(sf.discover_dependencies(history)[0]).split(" : ")[0]
    'celsius -> humidity'
    """
    given = {"repository": repository, "attributes": attributes, "dependents": dependents}
    given |= {"order": order, "key": key}
    if is_of_spark(repository):
        from sfumato.spark.model.validation import ColumnObjects

        replace_columns(given, ColumnObjects(given, ["repository"]).name_of)
    else:
        replace_columns(given, plain_name)
    repository, attributes, dependents, order, key = given.values()
    frame = repository_frame(repository, active_session())
    dependents = column_names("dependents", dependents) or None
    search: dict[str, Any] = {"max_determinants": max_determinants, "sample": sample, "seed": seed}
    thresholds: dict[str, Any] = {"within": within, "confidence": confidence}
    thresholds |= {"epsilons": epsilons, "least_donors": least_donors}
    if order is not None:
        order = frame.single_column("order", order)
        require_defaults(thresholds | {"scaling": scaling})
        asked = columns_to_search(frame, attributes, max_rows, [*column_names("key", key), order])
        check_attribute_count(asked)
        require_ages(frame, order)
        imputation = Imputation(repository, None, asked, key=key, order=order)
        past = imputation.rows_of(frame)
        _, changes, _ = changes_of(imputation.settings, past)
        known = {name: int(np.isfinite(floats_of(past.column(name))).sum()) for name in asked}
        warn_of_gaps(asked, known, past.num_rows, len(changes), MIN_CHANGES)
        most = min(max_rows, MAX_PAST_ROWS)
        return discover_changes(changes, asked, dependents=dependents, max_rows=most, **search)
    if key is not None:
        raise ValueError(f"`key` needs `order`; got key={key!r} alone. Give both")
    asked = columns_to_search(frame, attributes, max_rows)
    engine = engine_module(frame, "repository", "model.repository")
    found = engine.complete_rows(frame, asked, max_rows, seed)
    if found is None:
        return []
    rows, extents = found
    wanted = [*extents]
    if dependents is not None:
        dependents = [name for name in dependents if name in wanted or name not in asked]
    return discover(
        complete_matrix(rows, wanted),
        names=wanted,
        dependents=dependents,
        scaling={**extents, **scaling_pairs(scaling)},
        **search,
        **thresholds,
    )
