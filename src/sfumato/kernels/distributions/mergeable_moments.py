"""Mean and variance of COUNT, SUM and AVG over independent tuples, from mergeable partials.

In a channel (one attribute, or count(*)), three numbers represent a tuple: e, the probability that
it exists with a value; mu and var, the mean and variance of that value, given that it exists. The
moments of a sum add up. The moments of the average S / N do not, but for N >= 1

    1/N = integral over u > 0 of exp(-N u) du,        1/N**2 = integral of u exp(-N u) du,

so with t = exp(-u), d_i = 1 - e_i (1 - t) and values taken relative to a centre c,

    E[(S - cN) / N]      = integral of   t F A du                 F = prod d_i
    E[(S - cN)**2 / N**2] = integral of u t F (D + t A**2) du      A = sum e_i mu_i / d_i
                                   D = sum e_i var_i / d_i + e_i (1 - e_i) mu_i**2 / d_i**2

at each of a few fixed nodes u. Over tuples and over sets of tuples, F is a product, and A and D are
sums. No term of D is negative. A change of centre is linear in A and quadratic in D. Tuples that
certainly have a value need no nodes. Merging two sets of any size costs O(NODES).
"""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.arrays import reals
from sfumato.kernels.compile import compiled_ieee, inlined, lean

FIRST_SET = np.int64(0)
COUNT_OF, SUM_OF, AVG_OF, BOUNDARY_OF = 0, 1, 2, 3  # aggregates that are computed from moments
# Per channel: numbers of tuples with e > 0 and with e = 1 (certain; the others are in the nodes);
# sums of e, of e (1 - e), of e mu, of the variance of the tuple's term in S, of mu; log of the
# probability that no uncertain tuple has a value; c; sums of mu - c and var over certain tuples.
MOMENT_SUMS = reals(
    "tuples certain existence count_variance total total_variance boundary absent centre "
    "certain_total certain_variance"
)


def _quadrature_nodes():
    """Return (u, w) such that sum w exp(-k u) and sum w u exp(-k u) are 1/k and 1/k**2.

    The method is the trapezoidal rule after the substitution u = exp(s - exp(-(s + 18) / 2)).
    Error: relative 1e-12 for k = 1 ... 10**7.
    """
    step = 0.275
    s = np.arange(-60.0, 8.0, step)
    with np.errstate(over="ignore", under="ignore"):
        inner = np.exp(-0.5 * (s + 18.0))
        u = np.exp(s - inner)
        weight = step * u * (1.0 + 0.5 * inner)
    used = (u < 42.0) & (weight > 1e-22)
    return u[used], weight[used]


NODE, WEIGHT = _quadrature_nodes()
ONE_MINUS_T = -np.expm1(-NODE)  # 1 - t
NODES = NODE.size
# At the nodes, over uncertain tuples: F, the sum of e / d, A, D, and the coefficients for a change
# of D's centre: the sums of e (1 - e) mu / d**2 and of e (1 - e) / d**2.
NODE_SUMS = np.dtype([(name, float, (NODES,)) for name in ("f", "e", "a", "d", "u", "v")])


class MomentPartials(NamedTuple):
    """Partials of sets of tuples by channel, averaged channels first.

    sums : MOMENT_SUMS[sets, channels]
    nodes : NODE_SUMS[sets, averaged channels]; one row suffices without uncertain tuples
    """

    sums: np.ndarray
    nodes: np.ndarray


@compiled_ieee
def new_set(sets):
    """Return an uninitialised set with the channels of `sets`."""
    channels, averaged = sets.sums.shape[1], sets.nodes.shape[1]
    return MomentPartials(np.empty((1, channels), MOMENT_SUMS), np.empty((1, averaged), NODE_SUMS))


@inlined
def with_sets(sets, size, has_uncertain):
    """Return `sets`, or a copy for `size` or more sets, with separate nodes if `has_uncertain`."""
    have, channels = sets.sums.shape
    if have >= size:
        return sets
    room = size * 5 // 4
    sums = np.zeros((room, channels), MOMENT_SUMS)
    nodes = np.empty((room if has_uncertain else 1, sets.nodes.shape[1]), NODE_SUMS)
    for s in range(have):
        for c in range(channels):
            sums[s, c] = sets.sums[s, c]
    for s in range(min(have, nodes.shape[0])):
        for c in range(nodes.shape[1]):
            nodes[s, c] = sets.nodes[s, c]
    return MomentPartials(sums, nodes)


@lean
def _node_row(sets, s):
    return min(s, sets.nodes.shape[0] - 1)


@lean
def clear_set(sets, s):
    for c in range(sets.sums.shape[1]):
        own = sets.sums[s, c]
        own.tuples = own.certain = own.existence = own.count_variance = 0.0
        own.total = own.total_variance = own.boundary = own.absent = 0.0
        own.centre = own.certain_total = own.certain_variance = 0.0


@lean
def _clear_nodes(nodes):
    for q in range(NODES):
        nodes.f[q] = 1.0
        nodes.e[q] = nodes.a[q] = nodes.d[q] = nodes.u[q] = nodes.v[q] = 0.0


@lean
def add_tuple(per_tuple, i, sets, s):
    """Add tuple i to set s.  O(NODES) per averaged channel with 0 < e < 1, otherwise O(1).

    per_tuple : float64[channels, 3, n], see `tuple_moments`
    """
    for c in range(sets.sums.shape[1]):
        e, mu, var = per_tuple[c, 0, i], per_tuple[c, 1, i], per_tuple[c, 2, i]
        own = sets.sums[s, c]
        if e <= 0.0:
            continue
        if own.tuples == 0.0:
            own.centre = mu
        absent = 1.0 - e
        own.tuples += 1.0
        own.existence += e
        own.count_variance += e * absent
        own.total += e * mu
        own.total_variance += e * var + e * absent * mu * mu
        own.boundary += mu
        centred = mu - own.centre
        if e == 1.0:
            own.certain += 1.0
            own.certain_total += centred
            own.certain_variance += var
            continue
        own.absent += np.log1p(-e)
        if c < sets.nodes.shape[1]:
            nodes = sets.nodes[_node_row(sets, s), c]
            if own.tuples - own.certain == 1.0:
                _clear_nodes(nodes)
            _add_to_nodes(e, centred, var, nodes)


@inlined
def _add_to_nodes(e, mu, var, nodes):
    noise, mixed = e * var, e * (1.0 - e)
    f, sum_e, sum_a, sum_d, sum_u, sum_v = nodes.f, nodes.e, nodes.a, nodes.d, nodes.u, nodes.v
    for q in range(NODES):
        d = 1.0 - e * ONE_MINUS_T[q]
        inverse = 1.0 / d
        v = mixed * inverse * inverse
        u = v * mu
        share = e * inverse
        f[q] *= d
        sum_e[q] += share
        sum_a[q] += share * mu
        sum_v[q] += v
        sum_u[q] += u
        sum_d[q] += noise * inverse + u * mu


@lean
def _has_nodes(sets, s, c):
    """Return whether a channel's nodes are in use."""
    return c < sets.nodes.shape[1] and sets.sums[s, c].tuples > sets.sums[s, c].certain


@lean
def _copy_channel(source, s, to, t, c):
    to.sums[t, c] = source.sums[s, c]
    if _has_nodes(source, s, c):
        to.nodes[_node_row(to, t), c] = source.nodes[_node_row(source, s), c]


@lean
def copy_set(source, s, to, t):
    for c in range(source.sums.shape[1]):
        _copy_channel(source, s, to, t, c)


@inlined
def _recentre(sets, s, c, centre):
    own = sets.sums[s, c]
    shift = centre - own.centre
    own.centre = centre
    own.certain_total -= shift * own.certain
    if shift == 0.0 or not _has_nodes(sets, s, c):
        return
    nodes = sets.nodes[_node_row(sets, s), c]
    a, d, e, u, v = nodes.a, nodes.d, nodes.e, nodes.u, nodes.v
    for q in range(NODES):
        d[q] = max(d[q] + shift * (shift * v[q] - 2.0 * u[q]), 0.0)
        a[q] -= shift * e[q]
        u[q] -= shift * v[q]


@inlined
def _merge_nodes(nodes, shift, to):
    f, e, a, d, u, v = nodes.f, nodes.e, nodes.a, nodes.d, nodes.u, nodes.v
    to_f, to_e, to_a, to_d, to_u, to_v = to.f, to.e, to.a, to.d, to.u, to.v
    for q in range(NODES):
        to_f[q] *= f[q]
        to_e[q] += e[q]
        to_v[q] += v[q]
        to_d[q] += max(d[q] + shift * (shift * v[q] - 2.0 * u[q]), 0.0)
        to_a[q] += a[q] - shift * e[q]
        to_u[q] += u[q] - shift * v[q]


@lean
def merge_set(source, s, to, t):
    """Add the tuples of set s to set t; s is unchanged, t gets the weighted mean of the centres.

    O(NODES) per averaged channel with uncertain tuples, otherwise O(1).
    """
    for c in range(source.sums.shape[1]):
        own, other = source.sums[s, c], to.sums[t, c]
        if own.tuples == 0.0:
            continue
        if other.tuples == 0.0:
            _copy_channel(source, s, to, t, c)
            continue
        share = own.tuples / (own.tuples + other.tuples)
        centre = other.centre + (own.centre - other.centre) * share
        _recentre(to, t, c, centre)
        shift, before = centre - own.centre, _has_nodes(to, t, c)
        other.tuples += own.tuples
        other.certain += own.certain
        other.existence += own.existence
        other.count_variance += own.count_variance
        other.total += own.total
        other.total_variance += own.total_variance
        other.boundary += own.boundary
        other.absent += own.absent
        other.certain_total += own.certain_total - shift * own.certain
        other.certain_variance += own.certain_variance
        if _has_nodes(source, s, c):
            nodes = to.nodes[_node_row(to, t), c]
            if not before:
                _clear_nodes(nodes)
            _merge_nodes(source.nodes[_node_row(source, s), c], shift, nodes)


@inlined
def _average(sets, s, c):
    """Return (mean, standard deviation, existence) of the average; NaN, NaN, 0 without tuples.

    Cost: O(NODES) if there are uncertain tuples, otherwise O(1).
    Error: existence relative 1e-15 n; mean 1e-11 standard deviations of the values; variance 1e-11
    relative plus 1e-15 of the values' variance, for up to 10**7 uncertain tuples.
    """
    own = sets.sums[s, c]
    n, certain = own.tuples, own.certain
    if n == 0.0:
        return np.nan, np.nan, 0.0
    if n == certain:
        return own.centre + own.certain_total / n, np.sqrt(own.certain_variance) / n, 1.0
    nodes = sets.nodes[_node_row(sets, s), c]
    existence = 1.0 if certain > 0.0 else -np.expm1(own.absent)
    first = 0.0
    for q in range(NODES):
        # d = t for certain tuples, so t A = t * (A of uncertain tuples) + certain_total
        t, chance = 1.0 - ONE_MINUS_T[q], nodes.f[q]
        if certain > 0.0:
            chance *= np.exp(-NODE[q] * certain)
        first += WEIGHT[q] * chance * (t * nodes.a[q] + own.certain_total)
    shift = first / existence
    second = 0.0
    for q in range(NODES):
        t, chance = 1.0 - ONE_MINUS_T[q], nodes.f[q]
        if certain > 0.0:
            chance *= np.exp(-NODE[q] * certain)
        a = t * (nodes.a[q] - shift * nodes.e[q]) + (own.certain_total - shift * certain)
        d = nodes.d[q] + shift * (shift * nodes.v[q] - 2.0 * nodes.u[q])
        inner = t * max(d, 0.0) + own.certain_variance + a * a
        second += WEIGHT[q] * NODE[q] * chance * inner
    return own.centre + shift, np.sqrt(second / existence), existence


@compiled_ieee
def measure(what, sets, s, c):
    """Return (mean, standard deviation, existence) of COUNT_OF, SUM_OF, AVG_OF or BOUNDARY_OF."""
    own = sets.sums[s, c]
    if what == COUNT_OF:
        return own.existence, np.sqrt(own.count_variance), 1.0
    if what == SUM_OF:
        return own.total, np.sqrt(own.total_variance), 1.0
    if what == BOUNDARY_OF:
        return own.boundary, 0.0, 1.0
    return _average(sets, s, c)
