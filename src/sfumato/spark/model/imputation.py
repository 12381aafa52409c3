"""How missing attributes are imputed: the configuration, and its repository made ready."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from sfumato.calls import checks_call
from sfumato.operators.imputation.dependency import Dependency as Dependency
from sfumato.operators.imputation.imputer import Imputer
from sfumato.spark.model.declared_frame import apart
from sfumato.spark.model.frame import SparkFrame
from sfumato.spark.model.names import column
from sfumato.tables.imputation.arguments import ImputationArguments
from sfumato.tables.imputation.few_rows import warn_of_few_rows
from sfumato.tables.imputation.imputation import ImputationSettings, shared_imputer
from sfumato.tables.reading.frame import Frame

_WITHOUT_DATA: ContextVar[bool] = ContextVar("without_data", default=False)


@contextmanager
def without_data() -> Iterator[None]:
    """Plan imputations inside it from the columns of their repositories alone.

    For EXPLAIN and `sfumato check`: nothing is collected, and the frames are not for running.
    """
    token = _WITHOUT_DATA.set(True)
    try:
        yield
    finally:
        _WITHOUT_DATA.reset(token)


@checks_call('sf.Imputation("complete.parquet", "a -> b : 0.05 -> 0.1", ["b"])')
@dataclass(frozen=True, eq=False)
class Imputation(ImputationArguments):
    """Imputation of missing attributes from a complete repository: the arguments of `sf.impute`.

    repository : a static DataFrame, the path of Parquet data (a Path, or a text with a slash or
        ending in .parquet), or a table's name. It needs the attributes and all determinants, as
        numbers; rows of it that lack one of them are not used
    dependencies : `sf.Dependency` or their texts, like "humidity -> temperature : 0.05 -> 0.1";
        epsilons are of scaled attributes
    attributes : the attribute(s) to impute, which the alternatives have; the determinants may be
        other columns
    joint : take several missing attributes of an object from the same rows of the repository,
        which keeps their correlation
    max_alternatives : at most so many for one object, values merged; None: 1,024 where several
        attributes are missing ("plain": 10,000), else 10,000. Below 100 for two missing
        attributes, 1,000 for three, "calibrated" takes them from the same rows, too: independent
        ones would keep fewer than ten values each
    fallback : where no dependency has donors: "marginal", the attribute's distribution in the
        repository; "reject", the row has no alternatives, and `imputed_by` says why
    scaling : {name: (shift, span)}: scaled = (value - shift) / span; by default, and for names
        not given, minimum and extent in the repository
    method : "calibrated", the default: a value lies in a range of probability p in a share p of
        the cases; "plain": the donors of the first combination of dependencies that has any, as
        they are (see `sfumato.Imputer`)
    least_donors : fewer donors do not count; None: 20 for "calibrated", 1 for "plain"

    Raises ValueError or TypeError for what is wrong without looking at the repository.
    """

    repository: DataFrame | str | Path

    def __post_init__(self) -> None:
        check_repository(self.repository)
        super().__post_init__()

    def prepare(self, spark: SparkSession) -> PreparedRepository:
        """Read the repository, whole, into this process, and prepare it: once for this object,
        and again where something new stands at its path.

        Cost: the rows of the repository in memory, and O(D N log N) for N of them.
        Raises ValueError or TypeError for a repository that does not have what is needed.
        """
        settings = self.settings
        if _WITHOUT_DATA.get():
            SparkFrame(frame_of(self.repository, spark)).require_numbers(
                "repository", settings.names
            )
            two_rows = pa.table({name: [0.0, 1.0] for name in settings.names})
            return PreparedRepository(settings, settings.make(two_rows).to_bytes(), None, None)
        path = path_of(self.repository)
        version = None if path is None else version_of(path)  # before reading: rather read twice
        known: PreparedRepository | None = self.__dict__.get("_prepared")
        if known is None or known.version != version:
            frame = frame_of(self.repository, spark)
            imputer = settings.make(arrow_of(frame, settings.names))
            warn_of_few_rows(imputer)
            known = PreparedRepository(settings, imputer.to_bytes(), path, version)
            self.__dict__["_prepared"] = known
        return known

    def prepared(self, frame: Frame) -> bytes:
        assert isinstance(frame, SparkFrame)
        return self.prepare(frame.df.sparkSession).data


@dataclass(frozen=True)
class PreparedRepository:
    """A repository ready for use, as it goes to workers.

    path, version : where it came from, if that was a path this process can look at, and what
        stood there when it was read
    """

    settings: ImputationSettings
    data: bytes
    path: str | None
    version: str | None

    def imputer(self) -> Imputer:
        """The imputer of the data prepared: made once a process."""
        return shared_imputer(self.data)

    def newest(self) -> Imputer:
        """The imputer of what stands at the path now; of the data prepared if there is no path.

        A process reads a new version once. Where nothing can be seen at the path, the last one
        that could be is used.
        """
        if self.path is None:
            return self.imputer()
        version = version_of(self.path)
        if version == self.version:
            return self.imputer()
        held = _NEWEST.get((self.path, self.settings))
        if version is None:
            return self.imputer() if held is None else held[1]
        if held is None or held[0] != version:
            held = version, self.settings.make(read_parquet(self.path, self.settings.names))
            _NEWEST.clear()
            _NEWEST[self.path, self.settings] = held
        return held[1]


_NEWEST: dict[tuple[str, ImputationSettings], tuple[str, Imputer]] = {}


def check_repository(repository: Any) -> None:
    """Raise TypeError or ValueError unless it can be read as a repository."""
    if isinstance(repository, str | Path):
        if not str(repository).strip():
            raise ValueError("`repository` must be a path or a table's name; got an empty text")
        return
    if not all(hasattr(type(repository), name) for name in ("toArrow", "isStreaming")):
        raise TypeError(
            "`repository` must be a static DataFrame, a Parquet path or a table's name; "
            f"got {type(repository).__module__.split('.')[0]}.{type(repository).__name__}; "
            "spark.createDataFrame makes a DataFrame of a table of pandas"
        )
    if apart(repository, lambda: repository.isStreaming):
        raise ValueError("`repository` must be a static DataFrame; got a streaming one")


def path_of(repository: DataFrame | str | Path) -> str | None:
    """The path, absolute, if it is one: a Path, or a text with a slash or ending in .parquet."""
    if not isinstance(repository, str | Path):
        return None
    text = str(repository)
    if isinstance(repository, str) and not ("/" in text or text.endswith(".parquet")):
        return None
    return text if ":/" in text else os.path.abspath(text)


def frame_of(repository: DataFrame | str | Path, spark: SparkSession) -> DataFrame:
    """The repository as a DataFrame."""
    if not isinstance(repository, str | Path):
        return repository
    path = path_of(repository)
    df = spark.table(str(repository)) if path is None else spark.read.parquet(path)
    check_repository(df)
    return df


def arrow_of(df: DataFrame, wanted: Sequence[str]) -> pa.Table:
    """The wanted columns as doubles, collected. Raises for columns that lack or are no numbers."""
    SparkFrame(df).require_numbers("repository", wanted)
    return df.select(*(column(name).cast("double").alias(name) for name in wanted)).toArrow()


def version_of(path: str) -> str | None:
    """What stands at a path: names, sizes and times of its files; None if nothing can be seen."""
    files = _files(path)
    return repr([(f.path, f.size, f.mtime_ns) for f in files]) if files else None


def read_parquet(path: str, wanted: Sequence[str]) -> pa.Table:
    """The wanted columns of Parquet data, read without Spark."""
    from pyarrow import dataset, fs

    system, _ = fs.FileSystem.from_uri(path)
    files = [file.path for file in _files(path)]
    return dataset.dataset(files, format="parquet", filesystem=system).to_table(list(wanted))


def _files(path: str) -> list[Any]:
    """The data files at a path that this process can see, by name."""
    from pyarrow import fs

    try:
        system, inside = fs.FileSystem.from_uri(path)
        found = system.get_file_info([inside])
        if found[0].type == fs.FileType.Directory:
            found = system.get_file_info(fs.FileSelector(inside, recursive=True))
    except (OSError, ValueError):  # another machine's, or a file system Arrow does not know
        return []
    files = [f for f in found if f.type == fs.FileType.File and _is_data(f.path[len(inside) :])]
    return sorted(files, key=lambda f: f.path)


def _is_data(below: str) -> bool:
    """Whether Spark would read the file: no part of its path begins with `_` or a dot."""
    return not any(part.startswith(("_", ".")) for part in below.split("/"))
