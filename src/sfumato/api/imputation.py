"""Imputation of missing attributes, discovery of its dependencies, and earlier values."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from sfumato.api.calls import (
    ColumnName,
    ColumnNames,
    engine_module,
    frame_of,
    in_memory,
    is_of_spark,
    plain_name,
    public_function,
    replace_columns,
    run,
)
from sfumato.calls import checks_call
from sfumato.memory.rows import read_parquet
from sfumato.operators.arguments import scaling_pairs
from sfumato.operators.imputation.dependency import Dependency as Dependency
from sfumato.operators.imputation.discovery import EPSILONS
from sfumato.operators.imputation.discovery import discover_dependencies as discover
from sfumato.operators.imputation.stream_discovery import MIN_CHANGES, discover_changes
from sfumato.tables.imputation.discovery_query import (
    check_attribute_count,
    columns_to_search,
    require_defaults,
    warn_of_gaps,
)
from sfumato.tables.imputation.imputation_arguments import (
    DEFAULT_LEAST_ROWS,
    ImputationArguments,
    require_keys,
    require_numbers_or_texts,
    require_same_kinds,
)
from sfumato.tables.imputation.repositories import (
    MAX_PAST_ROWS,
    AnyRepository,
    changes_of,
    complete_matrix,
    warn_of_few_rows,
)
from sfumato.tables.imputation.table_earlier_values import earlier_values_job, require_ages
from sfumato.tables.imputation.table_imputation import stream_imputation_job
from sfumato.tables.reading.frame import NUMBER_KINDS, Frame, column_names
from sfumato.tables.reading.job import remember_answers
from sfumato.tables.reading.types import floats_of
from sfumato.tables.reading.user_warnings import calls_from_user

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sfumato.spark.model.repository import PreparedRepository


@checks_call('sf.Imputation("complete.parquet", "a -> b : 0.05 -> 0.1", ["b"])')
@dataclass(frozen=True, eq=False)
class Imputation(ImputationArguments):
    """Imputation of missing attributes from a complete repository: the arguments of `sf.impute`.

    Parameters
    ----------
    repository
        A static DataFrame, a pandas, Polars or Arrow table, the path of Parquet data (a Path, or a
        string that contains a slash or ends in .parquet), or the name of a Spark table. Its columns
        are the attributes and all determinants, numbers or strings. Incomplete rows are not used.
    dependencies
        `sf.engine_free.Dependency` objects or strings, like "humidity -> temperature : 0.05 ->
        0.1"; epsilons are in units of the scaled attributes.
    attributes
        Attribute(s) to impute and to store in `alternatives`; determinants may be other columns.
        Strings are close if they are equal. An imputed string's probability is its donors' share.
    joint
        Take several missing attributes from the same rows, which keeps their correlation.
    max_alternatives
        Maximum number of alternatives per row; values are merged. None: 1,024 if several
        attributes are missing and `method` is "calibrated", otherwise 10,000. Below 100 for two
        missing attributes, or 1,000 for three, "calibrated" takes the values from the same rows.
    fallback
        If no dependency has donors: "marginal" uses the attribute's distribution in the repository;
        "reject" leaves the row without alternatives, with the reason in `imputed_by`.
    scaling
        {name: (shift, span)}: scaled = (value - shift) / span. By default, and for missing names,
        shift is the minimum in the repository, and span is the maximum minus the minimum.
    method
        "calibrated", the default: a range of probability p contains the value in a share p of the
        cases. "plain": the unchanged donors of the first combination of dependencies that has any
        (see `sf.engine_free.Imputer`).
    least_donors
        Minimum number of donors. None: 20 for "calibrated", 1 for "plain".
    key, least_rows
        Column(s) of the frame and of the repository that identify a device or sensor. A key with at
        least `least_rows` complete rows in the repository is imputed from these rows; other keys,
        and NULL, from the whole repository (counted as `shared`). Not for joins.
    order
        Column that orders a stream: impute changes since the last known value, see `sf.impute`.
        `scaling` and `method` cannot be given then; `dependencies` are None, or their determinants
        are age_ATTR, earlier_ATTR, change_ATTR and value_ATTR. Not for joins.

    Raises
    ------
    ValueError, TypeError
        For wrong arguments that can be found without reading the repository.

    Notes
    -----
    Cost: the repository is read into memory; microseconds per row, more with many donors.

    References
    ----------
    Ren et al. (2019), sections 2.2 and 3. CIKM.
    Kuleshov et al. (2018), Accurate uncertainties for deep learning, PMLR 80 (calibration).

    Examples
    --------
    >>> by_humidity = sf.Imputation("past.parquet", "humidity -> celsius : 0.05 -> 0.1", "celsius")
    >>> by_humidity.attributes
    ('celsius',)
    """

    repository: Any

    def __post_init__(self) -> None:
        check_repository(self.repository)
        given = {"attributes": self.attributes, "key": self.key, "order": self.order}
        replace_columns(given, plain_name)
        for name, value in given.items():
            object.__setattr__(self, name, value)
        super().__post_init__()

    @cached_property
    def imputer(self) -> AnyRepository:
        """Return the imputers over the repository, for tables in memory; they are built once."""
        imputer = self.settings.make(self.rows_of(repository_frame(self.repository)))
        warn_of_few_rows(imputer.shared)
        return imputer

    def prepare(self, spark: SparkSession) -> PreparedRepository:
        """Read the whole repository into this process and prepare it for Spark DataFrames.

        The repository is prepared once per object, and again if the data at its path has changed.
        Cost: its rows in memory, and O(D N log N) time for N rows and D columns.

        Raises
        ------
        ValueError, TypeError
            For a repository without the required columns.
        """
        from sfumato.spark.model.repository import prepare_repository

        frame = partial(repository_frame, self.repository, spark)
        found = prepare_repository(self, frame, self.__dict__.get("_prepared"))
        self.__dict__["_prepared"] = found
        return found

    def prepared(self, frame: Frame) -> bytes:
        if in_memory(frame):
            return self.imputer.to_bytes()
        spark: Any = frame
        return self.prepare(spark.df.sparkSession).data

    def check(self, frame: Frame) -> None:
        """Raise ValueError or TypeError unless a frame fits the arguments and the repository."""
        super().check(frame)
        session = None if in_memory(frame) else cast("Any", frame).df.sparkSession
        past = repository_frame(self.repository, session)
        if self.order is None:
            require_same_kinds(frame, past, self.settings.names)
            return
        asked = [self.order]
        names = frame.resolve("order", asked)[0], past.resolve("repository", asked)[0]
        if (frame.kind(names[0]) in NUMBER_KINDS) != (past.kind(names[1]) in NUMBER_KINDS):
            raise TypeError(
                "`order` must have the same unit in the frame and in the repository, because ages "
                f"are compared; `{names[0]}` is {frame.type_name(names[0])} in the frame and "
                f"{past.type_name(names[1])} in the repository: cast one of the two"
            )

    def rows_of(self, frame: Frame) -> pa.Table:
        """Return a repository's required columns: numbers as doubles, key and order unchanged."""
        names, key = self.settings.names, self.settings.key
        if self.order is None:
            require_numbers_or_texts(frame, "repository", names)
        else:
            frame.require_numbers("repository", names)
        require_keys(frame, "repository", key)
        if self.order is not None:
            key = (*key, *frame.resolve("repository", self.order))
        return engine_module(frame).rows_of(frame, names, key)


def check_repository(repository: Any) -> None:
    """Raise TypeError or ValueError unless the object can be read as a repository."""
    if isinstance(repository, str | Path):
        if not str(repository).strip():
            raise ValueError("`repository` must be a path or a table's name; got an empty string")
        return
    if is_of_spark(repository):
        from sfumato.spark.model.repository import require_static

        require_static(repository)
    elif not hasattr(repository, "__arrow_c_stream__"):
        raise TypeError(
            "`repository` must be a static DataFrame, a pandas, Polars or Arrow table, a Parquet "
            f"path or a table's name; got {type(repository).__module__.split('.')[0]}."
            f"{type(repository).__name__}"
        )


def active_session() -> SparkSession | None:
    """Return the active Spark session of this process, or None."""
    if "pyspark.sql" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()


def repository_frame(repository: Any, spark: SparkSession | None = None) -> Frame:
    """Return the frame of a repository. spark : session to read a path; None: read into memory"""
    check_repository(repository)
    if not isinstance(repository, str | Path):
        return frame_of(repository, "repository")
    if spark is None:
        return read_parquet(repository)
    from sfumato.spark.model.frame import SparkFrame
    from sfumato.spark.model.repository import read

    return SparkFrame(read(repository, spark))


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
        See `sf.Imputation`.
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
    One row per input row: all columns of `df` unchanged, `alternatives` over `attributes`, and
    `imputed_by`: the dependencies used, NULL for a complete row. A row that cannot be imputed has
    no alternatives, and the reason in `imputed_by`. If `df` has a column `existence`, the
    probabilities are multiplied by it; a row whose existence is not a number in (0, 1] has no
    alternatives. With `gap_values`, a column ``gap_ATTR`` per attribute.

    Raises
    ------
    ValueError, TypeError
        For values out of range, and for columns that are missing or have the wrong type.

    Notes
    -----
    The whole repository is read into memory during the call. Without `order`, the function has no
    state, needs no shuffle and accepts rows in any order. With `order`, it shuffles by key and
    keeps 4 numbers per attribute and key. Cost: microseconds per row, more with many donors.
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
    found = engine_module(frame).impute(frame, imputation.settings, imputer, name)
    remember_answers(found)
    return found


@public_function('sf.earlier_values(df, ["celsius"], order="ts", key="sensor")', "df")
def earlier_values(
    df: Any,
    attributes: ColumnNames,
    *,
    order: ColumnName,
    key: ColumnNames | None = None,
    forget_after: str | timedelta | float | None = None,
    name: str | None = None,
) -> Any:
    """Add to each row its key's latest known values, as determinants for imputation.

    Parameters
    ----------
    df
        A Spark DataFrame, or a table in memory with the whole stream. The result has the same type.
    attributes
        Numeric column(s), by name or as Column objects (see `reorder`). NULL, NaN and infinite
        values are missing.
    order
        Column that orders the rows, a timestamp or a number. On streams it must not decrease from
        one micro-batch to the next (``sf.reorder`` ensures this).
    key
        Column(s) that identify a sensor, device or stream.
    forget_after
        Time to live of a key, "1 day" (a number in the unit of `order` if `order` is a number),
        after which it starts without known values.
    name
        Name of the metrics, instead of the number N in ``sfumato_earlier_values_N``.

    Returns
    -------
    One row per input row: all columns of `df`, and for each attribute `earlier_ATTR`, its newest
    known value in earlier rows, and `age_ATTR`, the age of that value: in seconds if `order` is a
    timestamp, otherwise in the unit of `order`. Both are NULL before the first known value.

    Raises
    ------
    ValueError, TypeError
        For values out of range, and for columns that are missing or have the wrong type.

    Notes
    -----
    More: page reference/functions/earlier_values of the documentation.
    Cost: one shuffle by key. State: 2 numbers per attribute and key.

    Examples
    --------
    >>> known = sf.earlier_values(readings, "celsius", order="arrival", key="sensor")
    >>> [(row.id, row.earlier_celsius) for row in known.orderBy("id").collect()]
    [(1, None), (2, None), (3, 20.0), (4, 23.0)]
    """
    return run(earlier_values_job(frame_of(df), attributes, order, key, forget_after, name))


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
        A static frame or table, a Parquet path or a table's name, as for `sf.Imputation`.
    attributes
        Columns to examine as determinants and dependents; None for all numeric columns.
    dependents
        Dependents of the dependencies to find; None for all of these columns.
    within
        Maximum epsilon of a dependent, in units of the scaled attribute.
    confidence
        Minimum share, in (0, 1], of the pairs of rows close on the determinants that are also close
        on the dependent.
    epsilons
        Candidates for the epsilons of the determinants, in units of the scaled attributes.
    max_determinants
        Maximum number of determinants of a dependency.
    least_donors
        Minimum number of donors that a row is expected to have in the whole repository.
    scaling
        As for `sf.Imputation`: {name: (shift, span)}.
    sample
        Number of collected rows that are compared in pairs.
    max_rows, seed
        Maximum number of complete rows to collect. The rows are chosen by a hash of their values
        and `seed`, so every call chooses the same rows.
    order, key
        The order of a stream and its key, as for `sf.impute`. The repository is then the past of
        the stream, with gaps, and the dependencies are on earlier values and changes. `sample` is
        the number of rows imputed to compare dependencies. `within`, `confidence`, `epsilons`,
        `least_donors` and `scaling` cannot be given.

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
    found = engine_module(frame).complete_rows(frame, asked, max_rows, seed)
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
        calls=calls_from_user(),
        **search,
        **thresholds,
    )
