"""What each semantics ranks tuples by: Pr_k, rank probabilities, expected ranks, ranking functions.

Of items checked and ranked; one value a tuple, or one for each k.
"""

from typing import Any, NamedTuple

import numpy as np

from sfumato.kernels.laws.existence import reaches_all
from sfumato.kernels.ranking.best_of_columns import ranked_as
from sfumato.kernels.ranking.rank_law import likeliest_at_ranks, rank_laws, weigh_ranks
from sfumato.kernels.ranking.rank_moments import expected_rank_sums, exponential_ranks
from sfumato.kernels.ranking.top_k_probability import Tails, sum_by_tuple, top_k_tails
from sfumato.kernels.ranking.u_topk import likeliest_vector
from sfumato.operators.arrays import Floats, Ints
from sfumato.operators.ranking.ranked_items import RankedItems, checked_k

MANY = 8  # from so many k on, smaller leaves of the tree are quicker
BLOCKS = (32, 16)


class Likeliest(NamedTuple):
    """Tuples with the probability that each of them answers the question."""

    indices: Ints
    probability: Floats


class Vector(NamedTuple):
    """A top-k vector: items in rank order, and the probability that just they are the top k."""

    indices: Ints
    probability: float
    log_probability: float


def probabilities(items: RankedItems, k: Any) -> Floats:
    """top_k_probabilities of checked items."""
    wanted = np.array([checked_k(each) for each in np.asarray(k).reshape(-1).tolist()], np.int64)
    if np.ndim(k) > 1 or not wanted.size:
        raise ValueError(f"`k` must be a whole number or a list of them; got {k!r:.80}")
    ks, column = np.unique(wanted, return_inverse=True)
    if items.single:  # straight into place: with many k, a copy takes longer than the kernel
        out = np.zeros((items.tuples, ks.size))
        _tails(items, ks, out)
    else:
        tuples, values = front_probabilities(items, ks)
        out = np.zeros((items.tuples, ks.size))
        out[tuples] = values
    if not np.array_equal(ks, wanted):
        out = out[:, column.reshape(-1)]
    return out[:, 0] if np.ndim(k) == 0 else out


def front_probabilities(items: RankedItems, ks: Ints) -> tuple[Ints, Floats]:
    """The tuples whose Pr_k is not negligible, by expected score, and float64[t, c] of their Pr_k.

    ks : int64[c], ascending, each at least 1.  There are at least min(k, all) such tuples.
    """
    order, tails = _tails(items, ks)
    if items.single:
        return order, tails
    tuples, values = sum_by_tuple(items.item_tuple[order], items.tuples, tails)
    by_score = np.lexsort((tuples, items.key_of(tuples)))
    return tuples[by_score], values[by_score]


def _tails(items: RankedItems, ks: Ints, out: Floats | None = None) -> tuple[Ints, Floats]:
    """The items whose Pr_k is not negligible, in rank order, and their Pr_k.

    out : float64[items, c] of zeros, filled and returned; None: a row for each of these only
    """
    ranked = items.factored(int(ks[0]), int(ks[-1]))
    block, end = BLOCKS[ks.size >= MANY], ranked.end
    place = ranked.order if out is not None else np.arange(end)
    out = np.zeros((end, ks.size)) if out is None else out
    top_k_tails(ranked.factors, ranked.begin, end, block, Tails(ks, place, out))
    return ranked.order[:end], out


def best(items: RankedItems, values: Floats, k: int, *, least: bool = False) -> Likeliest:
    """The k tuples of greatest (or least) value; ties, to 12 digits, by expected score."""
    worth = rounded(values if least else -values)
    near = np.arange(items.tuples)
    if k < items.tuples:
        near = np.flatnonzero(worth <= np.partition(worth, k - 1)[k - 1])
    tuples = items.in_rank_order(near)
    chosen = tuples[np.argsort(worth[tuples], kind="stable")[:k]]
    return Likeliest(chosen, values[chosen])


def at_least(tuples: Ints, values: Floats, probability: float) -> Likeliest:
    """Of tuples in rank order those whose value reaches a probability (see `reaches`), greatest
    first; ties, to within 1e-12, in that order."""
    enough = np.flatnonzero(reaches_all(values, probability))
    chosen = enough[np.argsort(-ranked_as.py_func(values[enough]), kind="stable")]
    return Likeliest(tuples[chosen], as_certain(values[chosen]))


def rounded(values: Floats) -> Floats:
    """Values to 12 significant digits: what is equal on paper is equal."""
    mantissa, exponent = np.frexp(values)
    return np.ldexp(np.rint(mantissa * 2.0**40), exponent - 40)


def as_certain(probability: Floats) -> Floats:
    """Probabilities, 1 where they miss it by roundings alone (see `reaches`)."""
    return np.where(reaches_all(probability, np.inf), 1.0, probability)


def vector(items: RankedItems, k: int, full: bool = False) -> Vector:
    """u_topk of checked items."""
    unit, units = items.units()
    order = items.order
    places, chance, log = likeliest_vector(items.prob[order], unit[order], units, k, full)
    return Vector(order[places], chance, log)


def likeliest_ranks(items: RankedItems, k: int) -> Likeliest:
    """u_kranks of checked items."""
    ranked = items.factored(1, k)
    laws = rank_laws(ranked.factors, ranked.end, k)
    tuples, begins, members = items.ordered_tuples(ranked.order[: ranked.end])
    place, chance = likeliest_at_ranks(*laws, begins, members, k)
    return Likeliest(np.where(place >= 0, tuples[place], -1) if tuples.size else place, chance)


def rank_means(items: RankedItems) -> Floats:
    """expected_ranks of checked items."""
    order = items.order
    return expected_rank_sums(
        items.prob[order], items.rule[order], items.rules, items.item_tuple[order], items.tuples
    )


def exponential(items: RankedItems, alpha: float) -> Floats:
    """prfe of checked items."""
    order = items.order
    values = exponential_ranks(items.prob[order], items.rule[order], items.rules, alpha)
    return items.by_tuple(values, order)


def weighed(items: RankedItems, omega: Floats) -> Floats:
    """prf of checked items and weights."""
    ranked = items.factored(1, omega.size)
    laws = rank_laws(ranked.factors, ranked.end, omega.size)
    return items.by_tuple(weigh_ranks(*laws, omega), ranked.order[: ranked.end])
