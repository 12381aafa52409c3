"""Missing values as distributions: the rule for each, its donors, their values with shares.

One attribute's donors are found in the tree made for it; its rules, best first, are boxes over the
other attributes. Everything here works on scaled attributes but the values that come out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from sfumato.kernels.donor_tree import LEAF, most_rows, nodes_in_box, rows_in_nodes
from sfumato.kernels.merge_nearest import merge_nearest
from sfumato.kernels.similarity_nested import sort_slots
from sfumato.kernels.uncertain_tuples import LEAN

# How an attribute of an object was found, unless it is the number of a rule.
PRESENT, MARGINAL, NOTHING = -1, -2, -3
# What became of an object.
COMPLETE, IMPUTED, NO_RULE, NO_DONORS, NOT_FINITE = range(5)
MOST_PRODUCTS = 65_536  # alternatives of an object with several independent missing attributes


class Repository(NamedTuple):
    """N complete rows of D attributes, prepared for the imputation of T of them; one tree each.

    columns, rows, low, high : [T, ...], begin, end : of all trees, see `DonorTree`; scaled
    codes : int64[T, P], rank of the tree's attribute among its distinct values, by place
    row_codes : int64[T, N], the same by row
    code_low, code_high : int64[T, nodes], least and greatest rank in a node
    values, counts : float64[V], int64[V], distinct values of the T attributes, ascending each, and
        how many rows have them; those of tree t from first_value[t], int64[T + 1]
    first_rule : int64[T + 1], rules of tree t in order of choice; rule r asks attributes
        rule_attribute[rule_begin[r] : rule_begin[r + 1]] to be within rule_reach[...]
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
    first_rule: np.ndarray
    rule_begin: np.ndarray
    rule_attribute: np.ndarray
    rule_reach: np.ndarray
    column_of: np.ndarray
    shift: np.ndarray
    span: np.ndarray


class Scratch(NamedTuple):
    """Room to work in, for one object at a time; see `new_scratch`."""

    nodes: np.ndarray
    unsure: np.ndarray
    places: np.ndarray
    ranks: np.ndarray
    tally: np.ndarray
    attributes: np.ndarray
    reach: np.ndarray
    law: np.ndarray
    weight: np.ndarray
    sizes: np.ndarray
    totals: np.ndarray
    moved: np.ndarray
    limits: np.ndarray
    none: np.ndarray
    stack: np.ndarray
    near: np.ndarray


@njit(cache=True, nogil=True, error_model="numpy")
def new_scratch(repository):
    """Room for `impute_object`."""
    trees, d, places = repository.columns.shape
    nodes = repository.begin.size
    longest = 0
    for t in range(trees):
        longest = max(longest, repository.first_value[t + 1] - repository.first_value[t])
    return Scratch(
        nodes=np.empty(nodes, np.int64),
        unsure=np.empty(nodes, np.int64),
        places=np.empty(places + 1, np.int64),
        ranks=np.empty(places + 1, np.int64),
        tally=np.zeros(longest, np.int64),
        attributes=np.empty(d, np.int64),
        reach=np.empty(d),
        law=np.empty((trees, places)),
        weight=np.empty((trees, places)),
        sizes=np.empty(trees, np.int64),
        totals=np.empty(trees),
        moved=np.empty(trees),
        limits=np.empty(trees, np.int64),
        none=np.empty(0, np.int64),
        stack=np.empty((64, 2), np.int64),
        near=np.empty(LEAF, np.uint8),
    )


@njit(**LEAN)
def scale(repository, raw, scaled):
    """Write the scaled attributes of an object; False if one is infinite. NaN stays NaN."""
    finite = True
    for a in range(raw.size):
        scaled[a] = (raw[a] - repository.shift[a]) / repository.span[a]
        finite &= not np.isinf(scaled[a])
    return finite


@njit(**LEAN)
def add_rule(repository, rule, asked, attributes, reach):
    """Narrow a box by a rule: smaller reach for shared attributes; how many are asked about."""
    for i in range(repository.rule_begin[rule], repository.rule_begin[rule + 1]):
        a = repository.rule_attribute[i]
        fresh = True
        for j in range(asked):
            if attributes[j] == a:
                fresh = False
                reach[a] = min(reach[a], repository.rule_reach[i])
        if fresh:
            attributes[asked] = a
            reach[a] = repository.rule_reach[i]
            asked += 1
    return asked


@njit(**LEAN)
def nodes_of_box(repository, t, asked, scaled, scratch):
    """Nodes of tree t that hold what is in the box of `scratch`; their number."""
    return nodes_in_box(
        repository.low[t], repository.high[t], scratch.attributes, asked,
        scaled, scratch.reach, scratch.nodes, scratch.unsure, scratch.stack,
    )  # fmt: skip


@njit(**LEAN)
def rows_of_nodes(repository, t, count, scaled, scratch, enough, out):
    """Rows among `count` nodes of tree t that are in the box of `scratch`, as places in `out`."""
    return rows_in_nodes(
        repository.columns[t], repository.begin, repository.end,
        scratch.nodes, scratch.unsure, count,
        scratch.attributes, scaled, scratch.reach, enough, out, 0, scratch.near,
    )  # fmt: skip


@njit(**LEAN)
def choose_rule(repository, t, scaled, least_donors, scratch):
    """The first rule for attribute t whose determinants are present and that has donors.

    Returns (rule, its nodes in `scratch`), or (NOTHING, 1 if a rule applied but had no donors,
    else 0). A rule's donors are not estimated but looked for, until there are `least_donors`.
    Source: E, section 3 (DD selection), with this exact test in place of the estimate.
    """
    applied = 0
    for rule in range(repository.first_rule[t], repository.first_rule[t + 1]):
        asked = add_rule(repository, rule, 0, scratch.attributes, scratch.reach)
        present = True
        for i in range(asked):
            present &= not np.isnan(scaled[scratch.attributes[i]])
        if not present:
            continue
        applied = 1
        count = nodes_of_box(repository, t, asked, scaled, scratch)
        if most_rows(repository.begin, repository.end, scratch.nodes, count) < least_donors:
            continue
        found = rows_of_nodes(repository, t, count, scaled, scratch, least_donors, scratch.none)
        if found >= least_donors:
            return rule, count
    return NOTHING, applied


@njit(**LEAN)
def _distinct(codes, places, n, values, tally, ranks, law, weight):
    """Distinct values of n places, ascending, and how often each stands; their number."""
    least, most = tally.size, -1
    for i in range(n):
        ranks[i] = codes[places[i]]
        least, most = min(least, ranks[i]), max(most, ranks[i])
    k = 0
    if most - least <= 8 * n:
        for i in range(n):
            tally[ranks[i]] += 1
        for rank in range(least, most + 1):
            if tally[rank] > 0:
                law[k], weight[k] = values[rank], tally[rank]
                tally[rank] = 0
                k += 1
        return k
    sort_slots(ranks, n)
    for i in range(n):
        if i == 0 or ranks[i] != ranks[i - 1]:
            law[k], weight[k] = values[ranks[i]], 0.0
            k += 1
        weight[k - 1] += 1.0
    return k


@njit(**LEAN)
def attribute_law(repository, t, rule, scaled, scratch):
    """Values of attribute t under a rule (or MARGINAL) and how many donors have each.

    Written to row t of scratch.law and scratch.weight, ascending, and to sizes[t] and totals[t].
    Cost: a box query, and O(donors), or O(donors log donors) where they are few and far apart.
    """
    first, last = repository.first_value[t], repository.first_value[t + 1]
    law, weight = scratch.law[t], scratch.weight[t]
    if rule == MARGINAL:
        n = 0
        for i in range(last - first):
            law[i], weight[i] = repository.values[first + i], repository.counts[first + i]
            n += repository.counts[first + i]
        scratch.sizes[t] = last - first
    else:
        asked = add_rule(repository, rule, 0, scratch.attributes, scratch.reach)
        count = nodes_of_box(repository, t, asked, scaled, scratch)
        places = scratch.places
        n = rows_of_nodes(repository, t, count, scaled, scratch, places.size, places)
        scratch.sizes[t] = _distinct(
            repository.codes[t], places, n, repository.values[first:last],
            scratch.tally, scratch.ranks, law, weight,
        )  # fmt: skip
    scratch.totals[t] = n
    return n


@njit(**LEAN)
def share_limits(sizes, chosen, most, limits):
    """How many values each of several attributes may keep, so that their product is <= most.

    sizes : int64[T]    chosen : bool[T], which attributes    limits : int64[T], written
    Small ones keep all; the others get equal shares of what that leaves.
    """
    left, open_attributes = most, 0
    for t in range(sizes.size):
        limits[t] = 0
        open_attributes += chosen[t]
    while open_attributes > 0:
        smallest = -1
        for t in range(sizes.size):
            if chosen[t] and limits[t] == 0 and (smallest < 0 or sizes[t] < sizes[smallest]):
                smallest = t
        root = 1
        while True:
            power = 1.0
            for _ in range(open_attributes):
                power *= root + 1
            if power > left or root >= sizes[smallest]:
                break
            root += 1
        limits[smallest] = min(root, sizes[smallest])
        left //= limits[smallest]
        open_attributes -= 1


@njit(cache=True, nogil=True, error_model="numpy")
def _room(prob, points, needed):
    if needed <= prob.size:
        return prob, points
    size = max(needed, 2 * prob.size)
    more, more_points = np.empty(size), np.empty((size, points.shape[1]))
    for i in range(prob.size):
        more[i] = prob[i]
        for a in range(points.shape[1]):
            more_points[i, a] = points[i, a]
    return more, more_points


@njit(cache=True, nogil=True, error_model="numpy")
def _write_product(repository, raw, missing, scratch, prob, points, at):
    """Alternatives of independent attributes: every combination, the last attribute fastest."""
    trees, end = missing.size, at + 1
    for t in range(trees):
        if missing[t]:
            end = at + (end - at) * scratch.sizes[t]
    prob, points = _room(prob, points, end)
    for i in range(at, end):
        rest, p = i - at, 1.0
        for t in range(trees - 1, -1, -1):
            if missing[t]:
                j = rest % scratch.sizes[t]
                rest //= scratch.sizes[t]
                points[i, t] = scratch.law[t, j]
                p *= scratch.weight[t, j] / scratch.totals[t]
            else:
                points[i, t] = raw[repository.column_of[t]]
        prob[i] = p
    return prob, points, end


@njit(cache=True, nogil=True, error_model="numpy")
def _joint_rows(repository, rule, missing, scaled, scratch):
    """Rows that are donors of every missing attribute, as row numbers in scratch.places."""
    asked, tree, widest = 0, -1, -1
    for t in range(missing.size):
        if missing[t]:
            size = 0
            if rule[t] >= 0:
                asked = add_rule(repository, rule[t], asked, scratch.attributes, scratch.reach)
                size = repository.rule_begin[rule[t] + 1] - repository.rule_begin[rule[t]]
            if size > widest:
                tree, widest = t, size
    count = nodes_of_box(repository, tree, asked, scaled, scratch)
    places = scratch.places
    n = rows_of_nodes(repository, tree, count, scaled, scratch, places.size, places)
    for i in range(n):
        places[i] = repository.rows[tree, places[i]]
    return n


@njit(cache=True, nogil=True, error_model="numpy")
def _sort_rows(order, n, codes, which, g):
    """Sort rows by their ranks of attributes which[:g], the first first: Shell sort."""
    gap = 1
    while gap < n // 9:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, n):
            row, j = order[i], i
            while j >= gap:
                other, a = order[j - gap], 0
                while a < g - 1 and codes[which[a], other] == codes[which[a], row]:
                    a += 1
                if codes[which[a], other] <= codes[which[a], row]:
                    break
                order[j] = other
                j -= gap
            order[j] = row
        gap //= 3


@njit(cache=True, nogil=True, error_model="numpy")
def _write_joint(
    repository, rule, raw, scaled, missing, most, scratch, donors, spread, error, prob, points, at
):
    """Alternatives that rows near on all determinants have together; none: end == at."""
    trees = missing.size
    n = _joint_rows(repository, rule, missing, scaled, scratch)
    order = scratch.places
    which, g = np.empty(trees, np.int64), 0
    for t in range(trees):
        if missing[t]:
            which[g] = t
            g += 1
    _sort_rows(order, n, repository.row_codes, which, g)
    law, weight = np.empty((g, n)), np.empty(n)
    k = 0
    for i in range(n):
        fresh = i == 0
        for a in range(g):
            if i > 0:
                codes = repository.row_codes
                fresh |= codes[which[a], order[i]] != codes[which[a], order[i - 1]]
        if fresh:
            for a in range(g):
                t = which[a]
                law[a, k] = repository.values[
                    repository.first_value[t] + repository.row_codes[t, order[i]]
                ]
            weight[k] = 0.0
            k += 1
        weight[k - 1] += 1.0
    span, moved = np.empty(g), np.zeros(g)
    for a in range(g):
        span[a] = repository.span[repository.column_of[which[a]]]
        least, most_value = np.inf, -np.inf
        for i in range(k):
            least, most_value = min(least, law[a, i]), max(most_value, law[a, i])
        if k > 0:
            donors[which[a]], spread[which[a]] = n, most_value - least
    k = merge_nearest(law, weight, k, most, span, moved)
    prob, points = _room(prob, points, at + k)
    for i in range(k):
        prob[at + i] = weight[i] / n
        for t in range(trees):
            points[at + i, t] = raw[repository.column_of[t]]
        for a in range(g):
            points[at + i, which[a]] = law[a, i]
    for a in range(g):
        error[which[a]] = moved[a]
    return prob, points, at + k


@njit(cache=True, nogil=True, error_model="numpy")
def impute_object(
    repository, scratch, raw, scaled, rule, joint, most, donors, spread, error, prob, points, at
):
    """Write the alternatives of one object behind place `at`; the arrays, larger if need be.

    raw, scaled : float64[D]    rule : int64[T], PRESENT, MARGINAL or a rule with donors, for each
        attribute    joint : bool    most : int64 >= 1, alternatives an object may have
    donors, spread : int64[T], float64[T], written: rows that lent values, and how far those lie
        apart    error : float64[T], written: the farthest a value was moved to have few enough
    Returns (prob, points, the place after the last, whether values were taken jointly).

    Cost: a box query for each missing attribute, then its donors, then the alternatives.
    Source: E, section 2.2; spec: several attributes independent (product) or joint.
    """
    missing = rule != PRESENT
    g = 0
    for t in range(rule.size):
        donors[t], spread[t], error[t] = 0, 0.0, 0.0
        g += missing[t]
    if joint and g > 1:
        begin = at
        prob, points, at = _write_joint(
            repository, rule, raw, scaled, missing, most, scratch,
            donors, spread, error, prob, points, at,
        )  # fmt: skip
        if at > begin:
            return prob, points, at, True
    product = 1.0
    for t in range(rule.size):
        if missing[t]:
            donors[t] = attribute_law(repository, t, rule[t], scaled, scratch)
            k = scratch.sizes[t]
            spread[t] = scratch.law[t, k - 1] - scratch.law[t, 0]
            product *= k
    if g > 1:
        most = min(most, MOST_PRODUCTS)
    if product > most:
        share_limits(scratch.sizes, missing, most, scratch.limits)
        for t in range(rule.size):
            if missing[t]:
                scratch.sizes[t] = merge_nearest(
                    scratch.law[t : t + 1], scratch.weight[t], scratch.sizes[t], scratch.limits[t],
                    repository.span[repository.column_of[t] : repository.column_of[t] + 1],
                    error[t : t + 1],
                )  # fmt: skip
    prob, points, at = _write_product(repository, raw, missing, scratch, prob, points, at)
    return prob, points, at, False


@njit(**LEAN)
def interval_of_nodes(repository, t, scratch, count):
    """Least and greatest value of attribute t in `count` index nodes of `scratch`; 0: in all."""
    first = repository.first_value[t]
    least, most = np.int64(0), repository.first_value[t + 1] - first - 1
    if count > 0:
        least, most = most, least
        for i in range(count):
            node = scratch.nodes[i]
            least = min(least, repository.code_low[t, node])
            most = max(most, repository.code_high[t, node])
    return repository.values[first + least], repository.values[first + most]


@njit(**LEAN)
def judge(repository, scratch, raw, scaled, marginal, least_donors, rule, low, high):
    """Scale an object and choose a rule for each missing attribute; what becomes of it.

    rule : int64[T], written: PRESENT, a rule, MARGINAL (if `marginal` allows), or NOTHING
    low, high : float64[T] or [0] (not wanted), written where a rule was found, as `judge_batch`
    Returns COMPLETE or IMPUTED, else why it cannot be imputed. Attributes missing outside the T
    only keep rules from applying.
    """
    finite = scale(repository, raw, scaled)
    reason = COMPLETE
    for t in range(rule.size):
        rule[t], value = PRESENT, raw[repository.column_of[t]]
        if not np.isnan(value):
            if low.size > 0:
                low[t], high[t] = value, value
            continue
        if not finite:
            rule[t] = NOTHING
            continue
        found, applied = choose_rule(repository, t, scaled, least_donors, scratch)
        if low.size > 0:
            low[t], high[t] = interval_of_nodes(
                repository, t, scratch, 0 if found == NOTHING else applied
            )
        rule[t] = MARGINAL if found == NOTHING and marginal else found
        if rule[t] == NOTHING:
            reason = max(reason, NO_DONORS if applied else NO_RULE)
        else:
            reason = max(reason, IMPUTED)
    return reason if finite else NOT_FINITE


@njit(cache=True, nogil=True, error_model="numpy")
def judge_batch(repository, objects, marginal, least_donors, low, high):
    """Choose the rules of many objects, and bound what they will be imputed to.

    objects : float64[n, D], NaN = missing    marginal, least_donors : as for `judge`
    low, high : float64[n, T], written: least and greatest value of each attribute in the index
        nodes that its rule's box meets; float64[0, T]: not wanted
    Returns (rule int64[n, T], reason uint8[n]).
    Cost: box queries until a rule has donors.
    Source: E, sections 3 and 5.2 (initial MBR).
    """
    n, trees = objects.shape[0], repository.column_of.size
    scratch = new_scratch(repository)
    rule, reason = np.empty((n, trees), np.int64), np.empty(n, np.uint8)
    scaled = np.empty(repository.shift.size)
    for i in range(n):
        box = min(i, low.shape[0])
        reason[i] = judge(
            repository, scratch, objects[i], scaled, marginal, least_donors, rule[i],
            low[box : box + 1].reshape(-1), high[box : box + 1].reshape(-1),
        )  # fmt: skip
    return rule, reason


@njit(cache=True, nogil=True, error_model="numpy")
def impute_batch(repository, objects, rule, reason, joint, most):
    """Alternatives of many objects.

    objects : float64[n, D], NaN = missing    rule, reason : of `judge_batch`
    Returns (offsets int64[n + 1], prob float64[m], points float64[m, T], donors int64[n, T],
    spread, error float64[n, T], joined bool[n]).
    """
    n, trees = rule.shape
    scratch = new_scratch(repository)
    offsets, joined = np.zeros(n + 1, np.int64), np.zeros(n, np.bool_)
    donors, spread = np.zeros((n, trees), np.int64), np.zeros((n, trees))
    error = np.zeros((n, trees))
    prob, points, at = np.empty(2 * n + 16), np.empty((2 * n + 16, trees)), 0
    scaled = np.empty(repository.shift.size)
    for i in range(n):
        if reason[i] <= IMPUTED:
            scale(repository, objects[i], scaled)
            prob, points, at, joined[i] = impute_object(
                repository, scratch, objects[i], scaled, rule[i], joint, most,
                donors[i], spread[i], error[i], prob, points, at,
            )  # fmt: skip
        offsets[i + 1] = at
    return offsets, prob[:at], points[:at], donors, spread, error, joined
