"""Which dependencies impute a missing attribute: the first combination, in order, with donors.

One attribute's donors are found in the tree made for it; its combinations of dependencies, best
first, are boxes over the other attributes. Everything here works on scaled attributes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sfumato.kernels.compile import compiled_ieee, lean
from sfumato.kernels.imputation.donor_tree import (
    BoxSearch,
    DonorTree,
    most_rows,
    new_search,
    nodes_in_box,
    rows_in_nodes,
)

# How an attribute of an object was found, unless it is the number of a combination.
PRESENT, MARGINAL, NOTHING = -1, -2, -3
# What became of an object.
COMPLETE, IMPUTED, NO_DEPENDENCY, NO_DONORS, NOT_FINITE = range(5)


class Repository(NamedTuple):
    """N complete rows of D attributes, prepared for the imputation of T of them; one tree each.

    columns, rows, low, high : [T, ...], begin, end : of all trees, see `DonorTree`; scaled
    codes : int64[T, P], rank of the tree's attribute among its distinct values, by place
    row_codes : int64[T, N], the same by row
    code_low, code_high : int64[T, nodes], least and greatest rank in a node
    values, counts : float64[V], int64[V], distinct values of the T attributes, ascending each, and
        how many rows have them; those of tree t from first_value[t], int64[T + 1]
    first_combination : int64[T + 1], combinations of tree t in order of choice; number c asks
        attributes box_attribute[box_begin[c] : box_begin[c + 1]] to be within box_reach[...]
    column_of : int64[T], the attribute that each tree is for
    shift, span : float64[D], scaled = (value - shift) / span
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
    first_combination: np.ndarray
    box_begin: np.ndarray
    box_attribute: np.ndarray
    box_reach: np.ndarray
    column_of: np.ndarray
    shift: np.ndarray
    span: np.ndarray


class Choice(NamedTuple):
    """How combinations are chosen: with at least so many donors; else the marginal, if allowed."""

    least_donors: int
    marginal: bool


class Scratch(NamedTuple):
    """Room to work in, for one object at a time; see `new_scratch`.

    scaled : float64[D], the object    search : the box asked about, and what was found in it
    law, weight : float64[T, P], of each attribute the values, ascending, and how many donors have
        each; sizes of them, totals donors: int64[T], float64[T]
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
    limits: np.ndarray
    none: np.ndarray


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
        limits=np.empty(trees, np.int64),
        none=np.empty(0, np.int64),
    )


@lean
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


@lean
def scale(repository, raw, scaled):
    """Write the scaled attributes of an object; what is missing or infinite is NaN."""
    for a in range(raw.size):
        value = (raw[a] - repository.shift[a]) / repository.span[a]
        scaled[a] = np.nan if np.isinf(value) else value


@lean
def narrow_box(repository, combination, asked, search):
    """Narrow a box by a combination: smaller reach for shared attributes; how many are asked."""
    attributes, reach = search.attributes, search.reach
    for i in range(repository.box_begin[combination], repository.box_begin[combination + 1]):
        a = repository.box_attribute[i]
        fresh = True
        for j in range(asked):
            if attributes[j] == a:
                fresh = False
                reach[a] = min(reach[a], repository.box_reach[i])
        if fresh:
            attributes[asked] = a
            reach[a] = repository.box_reach[i]
            asked += 1
    return asked


@lean
def nodes_of_box(repository, t, asked, scratch):
    """Nodes of tree t that hold what is in the box of `scratch`; their number."""
    return nodes_in_box(tree_of(repository, t), asked, scratch.scaled, scratch.search)


@lean
def rows_of_nodes(repository, t, count, scratch, enough, out):
    """Rows among `count` nodes of tree t that are in the box of `scratch`, as places in `out`."""
    tree = tree_of(repository, t)
    return rows_in_nodes(tree, count, scratch.scaled, scratch.search, enough, out, 0)


@lean
def choose_combination(repository, t, least_donors, scratch):
    """The first combination for attribute t whose determinants are present and that has donors.

    Returns (combination, its nodes in `scratch`), or (NOTHING, 1 if one applied but had no donors,
    else 0). Donors are not estimated but looked for, until there are `least_donors`.
    Source: E, section 3 (DD selection), with this exact test in place of the estimate.
    """
    applied = 0
    for c in range(repository.first_combination[t], repository.first_combination[t + 1]):
        asked = narrow_box(repository, c, 0, scratch.search)
        present = True
        for i in range(asked):
            present &= not np.isnan(scratch.scaled[scratch.search.attributes[i]])
        if not present:
            continue
        applied = 1
        count = nodes_of_box(repository, t, asked, scratch)
        if most_rows(tree_of(repository, t), count, scratch.search) < least_donors:
            continue
        if rows_of_nodes(repository, t, count, scratch, least_donors, scratch.none) >= least_donors:
            return c, count
    return NOTHING, applied


@lean
def interval_of_nodes(repository, t, search, count):
    """Least and greatest value of attribute t in the first `count` nodes found; 0: in all."""
    first = repository.first_value[t]
    least, most = np.int64(0), repository.first_value[t + 1] - first - 1
    if count > 0:
        least, most = most, least
        for i in range(count):
            node = search.nodes[i]
            least = min(least, repository.code_low[t, node])
            most = max(most, repository.code_high[t, node])
    return repository.values[first + least], repository.values[first + most]


@lean
def judge(repository, choice, scratch, raw, chosen, low, high):
    """Scale an object, choose for each missing attribute how to impute it; what becomes of it.

    chosen : int64[T], written: PRESENT, a combination, MARGINAL (if allowed), or NOTHING
    low, high : float64[T] or [0] (not wanted), written where a way was found, as `judge_batch`
    Returns COMPLETE or IMPUTED, else why it cannot be imputed. Attributes outside the T that are
    missing or infinite only keep dependencies from applying.
    """
    scale(repository, raw, scratch.scaled)
    reason, finite = COMPLETE, True
    for t in range(chosen.size):
        finite &= not np.isinf(raw[repository.column_of[t]])
    for t in range(chosen.size):
        chosen[t], value = PRESENT, raw[repository.column_of[t]]
        if not np.isnan(value):
            if low.size > 0:
                low[t], high[t] = value, value
            continue
        if not finite:
            chosen[t] = NOTHING
            continue
        found, applied = choose_combination(repository, t, choice.least_donors, scratch)
        if low.size > 0:
            low[t], high[t] = interval_of_nodes(
                repository, t, scratch.search, 0 if found == NOTHING else applied
            )
        chosen[t] = MARGINAL if found == NOTHING and choice.marginal else found
        if chosen[t] == NOTHING:
            reason = max(reason, NO_DONORS if applied else NO_DEPENDENCY)
        else:
            reason = max(reason, IMPUTED)
    return reason if finite else NOT_FINITE


@compiled_ieee
def judge_batch(repository, choice, objects, low, high):
    """Choose how to impute many objects, and bound what they will be imputed to.

    objects : float64[n, D], NaN = missing    choice : `Choice`
    low, high : float64[n, T], written: least and greatest value of each attribute in the index
        nodes that the box of its combination meets; float64[0, T]: not wanted
    Returns (chosen int64[n, T], reason uint8[n]).
    Cost: box queries until a combination has donors.
    Source: E, sections 3 and 5.2 (initial MBR).
    """
    n, trees = objects.shape[0], repository.column_of.size
    scratch = new_scratch(repository)
    chosen, reason = np.empty((n, trees), np.int64), np.empty(n, np.uint8)
    for i in range(n):
        box = min(i, low.shape[0])
        reason[i] = judge(
            repository, choice, scratch, objects[i], chosen[i],
            low[box : box + 1].reshape(-1), high[box : box + 1].reshape(-1),
        )  # fmt: skip
    return chosen, reason
