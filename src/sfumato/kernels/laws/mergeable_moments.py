"""Mean and variance of COUNT, SUM and AVG over independent tuples, by partials that just add up.

A tuple enters a channel (one attribute, or count(*)) as three numbers: e, the probability that it
exists with a value; mu and var, the mean and variance of that value given that it does. The sum's
moments then add up. The average S / N does not, but with N >= 1

    1/N = integral over u > 0 of exp(-N u) du,        1/N**2 = integral of u exp(-N u) du,

so with t = exp(-u), d_i = 1 - e_i (1 - t) and values taken relative to a centre c,

    E[(S - cN) / N]      = integral of   t F A du                 F = prod d_i
    E[(S - cN)**2 / N**2] = integral of u t F (D + t A**2) du      A = sum e_i mu_i / d_i
                                   D = sum e_i var_i / d_i + e_i (1 - e_i) mu_i**2 / d_i**2

at each of some fixed nodes u: F multiplies, A and D add over tuples and over sets of tuples, no
term of D is negative, and a change of centre is linear in A and quadratic in D. Tuples that are
certain to have a value need no nodes. Merging two sets costs O(NODES), whatever their sizes; the
recursion over (count; probability, first, second moment) would cost O(n) a tuple and O(n**2) a
merge, for the same numbers.
"""

from __future__ import annotations

import numpy as np

from sfumato.kernels.compile import compiled_ieee

# Places in a channel's scalars. "Certain" tuples have e = 1; the others feed the nodes.
TUPLES, CERTAIN = 0, 1  # tuples with e > 0, and those with e = 1
EXISTENCE, COUNT_VARIANCE = 2, 3  # sum of e, of e (1 - e)
SUM, SUM_VARIANCE, BOUNDARY = 4, 5, 6  # sum of e mu; of its variance; of mu
ABSENT = 7  # log of the probability that none of the uncertain tuples has a value
CENTRE, CERTAIN_SUM, CERTAIN_VARIANCE = 8, 9, 10  # c; sum of mu - c and of var, certain tuples
SCALARS = 11
# Rows of a channel's nodes, uncertain tuples only; U and V make D's change of centre.
F, E, A, D, U, V = 0, 1, 2, 3, 4, 5
ROWS = 6
# What is asked for: the functions of aggregates that are moments.
COUNT_OF, SUM_OF, AVG_OF, BOUNDARY_OF = 0, 1, 2, 3


def _nodes():
    """(u, weight) such that sum w exp(-k u) and sum w u exp(-k u) are 1/k and 1/k**2.

    The trapezoidal rule after u = exp(s - exp(-(s + 18) / 2)). Relative error below 1e-12 for
    k = 1 ... 10**7; a test holds it.
    """
    step = 0.275
    s = np.arange(-60.0, 8.0, step)
    with np.errstate(over="ignore", under="ignore"):
        inner = np.exp(-0.5 * (s + 18.0))
        u = np.exp(s - inner)
        weight = step * u * (1.0 + 0.5 * inner)
    used = (u < 42.0) & (weight > 1e-22)
    return u[used], weight[used]


NODE, WEIGHT = _nodes()
RISE = -np.expm1(-NODE)  # 1 - t
NODES = NODE.size


@compiled_ieee
def lift(offsets, prob, values, existence, e, mu, var):
    """What tuples are to a channel: e, mu and var, written; mu = var = 0 where e = 0.

    offsets : int64[n + 1]    prob, values : float64[m], NaN: no value
    existence : float64[n], see `existences`    e, mu, var : float64[n]
    e is exactly 1 for a tuple of existence 1 with a value in each alternative.  O(m).
    """
    n = offsets.size - 1
    for i in range(n):
        e[i], mu[i], var[i] = 0.0, 0.0, 0.0
        total, first, missing = 0.0, np.nan, False
        for k in range(offsets[i], offsets[i + 1]):
            v = values[k]
            if np.isnan(v):
                missing = True
                continue
            if np.isnan(first):
                first = v
            total += prob[k]
            mu[i] += prob[k] * (v - first)
        if total == 0.0:
            continue
        mu[i] = first + mu[i] / total
        for k in range(offsets[i], offsets[i + 1]):
            v = values[k]
            if not np.isnan(v):
                var[i] += prob[k] * (v - mu[i]) ** 2
        var[i] /= total
        e[i] = min(total, existence[i]) if missing else existence[i]
    return e, mu, var


@compiled_ieee
def clear_nodes(nodes):
    """Make nodes those of no tuples (scalars of no tuples are 0)."""
    for q in range(nodes.shape[1]):
        nodes[F, q] = 1.0
        for r in range(1, ROWS):
            nodes[r, q] = 0.0


@compiled_ieee
def add_tuple(e, mu, var, rise, averaged, scalars, nodes):
    """Add one tuple to a channel's partial.  O(q) if `averaged` and 0 < e < 1, else O(1).

    rise : float64[q], 1 - t at the nodes    averaged : whether the nodes are used at all
    scalars : float64[SCALARS]    nodes : float64[ROWS, q], cleared before the first tuple
    """
    if e <= 0.0:
        return
    if scalars[TUPLES] == 0.0:
        scalars[CENTRE] = mu
    absent = 1.0 - e
    scalars[TUPLES] += 1.0
    scalars[EXISTENCE] += e
    scalars[COUNT_VARIANCE] += e * absent
    scalars[SUM] += e * mu
    scalars[SUM_VARIANCE] += e * var + e * absent * mu * mu
    scalars[BOUNDARY] += mu
    centred = mu - scalars[CENTRE]
    if e == 1.0:
        scalars[CERTAIN] += 1.0
        scalars[CERTAIN_SUM] += centred
        scalars[CERTAIN_VARIANCE] += var
        return
    scalars[ABSENT] += np.log1p(-e)
    if averaged:
        add_to_nodes(e, centred, var, rise, nodes)


@compiled_ieee
def add_to_nodes(e, mu, var, rise, nodes):
    """Add one tuple of existence below 1 to the nodes, mu relative to the centre.  O(q)."""
    noise, mixed = e * var, e * (1.0 - e)
    f, sum_e, sum_a = nodes[F], nodes[E], nodes[A]
    sum_d, sum_u, sum_v = nodes[D], nodes[U], nodes[V]
    for q in range(rise.size):
        d = 1.0 - e * rise[q]
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


@compiled_ieee
def copy_set(scalars, nodes, averaged, to_scalars, to_nodes):
    """Copy one partial onto another; its nodes only if there are any in use."""
    for j in range(SCALARS):
        to_scalars[j] = scalars[j]
    if averaged and scalars[TUPLES] > scalars[CERTAIN]:
        for r in range(nodes.shape[0]):
            for q in range(nodes.shape[1]):
                to_nodes[r, q] = nodes[r, q]


@compiled_ieee
def recentre(scalars, nodes, averaged, centre):
    """Take a partial's values relative to another centre."""
    shift = centre - scalars[CENTRE]
    scalars[CENTRE] = centre
    scalars[CERTAIN_SUM] -= shift * scalars[CERTAIN]
    if shift == 0.0 or not averaged or scalars[TUPLES] == scalars[CERTAIN]:
        return
    for q in range(nodes.shape[1]):
        nodes[D, q] = max(nodes[D, q] + shift * (shift * nodes[V, q] - 2.0 * nodes[U, q]), 0.0)
        nodes[A, q] -= shift * nodes[E, q]
        nodes[U, q] -= shift * nodes[V, q]


@compiled_ieee
def merge_sets(scalars, nodes, averaged, to_scalars, to_nodes):
    """Add the tuples of one partial (kept) to another, relative to the mean of both centres.

    O(q) if `averaged` and there are uncertain tuples, else O(1).
    """
    n, m = scalars[TUPLES], to_scalars[TUPLES]
    if n == 0.0:
        return
    if m == 0.0:
        copy_set(scalars, nodes, averaged, to_scalars, to_nodes)
        return
    here, there = scalars[CENTRE], to_scalars[CENTRE]
    centre = there + (here - there) * (n / (n + m))
    recentre(to_scalars, to_nodes, averaged, centre)
    shift = centre - here
    uncertain, before = n > scalars[CERTAIN], m > to_scalars[CERTAIN]
    for j in range(CENTRE):
        to_scalars[j] += scalars[j]
    to_scalars[CERTAIN_SUM] += scalars[CERTAIN_SUM] - shift * scalars[CERTAIN]
    to_scalars[CERTAIN_VARIANCE] += scalars[CERTAIN_VARIANCE]
    if not (averaged and uncertain):
        return
    if not before:
        clear_nodes(to_nodes)
    for q in range(nodes.shape[1]):
        v, u, e = nodes[V, q], nodes[U, q], nodes[E, q]
        to_nodes[F, q] *= nodes[F, q]
        to_nodes[E, q] += e
        to_nodes[V, q] += v
        to_nodes[D, q] += max(nodes[D, q] + shift * (shift * v - 2.0 * u), 0.0)
        to_nodes[A, q] += nodes[A, q] - shift * e
        to_nodes[U, q] += u - shift * v


@compiled_ieee
def average(scalars, nodes, node, weight, rise):
    """(mean, standard deviation, existence) of the average; NaN, NaN, 0 of no tuples.

    node, weight, rise : float64[q], see `NODE`, `WEIGHT`, `RISE`
    Cost: O(q) if there are uncertain tuples, else O(1).
    Error: existence relative 1e-15 n; the mean's is below 1e-11 standard deviations of the values,
    that of the variance below 1e-11 of itself and 1e-15 of the values' variance, for up to 10**7
    uncertain tuples.
    """
    n, certain = scalars[TUPLES], scalars[CERTAIN]
    if n == 0.0:
        return np.nan, np.nan, 0.0
    if n == certain:
        mean = scalars[CENTRE] + scalars[CERTAIN_SUM] / n
        return mean, np.sqrt(scalars[CERTAIN_VARIANCE]) / n, 1.0
    existence = 1.0 if certain > 0.0 else -np.expm1(scalars[ABSENT])
    first = 0.0
    for q in range(node.size):
        # t * F, the t of certain tuples divided out of A and E where these have one: t F / t = F
        t, chance = 1.0 - rise[q], nodes[F, q]
        if certain > 0.0:
            chance *= np.exp(-node[q] * certain)
        first += weight[q] * chance * (t * nodes[A, q] + scalars[CERTAIN_SUM])
    shift = first / existence
    second = 0.0
    for q in range(node.size):
        t, chance = 1.0 - rise[q], nodes[F, q]
        if certain > 0.0:
            chance *= np.exp(-node[q] * certain)
        a = t * (nodes[A, q] - shift * nodes[E, q]) + (scalars[CERTAIN_SUM] - shift * certain)
        d = nodes[D, q] + shift * (shift * nodes[V, q] - 2.0 * nodes[U, q])
        inner = t * max(d, 0.0) + scalars[CERTAIN_VARIANCE] + a * a
        second += weight[q] * node[q] * chance * inner
    return scalars[CENTRE] + shift, np.sqrt(second / existence), existence


@compiled_ieee
def measure(what, scalars, nodes, node, weight, rise):
    """(mean, standard deviation, existence) of COUNT_OF, SUM_OF, AVG_OF or BOUNDARY_OF."""
    if what == COUNT_OF:
        return scalars[EXISTENCE], np.sqrt(scalars[COUNT_VARIANCE]), 1.0
    if what == SUM_OF:
        return scalars[SUM], np.sqrt(scalars[SUM_VARIANCE]), 1.0
    if what == BOUNDARY_OF:
        return scalars[BOUNDARY], 0.0, 1.0
    return average(scalars, nodes, node, weight, rise)
