"""The donor tree as a standalone index, to be compared with other indexes."""

from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.kernels.arrays import with_room
from sfumato.kernels.compile import compiled_ieee, lean
from sfumato.kernels.imputation.donor_tree import (
    build_tree,
    new_search,
    nodes_in_box,
    rows_in_nodes,
    tree_order,
)
from sfumato.operators.arrays import Ints
from sfumato.operators.imputation.repository_columns import MAX_MASK_BITS, finite


@lean
def most_rows(tree, count, search):
    """Return the total number of rows in the found nodes: an upper bound on the rows in the box."""
    total = 0
    for i in range(count):
        total += tree.end[search.nodes[i]] - tree.begin[search.nodes[i]]
    return total


@compiled_ieee
def query_tree(tree, centres, reaches, counting):
    """Find the rows in each of many boxes: (offsets int64[n + 1], rows int64[m]), in tree order.

    centres, reaches : float64[n, D]; a reach of inf does not restrict its attribute
    counting : bool, compute only the offsets; rows are then empty
    """
    n, d = centres.shape
    row, search = tree.rows, new_search(tree.begin.size, d)
    offsets, out = np.zeros(n + 1, np.int64), np.empty(0 if counting else 1024, np.int64)
    found = 0
    for i in range(n):
        asked = 0
        for a in range(d):
            if reaches[i, a] < np.inf:
                search.attributes[asked], search.reach[a] = a, reaches[i, a]
                asked += 1
        count = nodes_in_box(tree, asked, centres[i], search)
        if not counting:
            out = with_room(out, found + most_rows(tree, count, search) + 1)
        found = rows_in_nodes(tree, count, centres[i], search, row.size + 1, out, found)
        offsets[i + 1] = found
    for i in range(0 if counting else found):
        out[i] = row[out[i]]
    return offsets, out[: 0 if counting else found]


class DonorIndex:
    """An index of rows within given distances of an object on every attribute, edges included.

    points : float64[N, D], finite; D <= 62
    usual : float64[D] or None, typical distances of queries; the tree is cut to suit them. They
        change the cost, never an answer

    A row s is in the box of centre o iff |s[a] - o[a]| <= reach[a] in float64 for all a: exactly,
    not only up to rounding.

    Cost: O(N log N) to build. A query visits the leaves of 64 rows that the box's edge crosses, and
    never costs more than a scan of all rows and one test per two leaves.
    Raises ValueError for arrays of a different shape or with values that are not finite.
    Source: Ren et al. (2019), section 5.1 (imputation index), as an implicit k-d tree instead of an
    R-tree.

    >>> offsets, rows = DonorIndex(np.array([[0.0], [1.0], [2.0]])).query([[0.5]], 0.5)
    >>> rows.tolist()
    [0, 1]
    """

    def __init__(self, points: npt.ArrayLike, usual: npt.ArrayLike | None = None) -> None:
        rows = finite("points", points)
        d = rows.shape[1]
        if not 1 <= d <= MAX_MASK_BITS:
            raise ValueError(f"`points` must have 1 to {MAX_MASK_BITS} attributes; got {d}")
        weight = np.ones(d)
        if usual is not None:
            wide = np.broadcast_to(np.asarray(usual, np.float64), (d,))
            weight = 1.0 / np.maximum(wide, 1e-6)  # 0 where a distance is infinite
        self.size, self.dimensions = rows.shape
        self.tree = build_tree(rows, tree_order(rows, weight))

    def query(self, centres: npt.ArrayLike, reach: npt.ArrayLike) -> tuple[Ints, Ints]:
        """Find the rows in each box: (offsets int64[n + 1], rows int64[m]), in tree order.

        centres : float64[n, D]    reach : float64, [D] or [n, D], >= 0; inf does not restrict its
        attribute, whose centre may then be NaN. No row is within a finite reach of NaN.
        """
        return self._search(centres, reach, False)

    def count(self, centres: npt.ArrayLike, reach: npt.ArrayLike) -> Ints:
        """Return the number of rows in each box: int64[n]."""
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
        if blind.any():  # put their boxes where no row is; the nodes see no NaN
            middle = np.where(blind, np.inf, middle)
        offsets, rows = query_tree(self.tree, middle, wide, counting)
        return offsets, rows
