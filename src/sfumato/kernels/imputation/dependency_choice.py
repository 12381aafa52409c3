"""Which dependencies impute a missing attribute, and the rows of the repository that lend values.

One attribute's donors are found in the tree made for it; its dependencies, and what several of them
ask together, are boxes over the other attributes. A choice is a set of dependencies: a bit mask,
bit i for the i-th dependency of the attribute. Everything here works on scaled attributes.

There are two ways. The plain one: of the lattice of all combinations the first, in a given
order, that has donors, and these. The other narrows a box by one dependency after the other, the
tightest first, as long as there are enough donors; it lets the nearest of them lend.
"""

import numpy as np

from sfumato.kernels.compile import compiled_ieee, lean, lean_inline
from sfumato.kernels.imputation.donor_tree import most_rows, nodes_in_box, rows_in_nodes
from sfumato.kernels.imputation.repository import new_scratch, scale, tree_of

# How an attribute of an object was found, unless it is a set of dependencies.
PRESENT, MARGINAL, NOTHING = -1, -2, -3
# What became of an object.
COMPLETE, IMPUTED, NO_DEPENDENCY, NO_DONORS, NOT_FINITE = range(5)
SMALLEST_REACH = 1e-6  # what an epsilon of 0 is widened from


@lean_inline
def narrow_box(repository, t, dependencies, asked, search):
    """Narrow a box by dependencies of attribute t, the smaller reach counts; how many attributes it
    has."""
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


@lean_inline
def known(scratch, asked):
    """Whether the object has all attributes that the box of `scratch` asks about."""
    present = True
    for i in range(asked):
        present &= not np.isnan(scratch.scaled[scratch.search.attributes[i]])
    return present


@lean_inline
def nodes_of_box(repository, t, asked, scratch):
    """Nodes of tree t that hold what is in the box of `scratch`; their number."""
    return nodes_in_box(tree_of(repository, t), asked, scratch.scaled, scratch.search)


@lean_inline
def rows_of_nodes(repository, t, count, scratch, enough, out):
    """Rows among `count` nodes of tree t that are in the box of `scratch`, as places in `out`."""
    tree = tree_of(repository, t)
    return rows_in_nodes(tree, count, scratch.scaled, scratch.search, enough, out, 0)


@lean
def choose_combination(repository, t, scratch):
    """The first combination for attribute t whose determinants are present and that has donors.

    Returns (set of dependencies, 1), or (NOTHING, 1 if one applied but had no donors, else 0).
    Source: E, section 3 (DD selection), with an exact test, until there are enough, in place of the
    estimate.
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
    return np.int64(NOTHING), applied


@lean
def choose_narrowest(repository, t, scratch):
    """Dependencies for attribute t, each narrowing the box of those before while donors suffice.

    Of the first that has any donors too few are enough: it stands alone, and `donor_nodes` widens
    its box.  Returns as `choose_combination`.
    """
    least = repository.choice.least_donors
    applied, chosen, bit = 0, np.int64(0), np.int64(1)
    first, last = repository.first_dependency[t], repository.first_dependency[t + 1]
    for d in range(first, last):
        if chosen > 0 and d >= first + repository.lending[t].narrowing:
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


@lean_inline
def donor_nodes(repository, t, chosen, scratch):
    """The box of a choice in `scratch`: (attributes asked, nodes); doubled until it has enough
    donors."""
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


@lean_inline
def interval_of_nodes(repository, t, search, count):
    """Between what attribute t's values stay: those in the first `count` nodes found (0: in all),
    and a margin."""
    first, values = repository.first_value[t], repository.values
    margin, last = repository.lending[t].margin, repository.first_value[t + 1] - 1
    least, most = np.int64(0), last - first
    if count > 0:
        least, most = most, least
        for i in range(count):
            node = search.nodes[i]
            least = min(least, repository.code_low[t, node])
            most = max(most, repository.code_high[t, node])
    low, high = values[first + least] - margin, values[first + most] + margin
    outside = repository.lending[t].outside
    return max(low, values[first] - outside), min(high, values[last] + outside)


@lean
def judge(repository, scratch, raw, chosen):
    """Scale an object, choose for each missing attribute how to impute it; what becomes of it.

    chosen : int64[T], written: PRESENT, dependencies, MARGINAL (if allowed), or NOTHING
    Returns COMPLETE or IMPUTED, else why it cannot be imputed. Attributes outside the T that are
    missing or infinite only keep dependencies from applying.
    """
    scale(repository, raw, scratch.scaled)
    reason, finite = COMPLETE, True
    for t in range(chosen.size):
        finite &= not np.isinf(raw[repository.column_of[t]])
    for t in range(chosen.size):
        chosen[t] = PRESENT
        if not np.isnan(raw[repository.column_of[t]]):
            continue
        if not finite:
            chosen[t] = NOTHING
            continue
        if repository.choice.most_donors > 0:
            found, applied = choose_narrowest(repository, t, scratch)
        else:
            found, applied = choose_combination(repository, t, scratch)
        chosen[t] = MARGINAL if found == NOTHING and repository.choice.marginal else found
        if chosen[t] == NOTHING:
            reason = max(reason, NO_DONORS if applied else NO_DEPENDENCY)
        else:
            reason = max(reason, IMPUTED)
    return reason if finite else NOT_FINITE


@compiled_ieee
def judge_batch(repository, objects):
    """Choose how to impute many objects.

    objects : float64[n, D], NaN = missing
    Returns (chosen int64[n, T], reason uint8[n]).
    Cost: box queries, until one has enough donors or for each dependency.
    Source: E, section 3.
    """
    n, trees = objects.shape[0], repository.column_of.size
    scratch = new_scratch(repository)
    chosen, reason = np.empty((n, trees), np.int64), np.empty(n, np.uint8)
    for i in range(n):
        reason[i] = judge(repository, scratch, objects[i], chosen[i])
    return chosen, reason
