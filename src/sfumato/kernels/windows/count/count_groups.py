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


@compiled
def _without_arrivals(tuples, arrivals):
    offsets, prob, value, first = tuples
    return WindowTuples(offsets[: offsets.size - arrivals], prob, value, first)


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
        begin = held.size - (last - first)
        boundary = slide_boundary(boundary, held, begin, rule, status[j], heads[first:last])
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
    header, scalars = stacks.front.header[0], stacks.front.scalars[0]
    for j in range(span[0], span[1]):
        tuples = _group_tuples(groups, value, j)
        first, last = groups.arrivals[j], groups.arrivals[j + 1]
        if fresh:
            header.built = 0
            if middle[j] >= 0:
                scalars.reference, scalars.ratio = numbers[j, 0], numbers[j, 1]
                scalars.count = numbers[j, 2]
                position = max(middle[j] - tuples.first, 0)
                stacks = resume_moments(
                    stacks, _without_arrivals(tuples, last - first), position, w
                )
        own = Distributions(places[first : last + 1], prob, counts)
        stacks, (_, prob, counts) = slide_moments(
            stacks, tuples, heads[first:last], w, limit, out[first:last], own
        )
        middle[j], numbers[j, 0], numbers[j, 1] = header.mid, scalars.reference, scalars.ratio
        numbers[j, 2] = scalars.count
    return stacks, Distributions(places, prob, counts)


@compiled
def move_extremes(state, groups, value, span, fresh, sizes, heads, middle, numbers, distributions):
    """Advance one extreme of groups by `slide_extremes`; return ExtremesState and Distributions.

    Arguments as in `move_sums`; numbers : float64[g, 2], floor and limit of the candidates
    """
    (w, limit), (places, prob, found) = sizes, distributions
    header, scalars = state.header[0], state.scalars[0]
    for j in range(span[0], span[1]):
        tuples = _group_tuples(groups, value, j)
        first, last = groups.arrivals[j], groups.arrivals[j + 1]
        existence = groups.existence[groups.begin[j] : groups.begin[j + 1]]
        if fresh:
            header.built, header.want = 0, 0
            if middle[j] >= 0:
                scalars.floor, header.limit = numbers[j, 0], np.int64(numbers[j, 1])
                held = _without_arrivals(tuples, last - first)
                position = max(middle[j] - tuples.first, 0)
                state = resume_extremes(state, held, existence, position, w)
        own = Distributions(places[first : last + 1], prob, found)
        state, (_, prob, found) = slide_extremes(
            state, tuples, existence, heads[first:last], w, limit, own
        )
        middle[j], numbers[j, 0], numbers[j, 1] = header.mid, scalars.floor, header.limit
    return state, Distributions(places, prob, found)


@compiled
def _running_sums(x, first, mid, heads, begin, out):
    """Write the sum of x over the held tuples after each arrival; return the new `mid`.

    x : float64[n], held tuples, then arrivals from position `begin`;  out : float64[n - begin]
    first, mid : stream indices of position 0 and of the front stack's end
    The two stacks are suffix sums and one growing sum, so nothing is ever subtracted.
    Cost: O(1) amortised.
    """
    older = np.zeros(max(mid - first, 0) + 1)
    for i in range(older.size - 2, -1, -1):
        older[i] = older[i + 1] + x[i]
    newer = 0.0
    for i in range(max(mid - first, 0), begin):
        newer += x[i]
    start = 0  # position of older[0]
    for t in range(heads.size):
        i = begin + t
        if heads[t] > mid - first:
            mid, start, newer = first + i, heads[t], 0.0
            older = np.zeros(i - start + 1)
            for j in range(older.size - 2, -1, -1):
                older[j] = older[j + 1] + x[start + j]
        newer += x[i]
        out[t] = newer + older[heads[t] - start]
    return mid


@compiled
def move_running_sums(means, groups, heads, middle, out):
    """Write `_running_sums` of all groups; means : float64[n]; out : float64[arrivals]."""
    for j in range(groups.first.size):
        first, last = groups.arrivals[j], groups.arrivals[j + 1]
        own = means[groups.begin[j] : groups.begin[j + 1]]
        middle[j] = _running_sums(
            own, groups.first[j], middle[j], heads[first:last], own.size - (last - first),
            out[first:last],
        )  # fmt: skip


@compiled_ieee
def certain_totals(groups, value, sign, order, w, totals, counts):
    """Write the sum, maximum or minimum of a value in windows of the w newest certain tuples.

    A group's stream is cut into blocks of w tuples. A window is a suffix of one block and a prefix
    of the next. Therefore nothing is subtracted, and answers do not depend on how arrivals are
    divided into calls.

    value : float64[n], of each tuple; NaN for no value    sign : 0 sum, 1 maximum, -1 minimum
    order : int64[arrivals], the arrivals of the groups one after another
    counts : int64[arrivals], written: the numbers of values
    totals : float64[arrivals], written; without a value, 0 for a sum, otherwise NaN
    O(1) per arrival and held tuple.  Source: prefixes and suffixes of blocks, van Herk (1992).
    """
    total, count = np.empty(w + 1), np.empty(w + 1, np.int64)  # of the previous block's suffixes
    none = 0.0 if sign == 0.0 else np.nan
    total[w], count[w], steps = none, 0, np.int64(0)
    for j in range(groups.first.size):
        x = value[groups.begin[j] : groups.begin[j + 1]]
        first = groups.arrivals[j]
        arrived = x.size - (groups.arrivals[j + 1] - first)
        steps = after_signals(steps + x.size)
        newest, many, place, second = none, 0, groups.first[j] % w, False
        for i in range(x.size):
            if place == w:
                place = 0
            if place == 0:
                newest, many, second = none, 0, i > 0
                for k in range(min(w, i)):
                    older, at = x[i - 1 - k], w - 1 - k
                    total[at], count[at] = total[at + 1], count[at + 1]
                    if older == older:
                        total[at], count[at] = add_to_total(sign, total[at], older), count[at] + 1
            if x[i] == x[i]:
                newest, many = add_to_total(sign, newest, x[i]), many + 1
            place += 1
            if i >= arrived:
                t = order[first + i - arrived]
                totals[t] = add_to_total(sign, newest, total[place]) if second else newest
                counts[t] = many + count[place] if second else many
