"""A repository made ready for imputing: its trees, values and dependencies, and room to work in."""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.compile import compiled_ieee, lean_inline
from sfumato.kernels.imputation.donor_tree import BoxSearch, DonorTree, new_search

# How the nearest donors of an attribute lend: `sharpness`, `even`, see `donors`;
# `narrowing`: so many dependencies narrow together, each further one only stands in; `unit`, of
# distances beyond the donors, and `margin`, the farthest that a value may lie beyond the nodes met,
# and `outside`, beyond all values of the repository: see `calibration`.
LENDING = np.dtype(
    [
        ("sharpness", np.float64),
        ("even", np.bool_),
        ("narrowing", np.int64),
        ("unit", np.float64),
        ("margin", np.float64),
        ("outside", np.float64),
    ],
    align=True,
)
# What is known of an attribute's law beside its values: the sum of their weights; how far the
# donors' values lie apart; the standard deviation; whether values were moved along a line; whether
# most of them are equal to another one; between what they must stay.
ABOUT = np.dtype(
    [
        ("total", np.float64),
        ("spread", np.float64),
        ("deviation", np.float64),
        ("low", np.float64),
        ("high", np.float64),
        ("moved", np.bool_),
        ("repeated", np.bool_),
    ],
    align=True,
)
TAIL = 4  # values of a tail, and one more at its far end, see `calibration`


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
    asks : bool[T, D], the attributes that some dependency of a tree asks about
    choice : `Choice`    lending : LENDING[T]
    curve, tails : float64[T, g, q + 1], float64[T, g, 2, TAIL + 1], see `calibration`
    far : float64[T, g], the probability of each of the two values at the far ends
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
    asks: np.ndarray
    choice: Choice
    lending: np.ndarray
    curve: np.ndarray
    tails: np.ndarray
    far: np.ndarray


class ImputationScratch(NamedTuple):
    """Room to work in, for one object at a time; see `new_scratch`.

    scaled : float64[D], the object    search : the box asked about, and what was found in it
    law, weight : float64[T, P + 2 TAIL + 2], of each attribute the values, ascending, and how many
        donors have each; sizes of them, int64[T]    about : ABOUT[T]
    missing : bool[T], which of them the object's alternatives are made of
    distance, share, moved, line : of the nearest donors, see `donors`, `local_line`
    """

    scaled: np.ndarray
    search: BoxSearch
    places: np.ndarray
    ranks: np.ndarray
    tally: np.ndarray
    law: np.ndarray
    weight: np.ndarray
    sizes: np.ndarray
    about: np.ndarray
    limits: np.ndarray
    missing: np.ndarray
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
    return ImputationScratch(
        scaled=np.empty(d),
        search=new_search(repository.begin.size, d),
        places=np.empty(places + 1, np.int64),
        ranks=np.empty(places + 1, np.int64),
        tally=np.zeros(longest, np.int64),
        law=np.empty((trees, places + 2 * TAIL + 2)),
        weight=np.empty((trees, places + 2 * TAIL + 2)),
        sizes=np.empty(trees, np.int64),
        about=np.empty(trees, ABOUT),
        limits=np.empty(trees, np.int64),
        missing=np.empty(trees, np.bool_),
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
