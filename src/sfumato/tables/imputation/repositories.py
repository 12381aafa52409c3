"""The repository of an imputation over Arrow tables: its settings and its imputers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.operators.arrays import Bools, Floats, Ints
from sfumato.operators.imputation.dependency import Dependency
from sfumato.operators.imputation.imputer import Imputer
from sfumato.operators.imputation.repository_columns import sample_rows
from sfumato.operators.imputation.stream_imputer import (
    change_dependencies,
    change_names,
    change_scaling,
    level_dependencies,
    past_changes,
)
from sfumato.operators.state.snapshot import SavedState, pack, unpack
from sfumato.tables.arrow import (
    SECOND_US,
    as_array,
    as_numbers,
    has_all_values,
    has_no_null,
    numbers_of,
)
from sfumato.tables.keys import group_rows
from sfumato.tables.reading.types import floats_of, is_text
from sfumato.tables.reading.user_warnings import warn_user

REPOSITORY_KIND, STREAM_KIND = "imputers of a repository", "imputers of a stream"
REPOSITORIES_VERSION = 1
MIN_ROWS_FOR_90 = 19  # with fewer rows, a new value is outside their range with probability > 10%
MAX_PAST_ROWS = 10_000  # rows of a stream's past per imputer, sampled if there are more
# Settings that are not arguments of `Imputer`
TABLE_ONLY_SETTINGS = ("key", "least_rows", "order", "most_rows")
Owners = Ints  # numbers of keys with a separate imputer, -1 for other keys


class FewRowsWarning(UserWarning):
    """A warning that a repository has too few complete rows for a 90% probability range."""


@dataclass(frozen=True)
class ImputationSettings:
    """The arguments of an `Imputer` without the repository, as plain values for workers.

    names : columns read from the repository and the objects: attributes and determinants
    key : key columns; a key with at least `least_rows` complete rows has a separate imputer
    order : the order column of a stream, which is imputed by changes; "" to impute by values
    most_rows : maximum number of rows of an imputer; if there are more, they are sampled
    """

    names: tuple[str, ...]
    attributes: tuple[str, ...]
    dependencies: tuple[Dependency, ...]
    joint: bool
    max_alternatives: int | None
    fallback: str
    scaling: tuple[tuple[str, float, float], ...]
    method: str
    least_donors: int | None
    key: tuple[str, ...] = ()
    least_rows: int = 0
    order: str = ""
    most_rows: int | None = None

    def make(self, repository: pa.Table) -> Any:
        """Return the `RepositoryImputer` of a repository or, with an order, `StreamRepository`."""
        if self.order:
            return StreamRepository.of(self, repository)
        categories = {}
        for name in self.names:
            column = repository.column(name)
            if is_text(column.type):
                categories[name] = sorted(pc.unique(column).drop_null().to_pylist())
                codes = pa.array(codes_of(column, categories[name]), from_pandas=True)
                place = repository.column_names.index(name)
                repository = repository.set_column(place, name, codes)
        for name in (name for name, *_ in self.scaling if name in categories):
            raise ValueError(f"`scaling` names `{name}`, which is text: remove it from `scaling`")
        shared = self._imputer(
            repository, {name: pair for name, *pair in self.scaling}, tuple(categories)
        )
        if not self.key:
            return RepositoryImputer(shared, {}, categories)
        rows = numbers_of(repository, self.names)
        complete = repository.filter(pa.array(np.isfinite(rows).all(axis=1)))
        code, first = group_rows(complete.select(self.key))
        known = key_texts(complete.select(self.key).take(pa.array(first)))
        counts = np.bincount(code, minlength=len(known))
        own = {}
        for key, number in sorted((t, i) for i, t in enumerate(known) if t is not None):
            if counts[number] >= self.least_rows:
                part = complete.filter(pa.array(code == number))
                own[key] = self._imputer(part, shared.scaling, tuple(categories))
        return RepositoryImputer(shared, own, categories)

    def _imputer(
        self, repository: pa.Table, scaling: Mapping[str, Any], categories: tuple[str, ...]
    ) -> Imputer:
        rows = complete_matrix(repository, self.names)
        if not len(rows):
            raise ValueError(
                "`repository` must have at least one row with finite numbers in all of "
                f"{', '.join(self.names)}; found no such row among {repository.num_rows}"
            )
        if self.most_rows is not None:  # rows are sorted, so their original order has no effect
            rows = sample_rows(rows, self.most_rows, np.random.default_rng(0))
        given = {name: of for name, of in vars(self).items() if name not in TABLE_ONLY_SETTINGS}
        return Imputer(rows, **given | {"scaling": scaling, "categories": categories})


def codes_of(column: pa.ChunkedArray | pa.Array, texts: Sequence[str]) -> Floats:
    """Return float64[n]: the position of each string in `texts`; NaN for NULL and other strings."""
    known = pa.array(texts, pa.string())
    return floats_of(pc.index_in(as_array(column).cast(pa.string()), known).cast(pa.float64()))


def key_texts(keys: pa.Table) -> list[str | None]:
    """Return the key of each row as text, or None if a part of it is NULL."""
    rows = zip(*(column.to_pylist() for column in keys.columns), strict=True)
    return [None if None in row else json.dumps([str(part) for part in row]) for row in rows]


@dataclass(frozen=True, eq=False)
class RepositoryImputer:
    """The imputers of a repository.

    shared : imputer over all rows    own : imputers over the rows of one key, see `key_texts`
    categories : the strings of each text column, in code order
    """

    shared: Imputer
    own: dict[str, Imputer] = field(default_factory=dict)
    categories: dict[str, list[str]] = field(default_factory=dict)

    @cached_property
    def _numbers(self) -> dict[str | None, int]:
        return {key: number for number, key in enumerate(self.own)}

    @cached_property
    def imputers(self) -> list[Imputer]:
        """The imputers in the order of the numbers of `owners`; the last imputer (-1) is shared."""
        return [*self.own.values(), self.shared]

    def owners(self, keys: pa.Table) -> Owners:
        """Return int64[n]: the number of each row's own imputer, or -1 for the shared imputer."""
        if not self.own or not keys.num_rows:
            return np.full(keys.num_rows, -1)
        code, first = group_rows(keys)
        texts = key_texts(keys.take(pa.array(first)))
        return np.array([self._numbers.get(text, -1) for text in texts], np.int64)[code]

    def values_of(
        self, columns: Sequence[pa.ChunkedArray | pa.Array]
    ) -> tuple[Floats, dict[str, list[str]]]:
        """Return the columns of objects as float64[n, D], and the strings that codes represent.

        NaN is a missing value. Strings of an attribute that are not in the repository have the next
        codes. In a column that is only a determinant, a string with fewer than `least_donors` rows
        in the repository is treated as missing.
        """
        found, texts = [], dict(self.categories)
        for name, column in zip(self.shared.names, columns, strict=True):
            if name not in texts:
                found.append(floats_of(as_array(column).cast(pa.float64(), safe=False)))
            elif name in self.shared.attributes:
                new = set(pc.unique(as_array(column).drop_null()).to_pylist())
                texts[name] = [*texts[name], *sorted(new.difference(texts[name]))]
                found.append(codes_of(column, texts[name]))
            else:
                rows = np.bincount(self.shared.column(name).astype(np.int64))
                codes = codes_of(column, texts[name])
                enough = np.append(rows >= self.shared.least_donors, False)
                place = np.nan_to_num(codes, nan=-1).astype(np.int64)
                found.append(np.where(enough[place], codes, np.nan))
        return np.ascontiguousarray(np.stack(found, axis=1)), texts

    def to_bytes(self) -> bytes:
        parts = [np.frombuffer(imputer.to_bytes(), np.uint8) for imputer in self.imputers]
        arrays = {str(i): part for i, part in enumerate(parts)}
        values = {"keys": [*self.own], "categories": self.categories}
        return pack(REPOSITORY_KIND, REPOSITORIES_VERSION, SavedState(values, arrays))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        saved = unpack(data, REPOSITORY_KIND, REPOSITORIES_VERSION)
        *own, shared = [Imputer.from_bytes(part.tobytes()) for part in saved.arrays.values()]
        by_key = dict(zip(saved.values["keys"], own, strict=True))
        return cls(shared, by_key, saved.values["categories"])


def complete_matrix(table: pa.Table, names: Sequence[str]) -> Floats:
    """Return the sorted rows with finite numbers everywhere, float64[n, D]. Cost: O(D N log N)."""
    matrix = numbers_of(table, names)
    matrix = matrix[np.isfinite(matrix).all(axis=1)]
    return matrix[np.lexsort(matrix.T[::-1])] + 0.0  # -0.0, which sorts like 0.0, becomes 0.0


@dataclass(frozen=True, eq=False)
class StreamRepository:
    """The imputers of a stream's past: one for changes since the last value, one for values."""

    changes: RepositoryImputer
    levels: RepositoryImputer

    @property
    def shared(self) -> Imputer:
        return self.changes.shared

    @classmethod
    def of(cls, settings: ImputationSettings, past: pa.Table) -> StreamRepository:
        """Return the imputers of a stream's past, whose rows may have gaps and be in any order."""
        names, key = settings.attributes, settings.key
        past, rows, is_complete = changes_of(settings, past)
        settings = replace(settings, order="", most_rows=MAX_PAST_ROWS)
        if not len(rows):
            raise ValueError(
                f"`repository` must have a row with finite numbers in all of {', '.join(names)} "
                "whose key has earlier values of all of them; found no such row among "
                f"{past.num_rows}"
            )
        columns = change_names(names)
        scaling = change_scaling(rows, columns)
        dependencies = settings.dependencies or tuple(change_dependencies(rows, names))
        used = {*names, *(name for each in dependencies for name in each.names)}
        pairs = zip(columns, rows.T, strict=True)
        found = pa.table({name: column for name, column in pairs if name in used})
        columns = tuple(found.column_names)
        for name in key:
            found = found.append_column(name, past.column(name).filter(pa.array(is_complete)))
        changes = replace(
            settings,
            names=columns,
            dependencies=dependencies,
            scaling=tuple((name, *scaling[name]) for name in columns),
        )
        levels = replace(settings, names=names, dependencies=tuple(level_dependencies(names)))
        return cls(changes.make(found), levels.make(past))

    def to_bytes(self) -> bytes:
        parts = {"changes": self.changes.to_bytes(), "levels": self.levels.to_bytes()}
        arrays = {name: np.frombuffer(part, np.uint8) for name, part in parts.items()}
        return pack(STREAM_KIND, REPOSITORIES_VERSION, SavedState({}, arrays))

    @classmethod
    def from_bytes(cls, data: bytes) -> StreamRepository:
        saved = unpack(data, STREAM_KIND, REPOSITORIES_VERSION).arrays
        parts = (saved[name].tobytes() for name in ("changes", "levels"))
        return cls(*map(RepositoryImputer.from_bytes, parts))


def changes_of(settings: ImputationSettings, past: pa.Table) -> tuple[pa.Table, Floats, Bools]:
    """Return the past rows that have order and key, sorted by order, and their `past_changes`."""
    key, order = settings.key, settings.order
    past = past.filter(pa.array(has_all_values(past, [order]) & has_no_null(past, key)))
    values, time = numbers_of(past, settings.attributes), seconds_of(past.column(order))
    by = np.lexsort((*values.T[::-1], time))
    past, values, time = past.take(pa.array(by)), values[by], time[by]
    code = group_rows(past.select(key))[0] if key else np.zeros(len(time), np.int64)
    return past, *past_changes(code, time, values)


def seconds_of(order: pa.ChunkedArray) -> Floats:
    """Return float64[n]: times in seconds, other numbers unchanged."""
    numbers = as_numbers(order)
    timed = pa.types.is_timestamp(order.type)
    return numbers / SECOND_US if timed else numbers.astype(np.float64)


def has_few_rows(imputer: Imputer) -> bool:
    """Return whether calibrated 90% ranges must be extrapolated, because there are too few rows."""
    return imputer.method == "calibrated" and imputer.rows < MIN_ROWS_FOR_90


def warn_of_few_rows(imputer: Imputer) -> None:
    if not has_few_rows(imputer):
        return
    shown = f"{(imputer.rows - 1) / (imputer.rows + 1):.0%}"
    meaning = f"these rows support ranges of at most {shown}, and wider ranges are extrapolated"
    if imputer.rows == 1:
        meaning = "one row does not show how values vary, and is the only alternative"
    warn_user(
        f"`repository` has {imputer.rows} complete row{'s' * (imputer.rows > 1)}, but a "
        f"calibrated 90% range needs at least {MIN_ROWS_FOR_90}: {meaning}",
        FewRowsWarning,
    )


AnyRepository = RepositoryImputer | StreamRepository


@lru_cache(maxsize=4)
def cached_imputer(data: bytes, kind: type[AnyRepository]) -> Any:
    return kind.from_bytes(data)
