"""Which rule imputes a missing attribute: the first, of those in order, that has donors.

One attribute's donors are found in the tree made for it; its rules, best first, are boxes over the
other attributes. Everything here works on scaled attributes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sfumato.kernels.compile import compiled_ieee, lean
from sfumato.kernels.imputation.donor_tree import LEAF, most_rows, nodes_in_box, rows_in_nodes

# How an attribute of an object was found, unless it is the number of a rule.
PRESENT, MARGINAL, NOTHING = -1, -2, -3
# What became of an object.
COMPLETE, IMPUTED, NO_RULE, NO_DONORS, NOT_FINITE = range(5)


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


@compiled_ieee
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


@lean
def scale(repository, raw, scaled):
    """Write the scaled attributes of an object; False if one is infinite. NaN stays NaN."""
    finite = True
    for a in range(raw.size):
        scaled[a] = (raw[a] - repository.shift[a]) / repository.span[a]
        finite &= not np.isinf(scaled[a])
    return finite


@lean
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


@lean
def nodes_of_box(repository, t, asked, scaled, scratch):
    """Nodes of tree t that hold what is in the box of `scratch`; their number."""
    return nodes_in_box(
        repository.low[t], repository.high[t], scratch.attributes, asked,
        scaled, scratch.reach, scratch.nodes, scratch.unsure, scratch.stack,
    )  # fmt: skip


@lean
def rows_of_nodes(repository, t, count, scaled, scratch, enough, out):
    """Rows among `count` nodes of tree t that are in the box of `scratch`, as places in `out`."""
    return rows_in_nodes(
        repository.columns[t], repository.begin, repository.end,
        scratch.nodes, scratch.unsure, count,
        scratch.attributes, scaled, scratch.reach, enough, out, 0, scratch.near,
    )  # fmt: skip


@lean
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


@lean
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


@lean
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


@compiled_ieee
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
