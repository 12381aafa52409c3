"""Box queries over the rows of a repository: who could lend a value."""

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
