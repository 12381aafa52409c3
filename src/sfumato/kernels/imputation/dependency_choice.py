"""The choice of the dependencies that impute a missing attribute.

An attribute's donors are found in its tree. A dependency, or a conjunction of several dependencies,
is a box over the other attributes. A choice is a set of dependencies: a bit mask, with bit i for
the attribute's i-th dependency. All attributes are scaled.

There are two methods. The plain method tries all combinations in a given order and uses the first
combination with enough donors, with all of these donors. The other method narrows a box by one
dependency after another, the tightest first, while there are enough donors, and uses the nearest
donors.
"""

import numpy as np

from sfumato.kernels.compile import inlined, lean, lean_inline
from sfumato.kernels.imputation.donor_tree import nodes_in_box, rows_in_nodes
from sfumato.kernels.imputation.repository import scale, tree_of

# Result of the choice for an attribute, unless a set of dependencies is chosen.
PRESENT, MARGINAL, NO_RULE = -1, -2, -3
# Result for an object.
COMPLETE, IMPUTED, NO_DEPENDENCY, NO_DONORS, NOT_FINITE = range(5)
SMALLEST_REACH = 1e-6  # an epsilon of 0 is raised to this value instead of being doubled


@lean_inline
def narrow_box(repository, t, dependencies, constrained, search):
    """Narrow a box by dependencies of attribute t; return its number of constrained attributes."""
    attributes, reach, sets = search.attributes, search.reach, repository.sets
    d = sets.first[t]
    while dependencies:
        if dependencies & 1:
            for i in range(sets.begin[d], sets.begin[d + 1]):
                a = sets.attribute[i]
                fresh = True
                for j in range(constrained):
                    fresh &= attributes[j] != a
                if fresh:
                    attributes[constrained] = a
                    constrained += 1
                reach[a] = sets.reach[i] if fresh else min(reach[a], sets.reach[i])
        dependencies >>= 1
        d += 1
    return constrained


@lean_inline
def rows_in_box(repository, t, constrained, scratch, enough, out):
    """Write the rows of tree t in the box of `scratch` to `out`; return (rows, nodes)."""
    tree = tree_of(repository, t)
    nodes = nodes_in_box(tree, constrained, scratch.scaled, scratch.search)
    found = rows_in_nodes(tree, nodes, scratch.scaled, scratch.search, enough, out, 0)
    return found, nodes


@lean_inline
def _count_in_box(repository, t, constrained, scratch, enough):
    return rows_in_box(repository, t, constrained, scratch, enough, scratch.places[:0])[0]


@lean_inline
def _applies(scratch, constrained):
    """Return whether the object has all attributes that the box of `scratch` constrains."""
    present = True
    for i in range(constrained):
        present &= not np.isnan(scratch.scaled[scratch.search.attributes[i]])
    return present


@inlined
def _choose_combination(repository, t, scratch):
    """Return (first combination with enough donors, 1), or (NO_RULE, 1 if any combination applied).

    Source: Ren et al. (2019), section 3 (DD selection), with an exact count instead of an estimate.
    """
    applied, least, sets = 0, repository.choice.least_donors, repository.sets
    for c in range(sets.first_combination[t], sets.first_combination[t + 1]):
        constrained = narrow_box(repository, t, sets.combination[c], 0, scratch.search)
        if _applies(scratch, constrained):
            applied = 1
            if _count_in_box(repository, t, constrained, scratch, least) >= least:
                return sets.combination[c], applied
    return np.int64(NO_RULE), applied


@lean
def choose_narrowest(repository, t, scratch):
    """Choose dependencies for attribute t that narrow the box step by step while donors suffice.

    The first dependency with any donors is chosen even if the donors are too few. Then no other
    dependency is chosen, and `donors_in_box` widens the box.  Returns the same as
    `_choose_combination`.
    """
    least, sets, search = repository.choice.least_donors, repository.sets, scratch.search
    applied, chosen, bit = 0, np.int64(0), np.int64(1)
    for d in range(sets.first[t], sets.first[t + 1]):
        if chosen > 0 and d >= sets.first[t] + repository.weighting[t].max_rules:
            break
        if _applies(scratch, narrow_box(repository, t, bit, 0, search)):
            applied = 1
            constrained = narrow_box(repository, t, chosen | bit, 0, search)
            found = _count_in_box(repository, t, constrained, scratch, least + 1)
            if found >= least or (chosen == 0 and found > 0):
                chosen |= bit
                if found <= least:
                    break
        bit <<= 1
    return (chosen, applied) if chosen > 0 else (np.int64(NO_RULE), applied)


@lean_inline
def donors_in_box(repository, t, chosen, scratch):
    """Write a choice's donors to scratch.places; return the numbers of donors, constrained
    attributes and nodes.

    If the nearest donors are used, the box is doubled until it has enough donors.
    """
    search, least, many = scratch.search, repository.choice.least_donors, scratch.places.size
    constrained = narrow_box(repository, t, chosen, 0, search)
    found, nodes = rows_in_box(repository, t, constrained, scratch, many, scratch.places)
    while repository.choice.most_donors > 0 and found < least:
        for i in range(constrained):
            a = search.attributes[i]
            search.reach[a] = max(2.0 * search.reach[a], SMALLEST_REACH)
        found, nodes = rows_in_box(repository, t, constrained, scratch, many, scratch.places)
    return found, constrained, nodes


@lean
def choose_dependencies(repository, scratch, raw, chosen):
    """Scale an object and choose how to impute each missing attribute; return the result.

    chosen : int64[T], written: PRESENT, dependencies, MARGINAL (if allowed), or NO_RULE
    Returns COMPLETE, IMPUTED, or the reason why the object cannot be imputed. If an attribute
    other than the T imputed ones is missing or infinite, dependencies that constrain it do not
    apply.
    Source: Ren et al. (2019), section 3.
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
            chosen[t] = NO_RULE
            continue
        if repository.choice.most_donors > 0:
            found, applied = choose_narrowest(repository, t, scratch)
        else:
            found, applied = _choose_combination(repository, t, scratch)
        chosen[t] = MARGINAL if found == NO_RULE and repository.choice.marginal else found
        if chosen[t] == NO_RULE:
            reason = max(reason, NO_DONORS if applied else NO_DEPENDENCY)
        else:
            reason = max(reason, IMPUTED)
    return reason if finite else NOT_FINITE
