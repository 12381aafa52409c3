"""Items to rank, and the items in front: those that can have fewer than k items above them.

Items are in rank order, best first. At position x, every generation rule except the rule of x acts
as an independent tuple that exists with the mass of its members above x (Chen et al. 2013, section
3). Each such rule contributes a factor 1 - m + m z to the distribution of the number of items
above. Item i therefore adds one factor, with the mass of its rule up to i. The factor holds for the
positions strictly between i and the rule's next member.
"""

import math
from typing import NamedTuple

import numpy as np

from sfumato.kernels.arrays import kth_smallest, stable_order
from sfumato.kernels.compile import compiled, inlined

SAMPLED = 8  # one item in SAMPLED is used to estimate the limit of the front
NO_MEMBER = 2**62  # `after` of a rule's last member
RULE_CUT = 80.0  # twice the exponent of a negligible probability: exp(-40) = 4e-18


class RankedItems(NamedTuple):
    """m items: alternatives of tuples, in order of arrival.

    key : float64[m], the smallest key ranks first; equal keys rank by position;  score : float64[m]
    prob : float64[m] in (0, 1];  owner : int64[m] in [0, tuples), the item's tuple
    rule : int64[m] in [-1, rules), shared by a tuple's alternatives; -1 for a single alternative
        without a rule
    single : bool, True if item x is tuple x
    """

    key: np.ndarray
    score: np.ndarray
    prob: np.ndarray
    rule: np.ndarray
    owner: np.ndarray
    rules: int
    tuples: int
    single: bool


class Factors(NamedTuple):
    """Factors of m items, in rank order, of the distributions of numbers of items above a position.

    prob : float64[m] in (0, 1], probability of the item itself
    mass : float64[m], mass of its rule up to and including the item, at most 1
    after : int64[m], position of the rule's next member, where this factor ends; NO_MEMBER if none
    """

    prob: np.ndarray
    mass: np.ndarray
    after: np.ndarray


@inlined
def round_probability(value):
    """Return a probability as a multiple of 1e-12, the error bound, so that ties remain ties."""
    return np.rint(value * 1e12)


@compiled
def round_digits(value):
    """Round to 12 significant digits, so that exactly equal values remain equal."""
    mantissa, exponent = math.frexp(value)
    return math.ldexp(np.rint(mantissa * 2.0**40), exponent - 40)


@compiled
def expected_keys(items):
    """Return each tuple's mean key given existence, to 12 digits; exact for one alternative."""
    if items.single:
        return items.key
    mean, exists = np.zeros(items.tuples), np.zeros(items.tuples)
    count, only = np.zeros(items.tuples, np.int64), np.zeros(items.tuples)
    for x in range(items.key.size):
        t = items.owner[x]
        mean[t] += items.prob[x] * items.key[x]
        exists[t] += items.prob[x]
        only[t] = items.key[x]
        count[t] += 1
    for t in range(items.tuples):
        mean[t] = only[t] if count[t] == 1 else round_digits(mean[t] / exists[t])
    return mean


@inlined
def leading_scores(items):
    """Return the score of each tuple's most probable alternative, the first one on ties."""
    if items.single:
        return items.score
    score, best = np.zeros(items.tuples), np.zeros(items.tuples)
    for x in range(items.key.size):
        t = items.owner[x]
        if items.prob[x] > best[t]:
            score[t], best[t] = items.score[x], items.prob[x]
    return score


@inlined
def rule_factors(prob, rule, rules):
    """Return the `Factors` of items in rank order.  O(m + rules).

    prob : float64[m] in (0, 1];  rule : int64[m] in [-1, rules), -1 for no rule
    Source: Chen et al. (2013), section 3 (compressed rules).
    """
    m = prob.size
    mass = prob.copy()
    after = np.full(m, NO_MEMBER)
    last = np.full(rules, -1)
    for i in range(m):
        if rule[i] >= 0:
            before = last[rule[i]]
            if before >= 0:
                after[before] = i
                mass[i] += mass[before]
            last[rule[i]] = i
        mass[i] = min(mass[i], 1.0)
    return Factors(prob, mass, after)


@inlined
def undecided(factors, least, most):
    """Return the positions where Pr(fewer than k above) may not be 1 or 0, for least <= k <= most.

    Returns (begin, end). Before position `begin`, the probability that at least `least` items are
    above is < 4e-18. From `end` onwards, the probability that fewer than `most` items are above is
    < 4e-18; end = m if there is no such position.
    O(m).  Source: Bernstein's and Chernoff's bounds for sums of independent variables, for all
    rules above; leaving out the item's own rule changes the mean by at most 1.
    """
    prob, mass = factors.prob, factors.mass
    mean, variance, rules = 0.0, 0.0, 0
    begin, m = 0, prob.size
    for x in range(m):
        short = least - mean
        if rules < least or (short > 0 and short * short > RULE_CUT * (variance + short / 3)):
            begin = x + 1
        spare = mean - most
        sure = variance == 0.0 and spare >= 0  # all items above are certain
        if sure or (spare > 0 and spare * spare > RULE_CUT * min(variance + spare / 3, mean)):
            return min(begin, x), x
        before = mass[x] - prob[x]
        if before <= 0.0:
            before = 0.0
            rules += 1
        mean += mass[x] - before
        variance = max(variance + mass[x] * (1 - mass[x]) - before * (1 - before), 0.0)
    return begin, m


@inlined
def rank_order(key, wanted):
    """Return about `wanted` of the best positions in rank order, and all ties with the last one."""
    if wanted >= 0.6 * key.size:
        return stable_order(key)
    sample = key[::SAMPLED].copy()
    limit = kth_smallest(sample, sample.size, min(int(wanted / SAMPLED), sample.size - 1))
    front = np.flatnonzero(key <= limit)
    return front[stable_order(key[front])]


@compiled
def front_items(items, least, most):
    """Return the items with possibly fewer than `most` items above: order, `Factors`, begin, end.

    order : int64[], in rank order;  begin, end : see `undecided`
    O(m + f log f) for f returned items, because the others are not sorted.
    """
    m = items.key.size
    # The cut of Chernoff's bound if all probabilities equal their mean.
    enough = most + 40 + math.sqrt(80.0 * most + 1600.0)
    wanted = 1.4 * enough * m / max(items.prob.sum(), 1e-300) + 32
    while True:
        order = rank_order(items.key, wanted)
        factors = rule_factors(items.prob[order], items.rule[order], items.rules)
        begin, end = undecided(factors, least, most)
        if end < order.size or order.size == m:
            return order, factors, begin, end
        wanted *= 3  # the items in front are improbable, or the estimate was too low
