"""Checks of the columns of a repository."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from sfumato.operators.arrays import Floats

MAX_MASK_BITS = 62  # bits of a mask over columns, or over the dependencies of one attribute


def finite(name: str, values: npt.ArrayLike) -> Floats:
    """Return a contiguous float64 matrix [n, d] of finite values, or raise ValueError."""
    matrix = np.require(values, np.float64, ["C", "W"])
    if matrix.ndim != 2 or not len(matrix):
        raise ValueError(
            f"`{name}` must have shape (rows, attributes) with at least one row; got {matrix.shape}"
        )
    bad = np.argwhere(~np.isfinite(matrix))
    if len(bad):
        row, column = bad[0].tolist()
        raise ValueError(
            f"`{name}` must have only complete rows of finite numbers; row {row}, attribute "
            f"{column} is {matrix[row, column]}"
        )
    return matrix


def columns_of(
    repository: Mapping[str, npt.ArrayLike] | npt.ArrayLike, names: Sequence[str] | None
) -> tuple[tuple[str, ...], Floats]:
    """Return names and rows float64[N, D] of a repository in either form. Raises ValueError."""
    if isinstance(repository, Mapping):
        names = list(repository) if names is None else names
        repository = _stacked("repository", repository, names)
    elif names is None:
        raise ValueError("a `repository` given as a matrix needs `names` for its columns")
    rows = finite("repository", repository)
    if len(names) != rows.shape[1] or len(set(names)) < len(names):
        raise ValueError(
            f"`names` must be {rows.shape[1]} different names, one per column; got {list(names)}"
        )
    if len(names) > MAX_MASK_BITS:
        raise ValueError(f"`repository` must have at most {MAX_MASK_BITS} columns")
    return tuple(names), rows


def _stacked(argument: str, values: Mapping[str, npt.ArrayLike], names: Sequence[str]) -> Floats:
    missing = [name for name in names if name not in values]
    if missing or not names:
        raise ValueError(f"`{argument}` must have all of {list(names)}; {missing} are missing")
    columns = [np.asarray(values[name], np.float64) for name in names]
    if len({column.shape for column in columns}) > 1 or columns[0].ndim != 1:
        shapes = [column.shape for column in columns]
        raise ValueError(f"`{argument}` must have columns of the same length; got {shapes}")
    return np.column_stack(columns)


def sample_rows(rows: Floats, most: int, rng: np.random.Generator) -> Floats:
    """Return at most `most` rows, drawn at random and kept in their order."""
    if len(rows) <= most:
        return rows
    return rows[np.sort(rng.choice(len(rows), most, replace=False))]


def matrix_of(values: Mapping[str, npt.ArrayLike] | npt.ArrayLike, names: Sequence[str]) -> Floats:
    """Return the columns `names` as float64[n, D], C-contiguous. Raises ValueError."""
    if isinstance(values, Mapping):
        values = _stacked("values", values, names)
    matrix = np.require(values, np.float64, ["C", "W"])
    if matrix.ndim != 2 or matrix.shape[1] != len(names):
        raise ValueError(
            f"`values` must have shape (n, {len(names)}), one column for each of "
            f"{', '.join(names)}; got {matrix.shape}"
        )
    return matrix


def checked_attributes(chosen: Sequence[str] | str | None, names: Sequence[str]) -> tuple[str, ...]:
    """Return the columns to impute: `chosen`, or all if None. Raises ValueError."""
    if chosen is None:
        return tuple(names)
    if isinstance(chosen, str):
        chosen = [chosen]
    unknown = [name for name in chosen if name not in names]
    if unknown or not len(chosen) or len(set(chosen)) < len(chosen):
        raise ValueError(
            "`attributes` must be one or more different columns of the repository, "
            f"{list(names)}; got {list(chosen)}"
        )
    return tuple(chosen)


def scaling_of(
    rows: Floats, names: Sequence[str], given: Mapping[str, tuple[float, float]]
) -> tuple[Floats, Floats]:
    """Return (shift, span), float64[D] each: the given values, or minimum and range."""
    unknown = [name for name in given if name not in names]
    if unknown:
        raise ValueError(f"`scaling` names {unknown}, which are not in the repository")
    shift, span = rows.min(axis=0), rows.max(axis=0) * 0.5 - rows.min(axis=0) * 0.5
    span = 2.0 * np.minimum(span, np.finfo(np.float64).max / 4)
    span[span == 0.0] = 1.0
    for a, name in enumerate(names):
        if name in given:
            shift[a], span[a] = given[name]
        if not (np.isfinite(shift[a]) and np.isfinite(span[a]) and span[a] > 0.0):
            raise ValueError(
                f"`scaling` of `{name}` must have a finite shift and a finite span above 0; got "
                f"({shift[a]}, {span[a]})"
            )
    return shift, span
