"""U-Topk: the most probable vector of the k best existing items, exactly, with rules.

A vector V is the top k of a world if its members exist and no other item above its last member
exists. Among the first i items, the best vector has the most probable item, with probability p, of
each of k chosen rules; every other rule R is absent, with probability 1 - m_R. So the chosen rules
are the k rules with the largest gains log p - log(1 - m_R). If absence is also required below V's
last member, a vector's probability can only decrease, so the maximum over all i is the answer. A
rule's gain never decreases with i, so a heap of the k largest gains tracks the chosen rules.
Sources: Soliman, Ilyas and Chang (2007), named in Chen et al. (2013), section 2 (definition); Yi,
Li, Kollios and Srivastava (2008) (scan over prefixes for x-relations). The search over tuples with
several alternatives is new.
"""

import heapq
import math
from typing import NamedTuple

import numpy as np

from sfumato.kernels.arrays import number_codes, sorted_values, stable_order, with_room, write_at
from sfumato.kernels.compile import compiled, inlined
from sfumato.kernels.ranking.ranked_items import expected_keys, front_items, round_digits
from sfumato.kernels.tolerances import LOG_TIE

MAX_SEQUENCES = 20_000  # largest number of sequences examined for one vector of tuples


class ChosenRules(NamedTuple):
    """State of the rules.

    inside : bool[rules], whether the rule is among the k with the largest gains
    pick : int64[rules], the most probable item, -1 before the rule's first item
    mass, absent, gain : float64[rules], mass, log(1 - mass), and gain
    """

    inside: np.ndarray
    pick: np.ndarray
    mass: np.ndarray
    absent: np.ndarray
    gain: np.ndarray


@compiled
def _track_best_rules(prob, unit, units, k, stop):
    """Track the k best rules over the first `stop` items.  O(stop log k + units).

    unit : int64[m] in [0, units), the item's rule, or a separate unit for an item without a rule
    Returns (best, length, ended, chosen): the largest log probability of k members, the number of
    items at which it was found, whether the scan reached `stop`, and the rules at that point.
    """
    none, zeros = np.full(units, -1), np.zeros(units)
    chosen = ChosenRules(none > 0, none, zeros, zeros.copy(), zeros.copy())
    mass, gain, within = chosen.mass, chosen.gain, chosen.inside
    heap = [(0.0, np.int64(0))]  # (gain, rule), smallest first; some gains are outdated
    heap.clear()
    best, length, size = -np.inf, 0, 0
    inside, outside, mean = 0.0, 0.0, 0.0  # logs of members and of absences; expected count
    for i in range(stop):
        spare = mean - k + 1
        # Chernoff's bound: any vector that reaches further needs fewer than k of the items so far.
        if spare > 0 and -spare * spare / (2 * mean) < best - LOG_TIE:
            return best, length, False, chosen
        u = unit[i]
        mean += prob[i]
        mass[u] = min(mass[u] + prob[i], 1.0)
        old = chosen.pick[u]
        new = i if old < 0 or prob[i] > prob[old] else old
        chosen.pick[u] = new
        if not within[u]:
            outside -= chosen.absent[u]
        else:
            inside += math.log(prob[new]) - math.log(prob[old])
        chosen.absent[u] = math.log1p(-mass[u]) if mass[u] < 1.0 else -np.inf
        gain[u] = math.log(prob[new]) - chosen.absent[u]
        out = np.int64(-1)
        if not within[u] and size < k:
            size += 1
            inside += math.log(prob[new])
        elif not within[u]:
            while not within[heap[0][1]] or heap[0][0] != gain[heap[0][1]]:
                heapq.heappop(heap)
            out = heap[0][1] if gain[u] > heap[0][0] + LOG_TIE else u
            if out != u:
                inside += math.log(prob[new]) - math.log(prob[chosen.pick[out]])
        within[u] = out != u
        if within[u]:
            heapq.heappush(heap, (gain[u], u))
        if out >= 0:
            within[out] = False
            outside += chosen.absent[out]
            if outside == -np.inf:  # more than k rules certainly exist
                return best, length, False, chosen
        if size == k and inside + outside > best + LOG_TIE:
            best, length = inside + outside, i + 1
    return best, length, True, chosen


@inlined
def _likeliest_world(chosen, prob):
    """Return the most probable world after the last item: (log probability, positions)."""
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
    return value, sorted_values(members[:count])


@compiled
def _vector_probability(members, length, prob, unit, units):
    """Return Pr(of the first `length` items, exactly `members` exist), and its log."""
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
def _ordered_units(items, order):
    """Return (order, prob, unit, units); a unit is a rule, or an item without a rule."""
    unit = np.empty(order.size, np.int64)
    for i in range(order.size):
        x = order[i]
        unit[i] = items.rule[x] if items.rule[x] >= 0 else items.rules + x
    return order, items.prob[order], unit, items.rules + items.key.size


@inlined
def _likeliest_of_items(ordered, k, full):
    """Return the most probable top-k vector of items: int64[<= k] in rank order, probability, log.

    ordered : `_ordered_units` of all items in rank order;  full : see `likeliest_vectors`
    Among vectors whose probabilities differ by less than a factor of 1 + 1e-10, the vector that
    ends earliest is returned.  O(m log k).  Error of the probability: relative, (m + k) u; it is 0
    below 1e-308, where the logarithm is still valid.
    """
    order, prob, unit, units = ordered
    best, length, ended, chosen = _track_best_rules(prob, unit, units, k, prob.size)
    if ended and not full:
        value, members = _likeliest_world(chosen, prob)
        if members.size < k and value > best + LOG_TIE:
            product, log = _vector_probability(members, prob.size, prob, unit, units)
            return order[members], product, log
    if length == 0:
        return np.empty(0, np.int64), 0.0, -np.inf
    chosen = _track_best_rules(prob, unit, units, k, length)[3]
    members = sorted_values(chosen.pick[chosen.inside])
    product, log = _vector_probability(members, members[k - 1] + 1, prob, unit, units)
    return order[members], product, log


class TupleItems(NamedTuple):
    """The items that can rank in the top k, in rank order, and their units.

    prob : float64[e];  owner, unit : int64[e], tuples and units, numbered by first occurrence
    unit_of : int64[tuples], the unit of each tuple
    absent : float64[units], probability that the unit has no member
    log_rest : log of the probability that no other unit has a member
    """

    prob: np.ndarray
    owner: np.ndarray
    unit: np.ndarray
    unit_of: np.ndarray
    absent: np.ndarray
    log_rest: float


@compiled
def _multiply(log, zero_count, factor, times):
    """Multiply (times 1) or divide (times -1) a product, stored as the log of its positive factors
    and the number of its zeros, by a factor."""
    if factor > 0.0:
        return log + times * math.log(factor), zero_count
    return log, zero_count + times


@inlined
def _add_extensions(reachable, sequence, length, chances):
    """Add Pr(the top tuples are a sequence and then tuple t) to chances[t], for each possible t.

    Returns Pr(only the sequence exists).  O(e + k).
    Let F(x) be the probability that the sequence exists in this order and its last tuple is item x.
    Adding t gives F'(y) = Pr(y) (sum of F(x) over the items x above y). No other tuple may exist
    above y; the probability of this is the product of 1 - (mass above y) over the other units.
    """
    f, taken = np.zeros(length + 1), np.zeros(reachable.absent.size, np.bool_)
    f[0] = 1.0
    member = np.full(reachable.unit_of.size, -1)  # position of each tuple in the sequence
    above, log, zero_count = np.zeros(reachable.absent.size), 0.0, 0
    for j in range(length):
        member[sequence[j]] = j
        taken[reachable.unit_of[sequence[j]]] = True
    for i in range(reachable.prob.size):
        t, u, p = reachable.owner[i], reachable.unit[i], reachable.prob[i]
        if member[t] >= 0:
            f[member[t] + 1] += p * f[member[t]]
        if taken[u]:
            continue
        log, zero_count = _multiply(log, zero_count, 1.0 - min(above[u], 1.0), -1)
        if zero_count == 0:
            chances[t] += p * f[length] * math.exp(log)
        above[u] += p
        log, zero_count = _multiply(log, zero_count, 1.0 - min(above[u], 1.0), 1)
    alone = f[length] * math.exp(reachable.log_rest)
    for u in range(taken.size):
        alone *= 1.0 if taken[u] else reachable.absent[u]
    return alone


@inlined
def _tuple_items(items, k):
    """Return the `TupleItems`, and the indices in `items` of its tuples."""
    order, _, _, end = front_items(items, k, k)
    _, prob, unit, units = _ordered_units(items, np.arange(items.key.size))
    mass = np.zeros(units)
    for x in range(unit.size):
        mass[unit[x]] += prob[x]
    owner, first = number_codes(items.owner[order[:end]], items.tuples)
    own, begin = number_codes(unit[order[:end]], units)
    absent = 1.0 - np.minimum(mass[unit[order[begin]]], 1.0)
    for x in order[:end]:
        mass[unit[x]] = 0.0
    log_rest = 0.0
    for u in range(units):
        log_rest += math.log1p(-mass[u]) if mass[u] < 1.0 else -np.inf
    reachable = TupleItems(prob[order[:end]], owner, own, own[first], absent, log_rest)
    return reachable, items.owner[order[first]]


@inlined
def _likeliest_of_tuples(items, k, full):
    """Return the most probable top-k vector of tuples, int64[<= k] in rank order, and probability.

    Among probabilities that agree to 12 digits, the vector with the better expected keys wins,
    first rank first.  full : see `likeliest_vectors`
    A vector is a sequence of tuples, with any of their alternatives. A longer sequence is the top
    of a subset of the same worlds, so its probability is at most that of the shorter sequence. The
    first complete vector that a best-first search examines is therefore the answer. The probability
    is -1 if MAX_SEQUENCES sequences contain no such vector.  O(e + k) per sequence.
    """
    (reachable, tuples), keys = _tuple_items(items, k), expected_keys(items)
    place = np.empty(tuples.size, np.int64)
    by_tuple = stable_order(tuples)
    for i, t in enumerate(by_tuple[stable_order(keys[tuples[by_tuple]])]):
        place[t] = i
    # Sequence n is sequence parent[n] and then tuple last[n]. Among equally probable sequences,
    # incomplete sequences are examined first.
    parent, last = [np.int64(-1)], [np.int64(-1)]
    waiting = [(-1.0, np.int64(0), np.int64(0), 1.0)]
    size = min(k, tuples.size)
    sequence, best, places = np.empty(size, np.int64), np.empty(0, np.int64), np.empty(0, np.int64)
    found, worth, taken = 0.0, 0.0, 0
    while len(waiting) > 0:
        value, complete, node, chance = heapq.heappop(waiting)
        if found > 0.0 and value > worth:
            break
        length, at = 0, node
        while last[at] >= 0:
            sequence[length] = last[at]
            length += 1
            at = parent[at]
        sequence[:length] = sequence[:length][::-1].copy()
        if complete == 1:
            own = place[sequence[:length]]
            better = found == 0.0 or own.size < places.size
            for j in range(min(own.size, places.size)):
                if own[j] != places[j]:
                    better = own[j] < places[j]
                    break
            if better:
                best, places, found, worth = sequence[:length].copy(), own, chance, value
            continue
        taken += 1
        if taken > MAX_SEQUENCES:
            return best[:0], -1.0
        chances = np.zeros(tuples.size)
        alone = _add_extensions(reachable, sequence, length, chances)
        if not full and alone > 0.0:
            heapq.heappush(waiting, (-round_digits(alone), np.int64(1), node, alone))
        for t in range(tuples.size):
            if chances[t] > 0.0:
                parent.append(node)
                last.append(np.int64(t))
                value, end = -round_digits(chances[t]), np.int64(length + 1 == k)
                heapq.heappush(waiting, (value, end, np.int64(len(last) - 1), chances[t]))
    return tuples[best], found


@compiled
def likeliest_vectors(items, ks, full):
    """Return the most probable top-k vector of tuples for each of `ks`, and its probability.

    full : bool, consider only vectors of k members; if no world has k tuples, the vector is empty
        and has probability 0. Otherwise, the vector of a smaller world is all of its tuples.
    Returns offsets int64[c + 1], the tuples of all vectors in rank order, probabilities float64[c]
    and their logs; `offsets` is empty if a search reached MAX_SEQUENCES.
    """
    offsets, tuples = np.zeros(ks.size + 1, np.int64), np.empty(0, np.int64)
    chance, log = np.empty(ks.size), np.empty(ks.size)
    ordered = _ordered_units(items, stable_order(items.key))
    for c in range(ks.size):
        if items.single:
            found, chance[c], log[c] = _likeliest_of_items(ordered, ks[c], full)
        else:
            found, chance[c] = _likeliest_of_tuples(items, ks[c], full)
            log[c] = math.log(chance[c]) if chance[c] > 0.0 else -np.inf
            if chance[c] < 0.0:
                return offsets[:0], tuples[:0], chance, log
        offsets[c + 1] = offsets[c] + found.size
        tuples = with_room(tuples, offsets[c + 1])
        write_at(tuples, offsets[c], found)
    return offsets, tuples[: offsets[-1]], chance, log
