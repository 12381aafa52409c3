"""Top-k answers over uncertain tuples with generation rules, from arrays to arrays.

Every function takes the same tuples: `scores`, `prob`, `exclusive`, `tuples` and `ascending`, as
RankedItems describes and checks them. Results have one entry for each tuple (each item, unless
`tuples` says which items are alternatives of one tuple). Chances below 4e-18 are given as 0.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.kernels.ranking.best_of_columns import best_of_columns
from sfumato.kernels.ranking.rank_law import rank_laws
from sfumato.operators.arguments import share
from sfumato.operators.arrays import Floats
from sfumato.operators.ranking import tuple_values
from sfumato.operators.ranking.ranked_items import RankedItems, checked_k
from sfumato.operators.ranking.semantics import checked_weights, stream_rankings
from sfumato.operators.ranking.tuple_values import Likeliest, Vector, vector_of_tuples


def top_k_probabilities(
    scores: npt.ArrayLike,
    prob: npt.ArrayLike,
    exclusive: npt.ArrayLike | None = None,
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
    return tuple_values.probabilities(
        RankedItems(scores, prob, exclusive, tuples, ascending=ascending), k
    )


def pk_topk(
    scores: npt.ArrayLike,
    prob: npt.ArrayLike,
    exclusive: npt.ArrayLike | None = None,
    *,
    k: int,
    tuples: npt.ArrayLike | None = None,
    ascending: bool = False,
) -> Likeliest:
    """The k tuples of highest Pr_k (Pk-topk, also named Global-topk), the most probable first.

    Equal probabilities, to within 1e-12, in order of expected score.
    Cost, error and source: as top_k_probabilities.

    >>> sf.engine_free.pk_topk([30.0, 20.0, 10.0], [0.5, 0.9, 0.8], k=1).indices.tolist()
    [0]
    """
    items = RankedItems(scores, prob, exclusive, tuples, ascending=ascending)
    ks = np.array([checked_k(k)])
    front, values = tuple_values.front_probabilities(items, ks)
    _, places = best_of_columns(values, ks)
    return Likeliest(front[places], values[places, 0])


def pt_k(
    scores: npt.ArrayLike,
    prob: npt.ArrayLike,
    exclusive: npt.ArrayLike | None = None,
    *,
    k: int,
    probability: float | None = None,
    threshold: float | None = None,
    tuples: npt.ArrayLike | None = None,
    ascending: bool = False,
) -> Likeliest:
    """All tuples with Pr_k >= probability (PT-k), the most probable first.

    probability : float in (0, 1]; `threshold` is another name of it
    Cost, error and source: as top_k_probabilities; PT-k is of Hua et al. (2008).

    >>> best = sf.engine_free.pt_k([30.0, 20.0, 10.0], [0.5, 0.9, 0.8], k=1, probability=0.4)
    >>> best.indices.tolist()
    [0, 1]
    """
    if (probability is None) == (threshold is None):
        raise ValueError(
            "give `probability`, the least Pr_k of PT-k, once (`threshold` is another name of it); "
            f"got probability={probability!r} and threshold={threshold!r}"
        )
    least = share("probability", threshold if probability is None else probability, "a number")
    items = RankedItems(scores, prob, exclusive, tuples, ascending=ascending)
    front, values = tuple_values.front_probabilities(items, np.array([checked_k(k)]))
    return tuple_values.at_least(front, values[:, 0], least)


def u_topk(
    scores: npt.ArrayLike,
    prob: npt.ArrayLike,
    exclusive: npt.ArrayLike | None = None,
    *,
    k: int,
    full: bool = False,
    tuples: npt.ArrayLike | None = None,
    ascending: bool = False,
) -> Vector:
    """The most probable top-k vector over all possible worlds (U-Topk).

    full : only vectors of k tuples count. Otherwise the top k of a world that has fewer tuples
        are all of them, and such a vector may win; with `full`, the vector is empty and its
        probability 0 where no world has k tuples
    tuples : the tuple each item is an alternative of. The vector is then one of tuples: its
        probability is that of all worlds with these tuples, in this order, as the top k, whichever
        alternatives they have. Without it a vector is one of items, which may be alternatives
        that exclude each other by a rule
    Cost: O(n log n); with `tuples` O(k m) for each sequence of tuples that is more probable than
    the answer, m items within reach.  Error: exact, but that of vectors whose probabilities differ
    by less than a factor 1 + 1e-10 either may be returned (the one that ends higher, if it is
    noticed; of tuples that of better expected scores). Raises TooManyVectorsError, a ValueError,
    where 20,000 sequences do not suffice: many tuples that overlap, and a large k.
    Source: Soliman, Ilyas and Chang (2007), named in D, section 2; see kernels.likeliest_vector.

    >>> sf.engine_free.u_topk([30.0, 20.0, 10.0], [0.5, 0.9, 0.8], k=2).indices.tolist()
    [0, 1]
    """
    items = RankedItems(scores, prob, exclusive, tuples, ascending=ascending)
    if items.single:
        return tuple_values.vector(items, checked_k(k), full)
    return vector_of_tuples(items, checked_k(k), full)


def u_kranks(
    scores: npt.ArrayLike,
    prob: npt.ArrayLike,
    exclusive: npt.ArrayLike | None = None,
    *,
    k: int,
    tuples: npt.ArrayLike | None = None,
    ascending: bool = False,
) -> Likeliest:
    """For each rank 1 ... k the tuple most probable to have it (U-kRanks).

    Index -1 where no tuple can have that rank. One tuple may win several ranks; ties, to within
    1e-12, go to the tuple of better expected score.
    Cost: O(m log(m) sqrt(k)).  Error: absolute, below 1e-12.
    Source: Soliman, Ilyas and Chang (2007), named in D, section 2.

    >>> sf.engine_free.u_kranks([30.0, 20.0, 10.0], [0.5, 0.9, 0.8], k=2).indices.tolist()
    [0, 1]
    """
    items = RankedItems(scores, prob, exclusive, tuples, ascending=ascending)
    return tuple_values.likeliest_ranks(items, checked_k(k))


def rank_probabilities(
    scores: npt.ArrayLike,
    prob: npt.ArrayLike,
    exclusive: npt.ArrayLike | None = None,
    *,
    k: int,
    tuples: npt.ArrayLike | None = None,
    ascending: bool = False,
) -> Floats:
    """Pr(rank = j + 1) of every tuple in column j: float64[n, k], for pictures and further sums.

    >>> sf.engine_free.rank_probabilities([30.0, 20.0], [0.5, 0.9], k=2).round(2).tolist()
    [[0.5, 0.0], [0.45, 0.45]]
    """
    items = RankedItems(scores, prob, exclusive, tuples, ascending=ascending)
    ranked = items.factored(1, checked_k(k))
    start, first, law = rank_laws(ranked.factors, ranked.end, k)
    rows = np.repeat(items.item_tuple[ranked.order[: ranked.end]], np.diff(start))
    columns = np.arange(law.size) - np.repeat(start[:-1] - first, np.diff(start))
    out = np.zeros((items.tuples, k))
    np.add.at(out, (rows, columns), law)
    return out


def expected_ranks(
    scores: npt.ArrayLike,
    prob: npt.ArrayLike,
    exclusive: npt.ArrayLike | None = None,
    *,
    tuples: npt.ArrayLike | None = None,
    ascending: bool = False,
) -> Floats:
    """Expected rank of every tuple; the best rank is 0, an absent tuple's the size of its world.

    Cost: O(n log n).  Error: relative, 2 n u.  Source: Cormode, Li and Yi (2009), in D, section 2.

    >>> sf.engine_free.expected_ranks([30.0, 20.0, 10.0], [0.5, 0.9, 0.8]).round(2).tolist()
    [0.85, 0.58, 1.4]
    """
    return tuple_values.rank_means(
        RankedItems(scores, prob, exclusive, tuples, ascending=ascending)
    )


def prf(
    scores: npt.ArrayLike,
    prob: npt.ArrayLike,
    exclusive: npt.ArrayLike | None = None,
    *,
    weights: npt.ArrayLike,
    tuples: npt.ArrayLike | None = None,
    ascending: bool = False,
) -> Floats:
    """Sum over ranks i of omega(i) Pr(rank = i), for every tuple (PRF).

    weights : float array, omega(i) at index i - 1; 0 for the ranks beyond
    Cost: O(m log(m) sqrt(k)), k = len(weights).  Error: below 1e-12 max |omega|.
    Source: Li, Saha and Deshpande (2009), named in D, section 2.

    >>> values = sf.engine_free.prf([30.0, 20.0, 10.0], [0.5, 0.9, 0.8], weights=[1.0, 0.5])
    >>> values.round(2).tolist()
    [0.5, 0.68, 0.24]
    """
    omega = checked_weights(weights)
    return tuple_values.weighed(
        RankedItems(scores, prob, exclusive, tuples, ascending=ascending), omega
    )


def prfe(
    scores: npt.ArrayLike,
    prob: npt.ArrayLike,
    exclusive: npt.ArrayLike | None = None,
    *,
    alpha: float,
    tuples: npt.ArrayLike | None = None,
    ascending: bool = False,
) -> Floats:
    """Sum over all ranks i = 1, 2, ... of alpha**i Pr(rank = i), for every tuple (PRFe).

    alpha : float in (0, 1]; 1 gives existence, small values prize the first rank
    Cost: O(n log n).  Error: relative, 4 n u.  Source: Li, Saha and Deshpande (2009), in D.

    >>> sf.engine_free.prfe([30.0, 20.0, 10.0], [0.5, 0.9, 0.8], alpha=0.5).round(2).tolist()
    [0.25, 0.34, 0.17]
    """
    alpha = share("alpha", alpha, "a number")
    return tuple_values.exponential(
        RankedItems(scores, prob, exclusive, tuples, ascending=ascending), alpha
    )


def top_k_streams(
    scores: npt.ArrayLike,
    prob: npt.ArrayLike,
    group: npt.ArrayLike,
    exclusive: npt.ArrayLike | None = None,
    *,
    k: int,
    ascending: bool = False,
) -> Likeliest:
    """The k streams of highest Pr_k: the sum over the stream's tuples, all ranked together.

    scores, prob, exclusive : as top_k_probabilities;  group : int array [n], the tuples' streams
    Returns the streams and their sums, the highest first; equal ones by ascending stream. A sum is
    the expected number of the stream's tuples among the top k.
    Cost: as top_k_probabilities.  Source: D, section 9.

    >>> best = sf.engine_free.top_k_streams([30.0, 20.0, 10.0], [0.5, 0.9, 0.8], [0, 1, 1], k=1)
    >>> best.indices.tolist()
    [0]
    """
    items = RankedItems(scores, prob, exclusive, ascending=ascending)
    ids = np.array(group)
    if ids.shape != (items.items,) or (ids.size and ids.dtype.kind not in "iu"):
        raise ValueError(
            f"`group` must be {items.items} whole numbers, as long as `scores`; "
            f"got shape {ids.shape} of {ids.dtype}"
        )
    found = stream_rankings(items, ids.astype(np.int64), np.array([checked_k(k)]))
    return Likeliest(found.stream, found.value)
