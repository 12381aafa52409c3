"""An imputation's repository, prepared for workers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from sfumato.spark.model.declared_frame import maybe_in_thread
from sfumato.tables.imputation.repositories import (
    ImputationSettings,
    RepositoryImputer,
    cached_imputer,
    warn_of_few_rows,
)
from sfumato.tables.reading.frame import Frame

_WITHOUT_DATA: ContextVar[bool] = ContextVar("without_data", default=False)


@contextmanager
def without_data() -> Iterator[None]:
    """Plan imputations in this context from the repositories' columns alone, without data."""
    token = _WITHOUT_DATA.set(True)
    try:
        yield
    finally:
        _WITHOUT_DATA.reset(token)


def prepare_repository(
    imputation: Any, frame: Callable[[], Frame], known: PreparedRepository | None
) -> PreparedRepository:
    """Prepare the repository of an `sf.Imputation`, unless `known` is still up to date."""
    settings = imputation.settings
    if _WITHOUT_DATA.get():
        past = frame()
        named = zip(settings.names, past.resolve("repository", list(settings.names)), strict=True)
        texts = {name for name, of in named if past.kind(of) == "text"}
        two_rows = pa.table(
            {name: ["", ""] if name in texts else [0.0, 1.0] for name in settings.names}
            | ({settings.order: [0.0, 1.0]} if settings.order else {})
            | {name: [0.0, 0.0] for name in settings.key}
        )
        return PreparedRepository(settings, settings.make(two_rows).to_bytes(), None, None)
    path = path_of(imputation.repository)
    version = None if path is None else version_of(path)  # before reading: a repeated read is safe
    if known is None or known.version != version:
        imputer = settings.make(imputation.rows_of(frame()))
        warn_of_few_rows(imputer.shared)
        known = PreparedRepository(settings, imputer.to_bytes(), path, version)
    return known


@dataclass(frozen=True)
class PreparedRepository:
    """A prepared repository, as sent to workers.

    path, version : the repository's path, if it has one, and the version that was read
    """

    settings: ImputationSettings
    data: bytes
    path: str | None
    version: str | None

    def imputer(self) -> RepositoryImputer:
        """Return the imputer of the prepared data, created once per process."""
        return cached_imputer(self.data, RepositoryImputer)

    def newest(self) -> RepositoryImputer:
        """Return the imputer of the path's current data, or of older data if no file is visible."""
        version = None if self.path is None else version_of(self.path)
        held = _NEWEST.get((self.path, self.settings))
        if version is None and held is not None:
            return held[1]
        if version in (None, self.version):
            return self.imputer()
        if held is None or held[0] != version:
            from pyarrow import dataset

            wanted = [*self.settings.names, *self.settings.key]
            rows = dataset.dataset(self.path, format="parquet").to_table(wanted)
            held = version, self.settings.make(rows)
            _NEWEST.clear()
            _NEWEST[self.path, self.settings] = held
        return held[1]


_NEWEST: dict[tuple[str | None, ImputationSettings], tuple[str | None, RepositoryImputer]] = {}


def require_static(repository: Any) -> None:
    if maybe_in_thread(repository, lambda: repository.isStreaming):
        raise ValueError("`repository` must be a static DataFrame; got a streaming DataFrame")


def path_of(repository: Any) -> str | None:
    """Return the absolute path of a Path or of a string with a slash or .parquet, or None."""
    if not isinstance(repository, str | Path):
        return None
    text = str(repository)
    if isinstance(repository, str) and not ("/" in text or text.endswith(".parquet")):
        return None
    return text if ":/" in text else os.path.abspath(text)


def read(repository: str | Path, spark: SparkSession) -> DataFrame:
    """Return the table with a name, or the data at a path, as a DataFrame."""
    path = path_of(repository)
    df = spark.table(str(repository)) if path is None else spark.read.parquet(path)
    require_static(df)
    return df


def version_of(path: str) -> str | None:
    """Return names, sizes and times of the data files at a path, or None if none is visible."""
    from pyarrow import dataset

    try:  # given a schema, no file is opened
        found = dataset.dataset(path, pa.schema([]), format="parquet")
        files = found.filesystem.get_file_info(sorted(found.files))
    except (OSError, ValueError):  # on another machine, or a file system unknown to Arrow
        return None
    return repr([(f.path, f.size, f.mtime_ns) for f in files]) if files else None
