"""Which dependencies impute a missing attribute, and the rows of the repository that lend values.

One attribute's donors are found in the tree made for it; its dependencies, and what several of them
ask together, are boxes over the other attributes. A choice is a set of dependencies: a bit mask,
bit i for the i-th dependency of the attribute. Everything here works on scaled attributes.

There are two ways. The plain one is E's: of the lattice of all combinations the first, in a given
order, that has donors, and these. The other narrows a box by one dependency after the other, the
tightest first, as long as there are enough donors; it lets the nearest of them lend.
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

# How an attribute of an object was found, unless it is a set of dependencies.
PRESENT, MARGINAL, NOTHING = -1, -2, -3
# What became of an object.
COMPLETE, IMPUTED, NO_DEPENDENCY, NO_DONORS, NOT_FINITE = range(5)
SMALLEST_REACH = 1e-6  # what an epsilon of 0 is widened from


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
def narrow_box(repository, t, dependencies, asked, search):
    """Narrow a box by a set of dependencies of attribute t; how many attributes it asks about.

    Of an attribute that several ask about the smaller reach counts.
    """
    attributes, reach = search.attributes, search.reach
    d = repository.first_dependency[t]
    while dependencies:
        if dependencies & 1:
            for i in range(repository.box_begin[d], repository.box_begin[d + 1]):
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
        dependencies >>= 1
        d += 1
    return asked


@lean
def known(scratch, asked):
    """Whether the object has all attributes that the box of `scratch` asks about."""
    present = True
    for i in range(asked):
        present &= not np.isnan(scratch.scaled[scratch.search.attributes[i]])
    return present


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
def choose_combination(repository, t, scratch):
    """The first combination for attribute t whose determinants are present and that has donors.

    Returns (set of dependencies, 1), or (NOTHING, 1 if one applied but had no donors, else 0).
    Donors are not estimated but looked for, until there are enough.
    Source: E, section 3 (DD selection), with this exact test in place of the estimate.
    """
    applied, least = 0, repository.choice.least_donors
    for c in range(repository.first_combination[t], repository.first_combination[t + 1]):
        asked = narrow_box(repository, t, repository.combination[c], 0, scratch.search)
        if not known(scratch, asked):
            continue
        applied = 1
        count = nodes_of_box(repository, t, asked, scratch)
        if most_rows(tree_of(repository, t), count, scratch.search) < least:
            continue
        if rows_of_nodes(repository, t, count, scratch, least, scratch.none) >= least:
            return repository.combination[c], applied
    return NOTHING, applied


@lean
def choose_narrowest(repository, t, scratch):
    """Dependencies for attribute t, each narrowing the box of those before while donors suffice.

    Of the first that has any donors too few are enough: it stands alone, and `donor_nodes` widens
    its box.  Returns as `choose_combination`.
    Cost: a box query for each dependency at most.
    """
    least = repository.choice.least_donors
    applied, chosen, bit = 0, np.int64(0), np.int64(1)
    first, last = repository.first_dependency[t], repository.first_dependency[t + 1]
    for d in range(first, last):
        if chosen > 0 and d >= first + repository.narrowing[t]:
            break
        if known(scratch, narrow_box(repository, t, bit, 0, scratch.search)):
            applied = 1
            asked = narrow_box(repository, t, chosen | bit, 0, scratch.search)
            count = nodes_of_box(repository, t, asked, scratch)
            found = rows_of_nodes(repository, t, count, scratch, least + 1, scratch.none)
            if found >= least or (chosen == 0 and found > 0):
                chosen |= bit
                if found <= least:
                    break
        bit <<= 1
    return (chosen, applied) if chosen > 0 else (np.int64(NOTHING), applied)


@lean
def donor_nodes(repository, t, chosen, scratch):
    """The box of a choice in `scratch`, wide enough for enough donors: (attributes asked, nodes).

    Only boxes of `choose_narrowest` with too few donors are ever widened, to twice their size and
    so on.
    """
    search, least = scratch.search, repository.choice.least_donors
    asked = narrow_box(repository, t, chosen, 0, search)
    count = nodes_of_box(repository, t, asked, scratch)
    if repository.choice.most_donors > 0:
        while rows_of_nodes(repository, t, count, scratch, least, scratch.none) < least:
            for i in range(asked):
                a = search.attributes[i]
                search.reach[a] = max(2.0 * search.reach[a], SMALLEST_REACH)
            count = nodes_of_box(repository, t, asked, scratch)
    return asked, count


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
def judge(repository, scratch, raw, chosen, low, high):
    """Scale an object, choose for each missing attribute how to impute it; what becomes of it.

    chosen : int64[T], written: PRESENT, dependencies, MARGINAL (if allowed), or NOTHING
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
        if repository.choice.most_donors > 0:
            found, applied = choose_narrowest(repository, t, scratch)
        else:
            found, applied = choose_combination(repository, t, scratch)
        if low.size > 0:
            count = 0
            if found != NOTHING:
                _, count = donor_nodes(repository, t, found, scratch)
            low[t], high[t] = interval_of_nodes(repository, t, scratch.search, count)
        chosen[t] = MARGINAL if found == NOTHING and repository.choice.marginal else found
        if chosen[t] == NOTHING:
            reason = max(reason, NO_DONORS if applied else NO_DEPENDENCY)
        else:
            reason = max(reason, IMPUTED)
    return reason if finite else NOT_FINITE


@compiled_ieee
def judge_batch(repository, objects, low, high):
    """Choose how to impute many objects, and bound what they will be imputed to.

    objects : float64[n, D], NaN = missing
    low, high : float64[n, T], written: least and greatest value of each attribute in the index
        nodes that the box of its choice meets; float64[0, T]: not wanted
    Returns (chosen int64[n, T], reason uint8[n]).
    Cost: box queries, until one has enough donors or for each dependency.
    Source: E, sections 3 and 5.2 (initial MBR).
    """
    n, trees = objects.shape[0], repository.column_of.size
    scratch = new_scratch(repository)
    chosen, reason = np.empty((n, trees), np.int64), np.empty(n, np.uint8)
    for i in range(n):
        box = min(i, low.shape[0])
        reason[i] = judge(
            repository, scratch, objects[i], chosen[i],
            low[box : box + 1].reshape(-1), high[box : box + 1].reshape(-1),
        )  # fmt: skip
    return chosen, reason
