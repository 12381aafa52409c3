"""A repository made ready for imputing: its trees, values and dependencies, and room to work in."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sfumato.kernels.compile import compiled_ieee, lean_inline
from sfumato.kernels.imputation.donor_tree import BoxSearch, DonorTree, new_search


class Choice(NamedTuple):
    """How dependencies are chosen.

    least_donors : int >= 1, fewer do not count    marginal : bool, where none has donors the
        attribute's distribution in the repository is taken
    most_donors : int, so many of the nearest lend; 0: the plain way, all lend
    """

    least_donors: int
    marginal: bool
    most_donors: int


class Repository(NamedTuple):
    """N complete rows of D attributes, prepared for the imputation of T of them; one tree each.

    columns, rows, low, high : [T, ...], begin, end : of all trees, see `DonorTree`; scaled
    codes : int64[T, P], rank of the tree's attribute among its distinct values, by place
    row_codes : int64[T, N], the same by row
    code_low, code_high : int64[T, nodes], least and greatest rank in a node
    values, counts : float64[V], int64[V], distinct values of the T attributes, ascending each, and
        how many rows have them; those of tree t from first_value[t], int64[T + 1]
    first_dependency : int64[T + 1], dependencies of tree t, the tightest first; number d asks
        attributes box_attribute[box_begin[d] : box_begin[d + 1]] to be within box_reach[...]
    first_combination : int64[T + 1], of the plain way, combinations of tree t in order of choice;
        number c is the set combination[c] of its dependencies
    column_of : int64[T], the attribute that each tree is for
    shift, span : float64[D], scaled = (value - shift) / span
    choice : `Choice`    curve : float64[T, q + 1], see `calibration`
    sharpness : float64[T], even : bool[T], see `nearest_donors`
    narrowing : int64[T], so many dependencies narrow together; each further one only stands in
    """

    columns: np.ndarray
    rows: np.ndarray
    low: np.ndarray
    high: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    codes: np.ndarray
    row_codes: np.ndarray
    code_low: np.ndarray
    code_high: np.ndarray
    values: np.ndarray
    counts: np.ndarray
    first_value: np.ndarray
    first_dependency: np.ndarray
    first_combination: np.ndarray
    combination: np.ndarray
    box_begin: np.ndarray
    box_attribute: np.ndarray
    box_reach: np.ndarray
    column_of: np.ndarray
    shift: np.ndarray
    span: np.ndarray
    choice: Choice
    curve: np.ndarray
    sharpness: np.ndarray
    even: np.ndarray
    narrowing: np.ndarray


class Scratch(NamedTuple):
    """Room to work in, for one object at a time; see `new_scratch`.

    scaled : float64[D], the object    search : the box asked about, and what was found in it
    law, weight : float64[T, P], of each attribute the values, ascending, and how many donors have
        each; sizes of them, totals donors: int64[T], float64[T]
    spread : float64[T], how far the donors' values lie apart
    distance, share, moved, line : of the nearest donors, see `nearest_donors`, `local_line`
    """

    scaled: np.ndarray
    search: BoxSearch
    places: np.ndarray
    ranks: np.ndarray
    tally: np.ndarray
    law: np.ndarray
    weight: np.ndarray
    sizes: np.ndarray
    totals: np.ndarray
    spread: np.ndarray
    limits: np.ndarray
    none: np.ndarray
    distance: np.ndarray
    share: np.ndarray
    moved: np.ndarray
    line: np.ndarray


@compiled_ieee
def new_scratch(repository):
    """Room for `judge` and `impute_object`."""
    trees, d, places = repository.columns.shape
    longest = 0
    for t in range(trees):
        longest = max(longest, repository.first_value[t + 1] - repository.first_value[t])
    return Scratch(
        scaled=np.empty(d),
        search=new_search(repository.begin.size, d),
        places=np.empty(places + 1, np.int64),
        ranks=np.empty(places + 1, np.int64),
        tally=np.zeros(longest, np.int64),
        law=np.empty((trees, places)),
        weight=np.empty((trees, places)),
        sizes=np.empty(trees, np.int64),
        totals=np.empty(trees),
        spread=np.empty(trees),
        limits=np.empty(trees, np.int64),
        none=np.empty(0, np.int64),
        distance=np.empty(places + 1),
        share=np.empty(places + 1),
        moved=np.empty(places + 1),
        line=np.empty((d + 2, d + 2)),
    )


@lean_inline
def tree_of(repository, t):
    """The tree for attribute t."""
    return DonorTree(
        repository.columns[t],
        repository.rows[t],
        repository.low[t],
        repository.high[t],
        repository.begin,
        repository.end,
    )


@lean_inline
def scale(repository, raw, scaled):
    """Write the scaled attributes of an object; what is missing or infinite is NaN."""
    for a in range(raw.size):
        value = (raw[a] - repository.shift[a]) / repository.span[a]
        scaled[a] = np.nan if np.isinf(value) else value
