"""Configuration of the imputation of missing attributes, and its prepared repository."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from sfumato.api.calls import (
    engine_module,
    frame_of,
    in_memory,
    is_of_spark,
    plain_name,
    replace_columns,
)
from sfumato.calls import checks_call
from sfumato.memory.repository import read_parquet
from sfumato.operators.imputation.dependency import Dependency as Dependency
from sfumato.tables.imputation.imputation_arguments import (
    ImputationArguments,
    require_keys,
    require_numbers_or_texts,
    require_same_kinds,
)
from sfumato.tables.imputation.repositories import AnyRepository, warn_of_few_rows
from sfumato.tables.reading.frame import NUMBER_KINDS, Frame

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
        Maximum number of alternatives per object; values are merged. None: 1,024 if several
        attributes are missing and `method` is "calibrated", otherwise 10,000. Below 100 for two
        missing attributes, or 1,000 for three, "calibrated" takes the values from the same rows.
    fallback
        If no dependency has donors: "marginal" uses the attribute's distribution in the repository;
        "reject" leaves the row without alternatives, with the reason in `imputed_by`.
    scaling
        {name: (shift, span)}: scaled = (value - shift) / span. By default, and for missing names,
        shift and span are the minimum and the extent in the repository.
    method
        "calibrated", the default: a range of probability p contains the value in a share p of the
        cases. "plain": the unchanged donors of the first combination of dependencies that has any
        (see `sfumato.engine_free.Imputer`).
    least_donors
        Minimum number of donors; fewer are ignored. None: 20 for "calibrated", 1 for "plain".
    key, least_rows
        Column(s) that identify a device or sensor, in the frame and in the repository. A row's
        donors have the same key if that key has at least `least_rows` complete rows in the
        repository. Other keys, and NULL, use the whole repository and are counted in `shared`.
        The scaling is the same for all keys. A join imputes without `key`.
    order
        The column that orders a stream, see `sfumato.impute`. It replaces scaling and method, and
        `dependencies` are on earlier values and changes, or None. A join imputes without `order`.

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
        """Return the imputers over the repository, for tables in memory; they are built once.

        Raises
        ------
        ValueError, TypeError
            For a repository without the required columns.
        """
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
        engine = engine_module(frame, "repository", "model.repository")
        return engine.rows_of(frame, names, key)


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
