"""U-Topk: the most probable vector of the k best existing items, exactly, with rules.

A vector V is the top k of a world if its members exist and no other item above its last does.
Looking at the first i items only, the best choice of k members takes from each chosen rule its
most probable item p, every other rule R being absent with 1 - m_R: so the k rules of greatest
gain log p - log(1 - m_R). Demanding absence below V's last member too can only lower a vector's
probability, so the maximum over all i is the answer. A rule's gain never falls as i grows: one
heap of the k greatest follows them, O(log k) an item.

Source: the scan over prefixes for x-relations of Yi, Li, Kollios and Srivastava (2008), of the
definition of Soliman, Ilyas and Chang (2007), named in D, section 2; the heap is ours.
"""

import math
from typing import NamedTuple

import numpy as np

from sfumato.kernels.compile import compiled
from sfumato.kernels.tolerances import LOG_TIE


class Chosen(NamedTuple):
    """The rules of greatest gain: a binary heap, least gain first.

    heap : int64[k], rules;  where : int64[rules], place in the heap or -1
    pick : int64[rules], the rule's most probable item so far, -1 before its first
    mass : float64[rules], probability of the rule's items so far, at most 1
    absent, gain : float64[rules], log(1 - mass), and log p - log(1 - mass)
    """

    heap: np.ndarray
    where: np.ndarray
    pick: np.ndarray
    mass: np.ndarray
    absent: np.ndarray
    gain: np.ndarray


@compiled
def sink(chosen, at, size):
    """Restore the heap's order below place `at`, whose gain has grown."""
    heap, where, gain = chosen.heap, chosen.where, chosen.gain
    rule = heap[at]
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and gain[heap[child + 1]] < gain[heap[child]]:
            child += 1
        if gain[heap[child]] >= gain[rule]:
            break
        heap[at] = heap[child]
        where[heap[at]] = at
        at = child
    heap[at] = rule
    where[rule] = at


@compiled
def rise(chosen, at):
    """Restore the heap's order above place `at`, where a rule was put."""
    heap, where, gain = chosen.heap, chosen.where, chosen.gain
    rule = heap[at]
    while at > 0 and gain[heap[(at - 1) // 2]] > gain[rule]:
        heap[at] = heap[(at - 1) // 2]
        where[heap[at]] = at
        at = (at - 1) // 2
    heap[at] = rule
    where[rule] = at


@compiled
def scan(prob, unit, units, k, stop):
    """Follow the k best rules over the first `stop` items.  O(stop log k + units).

    unit : int64[m] in [0, units), the item's rule, or one of its own
    Returns (best, length, ended, chosen): the greatest log probability of k members and the number
    of items it was found at, whether the scan reached its end, and the rules there.
    """
    chosen = Chosen(
        np.empty(k, dtype=np.int64),
        np.full(units, -1),
        np.full(units, -1),
        np.zeros(units),
        np.zeros(units),
        np.zeros(units),
    )
    mass = chosen.mass
    best, length, size = -np.inf, 0, 0
    inside, outside, mean = 0.0, 0.0, 0.0  # logs of the members, of the absent; expected count
    for i in range(stop):
        spare = mean - k + 1
        # Any vector that reaches further needs fewer than k of these: Chernoff's bound.
        if spare > 0 and -spare * spare / (2 * mean) < best - LOG_TIE:
            return best, length, False, chosen
        u = unit[i]
        mean += prob[i]
        mass[u] = min(mass[u] + prob[i], 1.0)
        old = chosen.pick[u]
        new = i if old < 0 or prob[i] > prob[old] else old
        chosen.pick[u] = new
        if chosen.where[u] < 0:
            outside -= chosen.absent[u]
        else:
            inside += math.log(prob[new]) - math.log(prob[old])
        chosen.absent[u] = math.log1p(-mass[u]) if mass[u] < 1.0 else -np.inf
        chosen.gain[u] = math.log(prob[new]) - chosen.absent[u]
        out = -1
        if chosen.where[u] >= 0:
            sink(chosen, chosen.where[u], size)
        elif size < k:
            chosen.heap[size] = u
            rise(chosen, size)
            size += 1
            inside += math.log(prob[new])
        elif chosen.gain[u] > chosen.gain[chosen.heap[0]] + LOG_TIE:
            out = chosen.heap[0]
            chosen.where[out] = -1
            chosen.heap[0] = u
            sink(chosen, 0, size)
            inside += math.log(prob[new]) - math.log(prob[chosen.pick[out]])
        else:
            out = u
        if out >= 0:
            outside += chosen.absent[out]
            if outside == -np.inf:  # more than k rules exist for certain
                return best, length, False, chosen
        if size == k and inside + outside > best + LOG_TIE:
            best, length = inside + outside, i + 1
    return best, length, True, chosen


@compiled
def likeliest_world(chosen, prob):
    """The most probable world, from the rules after the last item: (log probability, its
    positions)."""
    value, count = 0.0, 0
    members = np.empty(chosen.pick.size, dtype=np.int64)
    for u in range(chosen.pick.size):
        if chosen.pick[u] >= 0:
            if chosen.gain[u] > 0:
                value += math.log(prob[chosen.pick[u]])
                members[count] = chosen.pick[u]
                count += 1
            else:
                value += chosen.absent[u]
    return value, np.sort(members[:count])


@compiled
def chance_of(members, length, prob, unit, units):
    """Probability, and its log, that just `members` exist among the first `length` items."""
    member, above = np.zeros(units, dtype=np.bool_), np.zeros(units)
    product, log = 1.0, 0.0
    for i in members:
        member[unit[i]] = True
        product *= prob[i]
        log += math.log(prob[i])
    for i in range(length):
        above[unit[i]] = min(above[unit[i]] + prob[i], 1.0)
    for u in range(units):
        if not member[u] and above[u] > 0:
            product *= 1.0 - above[u]
            log += math.log1p(-above[u])
    return product, log


@compiled
def likeliest_vector(prob, unit, units, k, full):
    """The most probable top-k vector: ascending int64[<= k] positions, probability, its log.

    prob : float64[m] in (0, 1], in rank order;  unit : int64[m] in [0, units), the item's rule
    (items without one have a unit of their own);  k : int >= 1
    full : whether only vectors of k members count. Otherwise a world of fewer than k items has all
    of them as its vector; empty, with probability 0, if no world has k items.
    Of vectors whose probabilities differ by less than a factor 1 + 1e-10 one that ends earlier is
    returned.  O(m log k).  Error: of the probability relative, (m + k) u; 0 below 1e-308, where the
    logarithm still shows.
    """
    best, length, ended, chosen = scan(prob, unit, units, k, prob.size)
    if ended and not full:
        value, members = likeliest_world(chosen, prob)
        if members.size < k and value > best + LOG_TIE:
            product, log = chance_of(members, prob.size, prob, unit, units)
            return members, product, log
    if length == 0:
        return np.empty(0, dtype=np.int64), 0.0, -np.inf
    chosen = scan(prob, unit, units, k, length)[3]
    members = np.empty(k, dtype=np.int64)
    for j in range(k):
        members[j] = chosen.pick[chosen.heap[j]]
    members = np.sort(members)
    product, log = chance_of(members, members[k - 1] + 1, prob, unit, units)
    return members, product, log
