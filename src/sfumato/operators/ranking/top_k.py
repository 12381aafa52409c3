"""Top-k answers over uncertain tuples with generation rules, from arrays to arrays.

Every function takes the same tuples: `scores`, `prob`, `rules`, `tuples` and `ascending`, as
RankedItems describes and checks them. Results have one entry for each tuple (each item, unless
`tuples` says which items are alternatives of one tuple). Chances below 4e-18 are given as 0.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sfumato.kernels.ranking.best_of_columns import best_of_columns
from sfumato.kernels.ranking.rank_law import likeliest_at_ranks, rank_laws, weigh_ranks
from sfumato.kernels.ranking.rank_moments import expected_rank_sums, exponential_ranks
from sfumato.kernels.ranking.top_k_probability import top_k_tails
from sfumato.kernels.ranking.u_topk import likeliest_vector
from sfumato.operators.laws.poisson_binomial import Floats
from sfumato.operators.ranking.ranked_items import Ints, RankedItems, checked_k

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


def top_k_probabilities(
    scores: npt.ArrayLike,
    prob: npt.ArrayLike,
    rules: npt.ArrayLike | None = None,
    *,
    k: Any,
    tuples: npt.ArrayLike | None = None,
    ascending: bool = False,
) -> Floats:
    """Pr_k of every tuple: that it exists and fewer than k existing tuples rank higher.

    k : int >= 1, or a list of them
    Returns float64[n]; for a list float64[n, len(k)], all from one computation.
    Cost: O(n) and O(m log(m) sqrt(k)) for the m tuples that can be among the top k at all.
    Error: absolute, below 1e-12 (measured 5e-15 at n = 10,000).
    Source: D, (1), (2) and section 3. A tuple's Pr_k is the sum over its alternatives.

    >>> speed, p = [80, 65, 45, 30, 50, 25], [0.3, 0.4, 0.5, 1, 0.8, 0.2]
    >>> top_k_probabilities(speed, p, [-1, 2, 2, -1, 5, 5], k=2).round(3).tolist()
    [0.3, 0.4, 0.38, 0.202, 0.704, 0.014]
    """
    return probabilities(RankedItems(scores, prob, rules, tuples, ascending=ascending), k)


def pk_topk(
    scores: npt.ArrayLike,
    prob: npt.ArrayLike,
    rules: npt.ArrayLike | None = None,
    *,
    k: int,
    tuples: npt.ArrayLike | None = None,
    ascending: bool = False,
) -> Likeliest:
    """The k tuples of highest Pr_k (Pk-topk, also named Global-topk), the most probable first.

    Equal probabilities in rank order. Cost, error and source: as top_k_probabilities.
    """
    items = RankedItems(scores, prob, rules, tuples, ascending=ascending)
    ks = np.array([checked_k(k)])
    front, values = front_probabilities(items, ks)
    _, places = best_of_columns(values, ks)
    return Likeliest(front[places], values[places, 0])


def pt_k(
    scores: npt.ArrayLike,
    prob: npt.ArrayLike,
    rules: npt.ArrayLike | None = None,
    *,
    k: int,
    threshold: float,
    tuples: npt.ArrayLike | None = None,
    ascending: bool = False,
) -> Likeliest:
    """All tuples with Pr_k >= threshold (PT-k), the most probable first.

    threshold : float in (0, 1]
    Cost, error and source: as top_k_probabilities; PT-k is of Hua et al. (2008).
    """
    threshold = checked_share("threshold", threshold)
    items = RankedItems(scores, prob, rules, tuples, ascending=ascending)
    front, values = front_probabilities(items, np.array([checked_k(k)]))
    return at_least(front, values[:, 0], threshold)


def u_topk(
    scores: npt.ArrayLike,
    prob: npt.ArrayLike,
    rules: npt.ArrayLike | None = None,
    *,
    k: int,
    full: bool = False,
    ascending: bool = False,
) -> Vector:
    """The most probable top-k vector over all possible worlds (U-Topk).

    full : only vectors of k tuples count. Otherwise the top k of a world that has fewer tuples
        are all of them, and such a vector may win; with `full`, the vector is empty and its
        probability 0 where no world has k tuples
    Alternatives are given as items of one rule: the vector says which alternative stands where.
    Cost: O(n log n).  Error: exact, but that of vectors whose probabilities differ by less than a
    factor 1 + 1e-10 either may be returned (the one that ends higher, if it is noticed).
    Source: Soliman, Ilyas and Chang (2007), named in D, section 2; see kernels.likeliest_vector.
    """
    return vector(RankedItems(scores, prob, rules, ascending=ascending), checked_k(k), full)


def u_kranks(
    scores: npt.ArrayLike,
    prob: npt.ArrayLike,
    rules: npt.ArrayLike | None = None,
    *,
    k: int,
    tuples: npt.ArrayLike | None = None,
    ascending: bool = False,
) -> Likeliest:
    """For each rank 1 ... k the tuple most probable to have it (U-kRanks).

    Index -1 where no tuple can have that rank. One tuple may win several ranks; ties go to the
    tuple that ranks higher.  Cost: O(m log(m) sqrt(k)).  Error: absolute, below 1e-12.
    Source: Soliman, Ilyas and Chang (2007), named in D, section 2.
    """
    return likeliest_ranks(
        RankedItems(scores, prob, rules, tuples, ascending=ascending), checked_k(k)
    )


def rank_probabilities(
    scores: npt.ArrayLike,
    prob: npt.ArrayLike,
    rules: npt.ArrayLike | None = None,
    *,
    k: int,
    tuples: npt.ArrayLike | None = None,
    ascending: bool = False,
) -> Floats:
    """Pr(rank = j + 1) of every tuple in column j: float64[n, k], for pictures and further sums."""
    items = RankedItems(scores, prob, rules, tuples, ascending=ascending)
    ranked = items.factored(1, checked_k(k))
    start, first, law = rank_laws(ranked.prob, ranked.mass, ranked.after, ranked.end, k)
    rows = np.repeat(items.item_tuple[ranked.order[: ranked.end]], np.diff(start))
    columns = np.arange(law.size) - np.repeat(start[:-1] - first, np.diff(start))
    out = np.zeros((items.tuples, k))
    np.add.at(out, (rows, columns), law)
    return out


def expected_ranks(
    scores: npt.ArrayLike,
    prob: npt.ArrayLike,
    rules: npt.ArrayLike | None = None,
    *,
    tuples: npt.ArrayLike | None = None,
    ascending: bool = False,
) -> Floats:
    """Expected rank of every tuple; the best rank is 0, an absent tuple's the size of its world.

    Cost: O(n log n).  Error: relative, 2 n u.  Source: Cormode, Li and Yi (2009), in D, section 2.
    """
    return rank_means(RankedItems(scores, prob, rules, tuples, ascending=ascending))


def prf(
    scores: npt.ArrayLike,
    prob: npt.ArrayLike,
    rules: npt.ArrayLike | None = None,
    *,
    weights: npt.ArrayLike,
    tuples: npt.ArrayLike | None = None,
    ascending: bool = False,
) -> Floats:
    """Sum over ranks i of omega(i) Pr(rank = i), for every tuple (PRF).

    weights : float array, omega(i) at index i - 1; 0 for the ranks beyond
    Cost: O(m log(m) sqrt(k)), k = len(weights).  Error: below 1e-12 max |omega|.
    Source: Li, Saha and Deshpande (2009), named in D, section 2.
    """
    omega = checked_weights(weights)
    return weighed(RankedItems(scores, prob, rules, tuples, ascending=ascending), omega)


def prfe(
    scores: npt.ArrayLike,
    prob: npt.ArrayLike,
    rules: npt.ArrayLike | None = None,
    *,
    alpha: float,
    tuples: npt.ArrayLike | None = None,
    ascending: bool = False,
) -> Floats:
    """Sum over all ranks i = 1, 2, ... of alpha**i Pr(rank = i), for every tuple (PRFe).

    alpha : float in (0, 1]; 1 gives existence, small values prize the first rank
    Cost: O(n log n).  Error: relative, 4 n u.  Source: Li, Saha and Deshpande (2009), in D.
    """
    alpha = checked_share("alpha", alpha)
    return exponential(RankedItems(scores, prob, rules, tuples, ascending=ascending), alpha)


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
    """The tuples whose Pr_k is not negligible, in rank order, and float64[t, c] of their Pr_k.

    ks : int64[c], ascending, each at least 1.  There are at least min(k, all) such tuples.
    """
    order, tails = _tails(items, ks)
    if items.single or not order.size:
        return order, tails
    tuples, begins, members = items.first_tuples(order)
    return tuples, np.add.reduceat(tails[members], begins[:-1], axis=0)


def _tails(items: RankedItems, ks: Ints, out: Floats | None = None) -> tuple[Ints, Floats]:
    """The items whose Pr_k is not negligible, in rank order, and their Pr_k.

    out : float64[items, c] of zeros, filled and returned; None: a row for each of these only
    """
    ranked = items.factored(int(ks[0]), int(ks[-1]))
    block, end = BLOCKS[ks.size >= MANY], ranked.end
    place = ranked.order if out is not None else np.arange(end)
    out = np.zeros((end, ks.size)) if out is None else out
    top_k_tails(ranked.prob, ranked.mass, ranked.after, ranked.begin, end, ks, block, place, out)
    return ranked.order[:end], out


def best(items: RankedItems, values: Floats, k: int, *, least: bool = False) -> Likeliest:
    """The k tuples of greatest (or least) value; ties in rank order."""
    worth = values if least else -values
    near = np.arange(items.tuples)
    if k < items.tuples:
        near = np.flatnonzero(worth <= np.partition(worth, k - 1)[k - 1])
    tuples = items.in_rank_order(near)
    chosen = tuples[np.argsort(worth[tuples], kind="stable")[:k]]
    return Likeliest(chosen, values[chosen])


def at_least(tuples: Ints, values: Floats, threshold: float) -> Likeliest:
    """Of tuples in rank order those of value >= threshold, greatest first; ties in that order."""
    enough = np.flatnonzero(values >= threshold)
    chosen = enough[np.argsort(-values[enough], kind="stable")]
    return Likeliest(tuples[chosen], values[chosen])


def vector(items: RankedItems, k: int, full: bool = False) -> Vector:
    """u_topk of checked items."""
    unit, units = items.units()
    order = items.order
    places, chance, log = likeliest_vector(items.prob[order], unit[order], units, k, full)
    return Vector(order[places], chance, log)


def likeliest_ranks(items: RankedItems, k: int) -> Likeliest:
    """u_kranks of checked items."""
    ranked = items.factored(1, k)
    laws = rank_laws(ranked.prob, ranked.mass, ranked.after, ranked.end, k)
    tuples, begins, members = items.first_tuples(ranked.order[: ranked.end])
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
    laws = rank_laws(ranked.prob, ranked.mass, ranked.after, ranked.end, omega.size)
    return items.by_tuple(weigh_ranks(*laws, omega), ranked.order[: ranked.end])


def checked_weights(weights: npt.ArrayLike) -> Floats:
    """`weights` as float64[k]; ValueError unless they are finite numbers, at least one."""
    try:
        omega = np.array(weights, dtype=np.float64)
    except (TypeError, ValueError):
        omega = np.empty(0)
    if omega.ndim != 1 or not omega.size or not np.isfinite(omega).all():
        raise ValueError(
            f"`weights` must be a list of finite numbers, of ranks 1, 2, ...; got {weights!r:.80}"
        )
    return omega


def checked_share(name: str, value: Any) -> float:
    """`value` as a float in (0, 1]; ValueError for anything else."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = 0.0
    if not 0.0 < number <= 1.0:
        raise ValueError(f"`{name}` must be a number in (0, 1]; got {value!r}")
    return number
