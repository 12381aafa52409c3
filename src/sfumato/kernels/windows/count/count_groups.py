"""Count windows of many groups, advanced by their arrivals in one call.

A group consists of its held tuples and a few numbers that cannot be derived from them. The
distributions are rebuilt from this state at each call, in arrays shared by all groups. If
rebuilding a long window would take longer than processing its arrivals, its distributions are kept:
the caller passes them for one group at a time, and the kernels continue with them. The answers are
the same bit for bit.
"""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.compile import compiled, compiled_ieee, lean
from sfumato.kernels.distributions.discrete_distribution import Distributions
from sfumato.kernels.distributions.tuples import WindowTuples, existences
from sfumato.kernels.signals import after_signals
from sfumato.kernels.windows.count.count_boundary import slide_boundary
from sfumato.kernels.windows.count.count_extremes import resume_extremes, slide_extremes
from sfumato.kernels.windows.count.count_moments import resume_moments, slide_moments
from sfumato.kernels.windows.totals import add_to_total


class PackedTuples(NamedTuple):
    """n concatenated tuples: offsets int64[n + 1], prob float64[m], values float64[a, m]."""

    offsets: np.ndarray
    prob: np.ndarray
    values: np.ndarray


class Groups(NamedTuple):
    """Concatenated tuples of g groups: for each its held tuples, then its arrivals.

    tuples : PackedTuples    existence : float64[n]
    begin : int64[g + 1], position of each group's first tuple;  first : int64[g], its stream index
    arrivals : int64[g + 1], number of each group's first arrival
    """

    tuples: PackedTuples
    existence: np.ndarray
    begin: np.ndarray
    first: np.ndarray
    arrivals: np.ndarray


@lean
def _append(source, begin, end, to, place, at):
    """Copy tuples [begin, end) to `place`, alternatives to `at`; return the alternatives' end."""
    shift, low, high = at - source.offsets[begin], source.offsets[begin], source.offsets[end]
    for i in range(begin, end):
        to.offsets[place + i - begin + 1] = source.offsets[i + 1] + shift
    for a in range(low, high):
        to.prob[a + shift] = source.prob[a]
    for c in range(to.values.shape[0]):
        old, new = source.values[c], to.values[c]
        for a in range(low, high):
            new[a + shift] = old[a]
    return high + shift


@compiled
def gather_tuples(store, begin, held, batch, order, starts):
    """Return the concatenated tuples of g groups: PackedTuples.

    store : PackedTuples, in which group j has held[j] tuples starting at begin[j]
    batch : PackedTuples, of which order[starts[j] : starts[j + 1]] follow the held ones
    """
    n, m = order.size, np.int64(0)
    for j in range(begin.size):
        n += held[j]
        m += store.offsets[begin[j] + held[j]] - store.offsets[begin[j]]
    single = batch.prob.size == batch.offsets.size - 1  # tuples with one alternative each
    if single:
        m += order.size
    else:
        for i in order:
            m += batch.offsets[i + 1] - batch.offsets[i]
    found = PackedTuples(
        np.zeros(n + 1, np.int64), np.empty(m), np.empty((store.values.shape[0], m))
    )
    places = np.empty(order.size if single else 0, np.int64)
    place, at = np.int64(0), np.int64(0)
    for j in range(begin.size):
        at = _append(store, begin[j], begin[j] + held[j], found, place, at)
        place += held[j]
        for t in range(starts[j], starts[j + 1]):
            if single:
                found.offsets[place + 1], places[order[t]] = at + 1, at
                at += 1
            else:
                at = _append(batch, order[t], order[t] + 1, found, place, at)
            place += 1
    for i in range(places.size):  # in order of arrival, for the cache
        found.prob[places[i]] = batch.prob[i]
    for c in range(batch.values.shape[0]):
        old, new = batch.values[c], found.values[c]
        for i in range(places.size):
            new[places[i]] = old[i]
    return found


@compiled
def gather_groups(store, begin, held, arrived, batch, order, starts):
    """Return the Groups of a call; arrived : int64[g], number of earlier tuples of each group."""
    tuples = gather_tuples(store, begin, held, batch, order, starts)
    at = np.zeros(begin.size + 1, np.int64)
    for j in range(begin.size):
        at[j + 1] = at[j] + held[j] + starts[j + 1] - starts[j]
    return Groups(tuples, existences(tuples.offsets, tuples.prob), at, arrived - held, starts)


@compiled
def _group_tuples(groups, value, j):
    """Return group j's tuples with the given values of all alternatives."""
    begin, end, tuples = groups.begin[j], groups.begin[j + 1], groups.tuples
    return WindowTuples(tuples.offsets[begin : end + 1], tuples.prob, value, groups.first[j])


@lean
def _held(groups, j):
    """Return the number of group j's tuples before its arrivals."""
    return groups.begin[j + 1] - groups.begin[j] - (groups.arrivals[j + 1] - groups.arrivals[j])


@compiled
def move_boundaries(boundary, groups, span, fresh, rule, status, heads):
    """Advance groups span[0] ... span[1] - 1 by `slide_boundary`; return the new Boundary.

    fresh : bool, rebuild the distributions; otherwise `boundary` belongs to the only group
    status : int64[g, 2], see `slide_boundary`
    heads : int64[arrivals], written, positions of the oldest held tuples in the group
    """
    for j in range(span[0], span[1]):
        held = groups.existence[groups.begin[j] : groups.begin[j + 1]]
        first, last = groups.arrivals[j], groups.arrivals[j + 1]
        if fresh:
            boundary.header[0].built = 0
        boundary = slide_boundary(
            boundary, held, _held(groups, j), rule, status[j], heads[first:last]
        )
    return boundary


@compiled
def move_sums(
    stacks, groups, value, span, fresh, sizes, heads, middle, numbers, out, distributions
):
    """Advance one sum of groups by `slide_moments`; return the new Stacks and Distributions.

    value : float64[m], of each alternative    sizes : (w, limit) of `slide_moments`
    span, fresh : as in `move_boundaries`
    middle : int64[g], updated: the front stack's end, or -1 if there is none
    numbers : float64[g, 3], updated: FRONT_SCALARS    out : MOMENTS[arrivals], written
    """
    (w, limit), (places, prob, counts) = sizes, distributions
    header = stacks.front.header[0]
    for j in range(span[0], span[1]):
        tuples = _group_tuples(groups, value, j)
        first, last = groups.arrivals[j], groups.arrivals[j + 1]
        if fresh:
            header.built = 0
            if middle[j] >= 0:
                header.reference, header.ratio = numbers[j, 0], numbers[j, 1]
                header.count = numbers[j, 2]
                mid = max(middle[j] - tuples.first, 0)
                stacks = resume_moments(stacks, tuples, mid, _held(groups, j), w)
        own = Distributions(places[first : last + 1], prob, counts)
        stacks, (_, prob, counts) = slide_moments(
            stacks, tuples, heads[first:last], w, limit, out[first:last], own
        )
        middle[j], numbers[j, 0] = header.mid, header.reference
        numbers[j, 1], numbers[j, 2] = header.ratio, header.count
    return stacks, Distributions(places, prob, counts)


@compiled
def move_extremes(state, groups, value, span, fresh, sizes, heads, middle, numbers, distributions):
    """Advance one extreme of groups by `slide_extremes`; return ExtremesState and Distributions.

    Arguments as in `move_sums`; numbers : float64[g, 2], floor and limit of the candidates
    """
    (w, limit), (places, prob, found) = sizes, distributions
    header = state.header[0]
    for j in range(span[0], span[1]):
        tuples = _group_tuples(groups, value, j)
        first, last = groups.arrivals[j], groups.arrivals[j + 1]
        existence = groups.existence[groups.begin[j] : groups.begin[j + 1]]
        if fresh:
            header.built, header.want = 0, 0
            if middle[j] >= 0:
                header.floor, header.limit = numbers[j, 0], np.int64(numbers[j, 1])
                mid = max(middle[j] - tuples.first, 0)
                state = resume_extremes(state, tuples, existence, mid, _held(groups, j), w)
        own = Distributions(places[first : last + 1], prob, found)
        state, (_, prob, found) = slide_extremes(
            state, tuples, existence, heads[first:last], w, limit, own
        )
        middle[j], numbers[j, 0], numbers[j, 1] = header.mid, header.floor, header.limit
    return state, Distributions(places, prob, found)


@lean
def _fill_front(x, sign, head, mid, total, count):
    """Write the totals and numbers of the values in x[i:mid] to mid - i, for i >= `head`."""
    total[0], count[0] = 0.0 if sign == 0.0 else np.nan, 0
    for k in range(1, mid - head + 1):
        total[k], count[k] = total[k - 1], count[k - 1]
        if x[mid - k] == x[mid - k]:
            total[k], count[k] = add_to_total(sign, total[k], x[mid - k]), count[k] + 1


@compiled_ieee
def move_totals(groups, value, sign, order, heads, middle, totals, counts):
    """Write the sum, maximum or minimum of a value over the held tuples after each arrival.

    The front stack has suffix totals, and the back stack one growing total. Therefore nothing is
    subtracted, and answers do not depend on how arrivals are divided into calls.

    value : float64[n], of each tuple; NaN for no value    sign : 0 sum, 1 maximum, -1 minimum
    order : int64[arrivals], where to write the answers    heads : as in `move_boundaries`
    middle : int64[g], updated, stream index of the front stack's end, or -1
    totals : float64[arrivals], written; without a value, 0 for a sum, otherwise NaN
    counts : int64[arrivals], written: the numbers of values
    O(1) amortised per arrival and held tuple.
    """
    none, steps = 0.0 if sign == 0.0 else np.nan, np.int64(0)
    front, numbers = np.empty(value.size + 1), np.empty(value.size + 1, np.int64)
    for j in range(groups.first.size):
        x = value[groups.begin[j] : groups.begin[j + 1]]
        begin, mid = _held(groups, j), max(middle[j] - groups.first[j], 0)
        newest, many = none, 0
        _fill_front(x, sign, 0, mid, front, numbers)
        steps = after_signals(steps + x.size)
        for i in range(mid, x.size):
            t = groups.arrivals[j] + i - begin
            if i >= begin and heads[t] > mid:  # the front stack is used up
                mid, newest, many = i, none, 0
                _fill_front(x, sign, heads[t], mid, front, numbers)
            if x[i] == x[i]:
                newest, many = add_to_total(sign, newest, x[i]), many + 1
            if i >= begin:
                older = mid - heads[t]
                totals[order[t]] = add_to_total(sign, newest, front[older])
                counts[order[t]] = many + numbers[older]
        middle[j] = groups.first[j] + mid
