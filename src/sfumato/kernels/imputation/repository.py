"""A repository prepared for imputation: trees, values, dependencies, and working memory."""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.compile import compiled_ieee, inlined, lean_inline
from sfumato.kernels.imputation.donor_tree import BoxSearch, DonorTree, new_search

# Use of an attribute's nearest donors. `power` and `equal_scales`: see `donors`; `max_rules`: how
# many dependencies may narrow a box together (later dependencies are used only if none of these was
# chosen); `unit`: unit of distances beyond the donors; `margin` and `outside`: how far a value
# may lie beyond the found nodes, and beyond all values of the repository (see `calibration`).
WEIGHTING = np.dtype(
    {
        "names": ["power", "unit", "margin", "outside", "max_rules", "equal_scales"],
        "formats": [float, float, float, float, np.int64, bool],
    },
    align=True,
)
# Properties of an attribute's distribution: the number of values and its limit; the sum of the
# weights; the range of the donors' values; the standard deviation; the bounds of values; whether
# most values repeat.
ATTRIBUTE_INFO = np.dtype(
    {
        "names": ["size", "limit", "total", "spread", "deviation", "low", "high", "repeated"],
        "formats": [np.int64, np.int64, float, float, float, float, float, bool],
    },
    align=True,
)
TAIL = 4  # values per tail, without the value at its far end; see `calibration`


class Choice(NamedTuple):
    """Settings of the choice of dependencies.

    least_donors : int >= 1, minimum number of donors of a choice
    marginal : bool, use the attribute's distribution in the repository if there are no donors
    most_donors : int, the number of nearest donors; 0 for the plain method, with all donors
    """

    least_donors: int
    marginal: bool
    most_donors: int


class DependencySets(NamedTuple):
    """The dependencies of T attributes over D columns; a set of dependencies is a bit mask.

    first : int64[T + 1], number of attribute t's first dependency; dependency d constrains the
        scaled columns attribute[begin[d]:begin[d + 1]] to within reach[...] of the object
    first_combination : int64[T + 1], for the plain method: start of attribute t's sets in
        combination[...], in order of choice    determinants : bool[T, D], constrained columns
    """

    first: np.ndarray
    begin: np.ndarray
    attribute: np.ndarray
    reach: np.ndarray
    first_combination: np.ndarray
    combination: np.ndarray
    determinants: np.ndarray


class Repository(NamedTuple):
    """N complete rows of D attributes, prepared for the imputation of T of them.

    trees : a `DonorTree` per attribute, over the scaled attributes and, as number D, the tree's
        unscaled attribute; except for begin and end, the first dimension of arrays is T
    row_codes : int64[T, N], rank of the tree's attribute among its distinct values
    values, counts : float64[V], int64[V], distinct values per attribute, ascending, and their
        numbers of rows; values of tree t start at first_value[t], int64[T + 1]
    column_of : int64[T], the attribute of each tree
    shift, span : float64[D], scaled = (value - shift) / span    weighting : WEIGHTING[T]
    curve, tails : float64[T, g, q + 1], float64[T, g, 2, TAIL + 1], see `calibration`
    far : float64[T, g], the probability of each of the two values at the far ends
    """

    trees: DonorTree
    row_codes: np.ndarray
    values: np.ndarray
    counts: np.ndarray
    first_value: np.ndarray
    sets: DependencySets
    column_of: np.ndarray
    shift: np.ndarray
    span: np.ndarray
    choice: Choice
    weighting: np.ndarray
    curve: np.ndarray
    tails: np.ndarray
    far: np.ndarray


class ImputationScratch(NamedTuple):
    """Working memory for one object at a time.

    scaled : float64[D], the object    search : the box and its nodes
    places, distance, share, local_values : [P + 1], of donors    tally : int64[], zeros, by rank
    distribution, weight : float64[T, P + 2 TAIL + 2], ascending values per attribute, and weights
    info : ATTRIBUTE_INFO[T]    line : float64[D + 2, D + 2], see `donors`
    """

    scaled: np.ndarray
    search: BoxSearch
    places: np.ndarray
    distance: np.ndarray
    share: np.ndarray
    local_values: np.ndarray
    tally: np.ndarray
    distribution: np.ndarray
    weight: np.ndarray
    info: np.ndarray
    line: np.ndarray


@compiled_ieee
def new_scratch(repository):
    trees, attributes, places = repository.trees.columns.shape
    d = attributes - 1
    return ImputationScratch(
        np.empty(d),
        new_search(repository.trees.begin.size, d),
        np.empty(places + 1, np.int64),
        np.empty(places + 1),
        np.empty(places + 1),
        np.empty(places + 1),
        np.zeros(repository.values.size, np.int64),
        np.empty((trees, places + 2 * TAIL + 2)),
        np.empty((trees, places + 2 * TAIL + 2)),
        np.empty(trees, ATTRIBUTE_INFO),
        np.empty((d + 2, d + 2)),
    )


@inlined
def tree_of(repository, t):
    of = repository.trees
    return DonorTree(of.columns[t], of.rows[t], of.low[t], of.high[t], of.begin, of.end)


@lean_inline
def scale(repository, raw, scaled):
    """Write an object's scaled attributes; missing or infinite attributes become NaN."""
    for a in range(raw.size):
        value = (raw[a] - repository.shift[a]) / repository.span[a]
        scaled[a] = np.nan if np.isinf(value) else value
