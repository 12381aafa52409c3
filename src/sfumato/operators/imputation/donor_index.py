"""The columns of a repository, and an index of its donors."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.kernels.imputation.donor_tree import build_tree, query_tree, tree_order
from sfumato.operators.arrays import Floats, Ints

MOST_ATTRIBUTES = 62  # a bit each in a mask


class DonorIndex:
    """Rows within given distances of an object on every attribute, edges included.

    points : float64[N, D], finite; D <= 62
    usual : float64[D] or None, distances that queries will usually ask for; the tree is cut to
        suit them. They change the cost, never an answer

    A row s is in the box of centre o iff |s[a] - o[a]| <= reach[a] in float64 for all a: exactly,
    not to within rounding.

    Cost: O(N log N) to build; a query visits the leaves of 64 rows that the box's edge crosses,
    and never costs more than a scan of all rows and one test for each two leaves.
    Raises ValueError for arrays of another shape or with values that are not finite.
    Source: E, section 5.1 (imputation index), as an implicit k-d tree and not an R-tree.

    >>> offsets, rows = DonorIndex(np.array([[0.0], [1.0], [2.0]])).query([[0.5]], 0.5)
    >>> rows.tolist()
    [0, 1]
    """

    def __init__(self, points: npt.ArrayLike, usual: npt.ArrayLike | None = None) -> None:
        rows = finite("points", points)
        d = rows.shape[1]
        if not 1 <= d <= MOST_ATTRIBUTES:
            raise ValueError(f"`points` must have 1 to {MOST_ATTRIBUTES} attributes; got {d}")
        weight = np.ones(d)
        if usual is not None:
            wide = np.broadcast_to(np.asarray(usual, np.float64), (d,))
            weight = 1.0 / np.maximum(wide, 1e-6)  # 0 where a distance is infinite: never cut
        self.size, self.dimensions = rows.shape
        self.tree = build_tree(rows, tree_order(rows, weight))

    def query(self, centres: npt.ArrayLike, reach: npt.ArrayLike) -> tuple[Ints, Ints]:
        """Rows in each box: (offsets int64[n + 1], rows int64[m]), in the index's own order.

        centres : float64[n, D]    reach : float64, [D] or [n, D], >= 0; inf asks nothing, and the
        centre may then be NaN. A NaN that is asked about is in nothing's reach.
        """
        return self._search(centres, reach, False)

    def count(self, centres: npt.ArrayLike, reach: npt.ArrayLike) -> Ints:
        """Number of rows in each box: int64[n]."""
        return np.diff(self._search(centres, reach, True)[0])

    def _search(self, centres: Any, reach: Any, counting: bool) -> tuple[Ints, Ints]:
        middle = np.require(centres, np.float64, ["C", "W"])
        if middle.ndim != 2 or middle.shape[1] != self.dimensions:
            raise ValueError(
                f"`centres` must have shape (n, {self.dimensions}); got {middle.shape}"
            )
        wide = np.array(np.broadcast_to(np.asarray(reach, np.float64), middle.shape), order="C")
        if not (wide >= 0.0).all():
            raise ValueError("`reach` must be at least 0 everywhere (inf asks nothing)")
        blind = np.isnan(middle) & (wide < np.inf)
        if blind.any():  # near to nothing: a box that no row can be in, and no NaN for the nodes
            middle = np.where(blind, np.inf, middle)
        offsets, rows = query_tree(self.tree, middle, wide, counting)
        return offsets, rows


def finite(name: str, values: npt.ArrayLike) -> Floats:
    """A float64 matrix [n, d] of finite values, contiguous; ValueError names what it is not."""
    matrix = np.require(values, np.float64, ["C", "W"])
    if matrix.ndim != 2 or not len(matrix):
        raise ValueError(
            f"`{name}` must have shape (rows, attributes), with rows; got {matrix.shape}"
        )
    bad = np.argwhere(~np.isfinite(matrix))
    if len(bad):
        row, column = bad[0].tolist()
        raise ValueError(
            f"`{name}` must be finite: row {row}, attribute {column} is {matrix[row, column]}; "
            "a repository has complete rows only"
        )
    return matrix


def columns_of(
    repository: Mapping[str, npt.ArrayLike] | npt.ArrayLike, names: Sequence[str] | None
) -> tuple[tuple[str, ...], Floats]:
    """Names and rows float64[N, D] of a repository given either way. Raises ValueError."""
    if isinstance(repository, Mapping):
        if names is None:
            names = list(repository)
        lacking = [name for name in names if name not in repository]
        if lacking or not names:
            raise ValueError(f"`repository` must have the columns {list(names)}; {lacking} lack")
        columns = [np.asarray(repository[name], np.float64) for name in names]
        if len({column.shape for column in columns}) > 1 or columns[0].ndim != 1:
            shapes = [column.shape for column in columns]
            raise ValueError(f"`repository` must have columns of one length; got {shapes}")
        repository = np.column_stack(columns)
    elif names is None:
        raise ValueError("`names` must name the columns of a `repository` given as a matrix")
    rows = finite("repository", repository)
    if len(names) != rows.shape[1] or len(set(names)) < len(names):
        raise ValueError(
            f"`names` must be {rows.shape[1]} different names, one a column; got {list(names)}"
        )
    if len(names) > MOST_ATTRIBUTES:
        raise ValueError(f"`repository` must have at most {MOST_ATTRIBUTES} columns")
    return tuple(names), rows


def matrix_of(values: Mapping[str, npt.ArrayLike] | npt.ArrayLike, names: Sequence[str]) -> Floats:
    """Values of these columns as float64[n, D], C-contiguous. Raises ValueError."""
    if isinstance(values, Mapping):
        missing = [name for name in names if name not in values]
        if missing:
            raise ValueError(f"`values` must have all of {list(names)}; {missing} lack")
        values = np.column_stack([np.asarray(values[n], np.float64) for n in names])
    matrix = np.require(values, np.float64, ["C", "W"])
    if matrix.ndim != 2 or matrix.shape[1] != len(names):
        raise ValueError(
            f"`values` must have shape (n, {len(names)}), a column for each of "
            f"{', '.join(names)}; got {matrix.shape}"
        )
    return matrix


def checked_attributes(chosen: Sequence[str] | str | None, names: Sequence[str]) -> tuple[str, ...]:
    """Names of the columns to impute: those chosen, None: all. Raises ValueError."""
    if chosen is None:
        return tuple(names)
    if isinstance(chosen, str):
        chosen = [chosen]
    unknown = [name for name in chosen if name not in names]
    if unknown or not len(chosen) or len(set(chosen)) < len(chosen):
        raise ValueError(
            f"`attributes` must be different names of the repository's columns "
            f"{list(names)}; got {list(chosen)}"
        )
    return tuple(chosen)


def scaling_of(
    rows: Floats, names: Sequence[str], given: Mapping[str, tuple[float, float]]
) -> tuple[Floats, Floats]:
    """(shift, span), float64[D] each: those given by name, of others minimum and extent."""
    unknown = [name for name in given if name not in names]
    if unknown:
        raise ValueError(f"`scaling` names {unknown}, which the repository lacks")
    shift, span = rows.min(axis=0), rows.max(axis=0) * 0.5 - rows.min(axis=0) * 0.5
    span = 2.0 * np.minimum(span, np.finfo(np.float64).max / 4)
    span[span == 0.0] = 1.0
    for a, name in enumerate(names):
        if name in given:
            shift[a], span[a] = given[name]
        if not (np.isfinite(shift[a]) and np.isfinite(span[a]) and span[a] > 0.0):
            raise ValueError(
                f"`scaling` of `{name}` must be a finite shift and a finite span above 0; "
                f"got ({shift[a]}, {span[a]})"
            )
    return shift, span
