"""Top-k answers over uncertain tuples with generation rules, from arrays to arrays.

Every function accepts tuples as `scores`, `prob`, `exclusive`, `tuples` and `ascending` (see
`ranked_items.checked_items`). Results have one entry per tuple. Each item is a tuple, unless
`tuples` assigns the items to tuples as alternatives. Probabilities below 4e-18 are returned as 0.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sfumato.kernels.ranking import semantics as kernels
from sfumato.kernels.ranking.rank_tree import rank_distributions
from sfumato.kernels.ranking.u_topk import likeliest_vectors
from sfumato.operators.arguments import share
from sfumato.operators.arrays import Floats, Ints
from sfumato.operators.ranking.ranked_items import checked_items, checked_k
from sfumato.operators.ranking.semantics import Semantics, TooManyVectorsError, checked_weights


class Likeliest(NamedTuple):
    """Answers and their probabilities, one per answer."""

    indices: Ints
    probability: Floats


class Vector(NamedTuple):
    """A top-k vector: items in rank order, and the probability that they are the top k."""

    indices: Ints
    probability: float
    log_probability: float


def top_k_probabilities(
    scores: npt.ArrayLike,
    prob: npt.ArrayLike,
    exclusive: npt.ArrayLike | None = None,
    *,
    k: Any,
    tuples: npt.ArrayLike | None = None,
    ascending: bool = False,
) -> Floats:
    """Return each tuple's Pr_k, the probability that it is among the top k.

    Parameters
    ----------
    scores
        float array [n], the score of each tuple or, with `tuples`, of each alternative
    prob
        float array [n], the probability of each tuple or alternative, in (0, 1]
    exclusive
        int array [n], rule numbers: at most one tuple per rule exists; negative for no rule
    k
        int >= 1, or a list of such numbers
    tuples
        int array [n], each alternative's tuple, from 0; None if each tuple has one alternative
    ascending
        Whether the lowest score ranks first

    Returns
    -------
    Pr_k of each tuple, float64[n]; for a list of k, one column per k, float64[n, len(k)].

    Raises
    ------
    ValueError, TypeError
        For arrays and numbers that are out of range or have the wrong type.

    Notes
    -----
    Cost: O(n + m log(m) sqrt(k)), where m tuples can be among the top k.
    Error: absolute, below 1e-12 (measured 5e-15 at n = 10,000).
    A tuple's Pr_k is the sum over its alternatives.

    References
    ----------
    Chen et al. (2013), (1), (2) and section 3. IEEE TKDE 25(8), pages 1814-1829.

    Examples
    --------
    >>> speed, p = [80, 65, 45, 30, 50, 25], [0.3, 0.4, 0.5, 1, 0.8, 0.2]
    >>> top_k_probabilities(speed, p, [-1, 2, 2, -1, 5, 5], k=2).round(3).tolist()
    [0.3, 0.4, 0.38, 0.202, 0.704, 0.014]
    """
    items = checked_items(scores, prob, exclusive, tuples, ascending=ascending)
    wanted = np.array([checked_k(each) for each in np.asarray(k).reshape(-1).tolist()], np.int64)
    if np.ndim(k) > 1 or not wanted.size:
        raise ValueError(f"`k` must be an integer or a list of integers; got {k!r:.80}")
    ks, column = np.unique(wanted, return_inverse=True)
    out: Floats = kernels.top_k_probabilities(items, ks)
    if not np.array_equal(ks, wanted):
        out = out[:, column.reshape(-1)]
    return out[:, 0] if np.ndim(k) == 0 else out


def pk_topk(
    scores: npt.ArrayLike,
    prob: npt.ArrayLike,
    exclusive: npt.ArrayLike | None = None,
    *,
    k: int,
    tuples: npt.ArrayLike | None = None,
    ascending: bool = False,
) -> Likeliest:
    """Return the k tuples with highest Pr_k (Pk-topk or Global-topk), highest first.

    Parameters
    ----------
    scores, prob, exclusive, k, tuples, ascending
        As for `top_k_probabilities`

    Returns
    -------
    `indices` and `probability` of the k tuples, as arrays.

    Raises
    ------
    ValueError, TypeError
        For arrays and numbers that are out of range or have the wrong type.

    Notes
    -----
    Ties, within 1e-12, are ordered by expected score.
    Cost and error: as for `top_k_probabilities`.

    References
    ----------
    Chen et al. (2013), (1), (2) and section 3. IEEE TKDE 25(8), pages 1814-1829.

    Examples
    --------
    >>> sf.engine_free.pk_topk([30.0, 20.0, 10.0], [0.5, 0.9, 0.8], k=1).indices.tolist()
    [0]
    """
    items = checked_items(scores, prob, exclusive, tuples, ascending=ascending)
    found = Semantics().rank(items, np.array([checked_k(k)]))
    return Likeliest(found.tuples, found.value)


def pt_k(
    scores: npt.ArrayLike,
    prob: npt.ArrayLike,
    exclusive: npt.ArrayLike | None = None,
    *,
    k: int,
    probability: float,
    tuples: npt.ArrayLike | None = None,
    ascending: bool = False,
) -> Likeliest:
    """Return all tuples with Pr_k >= probability (PT-k), highest Pr_k first.

    Parameters
    ----------
    scores, prob, exclusive, k, tuples, ascending
        As for `top_k_probabilities`
    probability
        float in (0, 1], the minimum Pr_k

    Returns
    -------
    `indices` and `probability` of the tuples, as arrays.

    Raises
    ------
    ValueError, TypeError
        For arrays and numbers that are out of range or have the wrong type.

    Notes
    -----
    Cost and error: as for `top_k_probabilities`.

    References
    ----------
    Hua et al. (2008), Ranking queries on uncertain data: a probabilistic threshold approach,
    SIGMOD.

    Examples
    --------
    >>> best = sf.engine_free.pt_k([30.0, 20.0, 10.0], [0.5, 0.9, 0.8], k=1, probability=0.4)
    >>> best.indices.tolist()
    [0, 1]
    """
    least = share("probability", probability, "a number")
    items = checked_items(scores, prob, exclusive, tuples, ascending=ascending)
    found = Semantics("pt_k", probability=least).rank(items, np.array([checked_k(k)]))
    return Likeliest(found.tuples, found.value)


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
    """Return the most probable top-k vector over all possible worlds (U-Topk).

    Parameters
    ----------
    scores, prob, exclusive, k, ascending
        As for `top_k_probabilities`
    full
        Whether to consider only vectors of k tuples; if no world has k tuples, the vector is then
        empty and its probability is 0. By default, the top k of a world with fewer tuples are all
        its tuples, and such a vector may be returned
    tuples
        Each alternative's tuple. The result is then a vector of tuples; its probability is the
        sum over all worlds whose top k are these tuples in this order, with any of their
        alternatives. Without `tuples`, the result is a vector of items; items of one rule may be
        alternatives of one tuple

    Returns
    -------
    `indices` in rank order, `probability`, and `log_probability`.

    Raises
    ------
    TooManyVectorsError
        A ValueError, if 20,000 sequences of tuples do not suffice, which happens with many
        overlapping tuples and a large k.

    Notes
    -----
    Cost: O(n log n); with `tuples`, O(k m) per sequence of tuples that is more probable than the
    answer, where m items can be among the top k.
    Error: exact, unless two vectors have probabilities that differ by less than a factor 1 + 1e-10.
    Either vector may then be returned; a detected tie goes to the vector whose last item ranks
    higher or, with `tuples`, to the vector with better expected scores.

    References
    ----------
    Soliman, Ilyas and Chang (2007), Top-k query processing in uncertain databases, ICDE.

    Examples
    --------
    >>> sf.engine_free.u_topk([30.0, 20.0, 10.0], [0.5, 0.9, 0.8], k=2).indices.tolist()
    [0, 1]
    """
    items, k = checked_items(scores, prob, exclusive, tuples, ascending=ascending), checked_k(k)
    offsets, indices, chance, log = likeliest_vectors(items, np.array([k]), full)
    if not offsets.size:
        raise TooManyVectorsError(k, items.tuples)
    return Vector(indices, float(chance[0]), float(log[0]))


def u_kranks(
    scores: npt.ArrayLike,
    prob: npt.ArrayLike,
    exclusive: npt.ArrayLike | None = None,
    *,
    k: int,
    tuples: npt.ArrayLike | None = None,
    ascending: bool = False,
) -> Likeliest:
    """Return, for each rank 1 ... k, the most probable tuple at that rank (U-kRanks).

    Parameters
    ----------
    scores, prob, exclusive, k, tuples, ascending
        As for `top_k_probabilities`

    Returns
    -------
    `indices` and `probability`, one per rank, as arrays.

    Raises
    ------
    ValueError, TypeError
        For arrays and numbers that are out of range or have the wrong type.

    Notes
    -----
    The index is -1 if no tuple can have that rank. A tuple may be the most probable at several
    ranks. Ties, within 1e-12, go to the tuple with the better expected score.
    Cost: O(m log(m) sqrt(k)).
    Error: absolute, below 1e-12.

    References
    ----------
    Soliman, Ilyas and Chang (2007), Top-k query processing in uncertain databases, ICDE.

    Examples
    --------
    >>> sf.engine_free.u_kranks([30.0, 20.0, 10.0], [0.5, 0.9, 0.8], k=2).indices.tolist()
    [0, 1]
    """
    items, k = checked_items(scores, prob, exclusive, tuples, ascending=ascending), checked_k(k)
    found = Semantics("u_kranks").rank(items, np.array([k]))
    answer = Likeliest(np.full(k, -1), np.zeros(k))
    answer.indices[found.rank - 1], answer.probability[found.rank - 1] = found.tuples, found.value
    return answer


def rank_probabilities(
    scores: npt.ArrayLike,
    prob: npt.ArrayLike,
    exclusive: npt.ArrayLike | None = None,
    *,
    k: int,
    tuples: npt.ArrayLike | None = None,
    ascending: bool = False,
) -> Floats:
    """Return the probability of every rank 1 ... k for every tuple.

    Parameters
    ----------
    scores, prob, exclusive, k, tuples, ascending
        As for `top_k_probabilities`

    Returns
    -------
    float64[n, k]; column j contains Pr(rank = j + 1) of each tuple.

    Raises
    ------
    ValueError, TypeError
        For arrays and numbers that are out of range or have the wrong type.

    Notes
    -----
    Cost: memory O(m k) for the m tuples that can be among the top k, and n k numbers in the result.

    References
    ----------
    Chen et al. (2013), (1), (2) and section 3. IEEE TKDE 25(8), pages 1814-1829.

    Examples
    --------
    >>> sf.engine_free.rank_probabilities([30.0, 20.0], [0.5, 0.9], k=2).round(2).tolist()
    [[0.5, 0.0], [0.45, 0.45]]
    """
    items, k = checked_items(scores, prob, exclusive, tuples, ascending=ascending), checked_k(k)
    owner, start, first, distribution = rank_distributions(items, k)
    rows = np.repeat(owner, np.diff(start))
    columns = np.arange(distribution.size) - np.repeat(start[:-1] - first, np.diff(start))
    out = np.zeros((items.tuples, k))
    np.add.at(out, (rows, columns), distribution)
    return out


def expected_ranks(
    scores: npt.ArrayLike,
    prob: npt.ArrayLike,
    exclusive: npt.ArrayLike | None = None,
    *,
    tuples: npt.ArrayLike | None = None,
    ascending: bool = False,
) -> Floats:
    """Return the expected rank of every tuple; 0 is the best rank.

    Parameters
    ----------
    scores, prob, exclusive, tuples, ascending
        As for `top_k_probabilities`

    Returns
    -------
    float64[n], the expected rank of each tuple.

    Raises
    ------
    ValueError, TypeError
        For arrays and numbers that are out of range or have the wrong type.

    Notes
    -----
    The rank of an absent tuple is the number of tuples in its world.
    Cost: O(n log n).
    Error: relative, 2 n u with u = 2**-53.

    References
    ----------
    Cormode, Li and Yi (2009), Semantics of ranking queries for probabilistic data, ICDE.

    Examples
    --------
    >>> sf.engine_free.expected_ranks([30.0, 20.0, 10.0], [0.5, 0.9, 0.8]).round(2).tolist()
    [0.85, 0.58, 1.4]
    """
    items = checked_items(scores, prob, exclusive, tuples, ascending=ascending)
    return kernels.tuple_values(items, Semantics("expected_rank").parameters)


def prf(
    scores: npt.ArrayLike,
    prob: npt.ArrayLike,
    exclusive: npt.ArrayLike | None = None,
    *,
    weights: npt.ArrayLike,
    tuples: npt.ArrayLike | None = None,
    ascending: bool = False,
) -> Floats:
    """Return, for every tuple, the sum over ranks i of omega(i) Pr(rank = i) (PRF).

    Parameters
    ----------
    scores, prob, exclusive, tuples, ascending
        As for `top_k_probabilities`
    weights
        float array, omega(i) at index i - 1; further ranks have weight 0

    Returns
    -------
    float64[n], the sum for each tuple.

    Raises
    ------
    ValueError, TypeError
        For arrays and numbers that are out of range or have the wrong type.

    Notes
    -----
    Cost: O(m log(m) sqrt(k)), k = len(weights).
    Error: below 1e-12 max |omega|.

    References
    ----------
    Li, Saha and Deshpande (2009), A unified approach to ranking in probabilistic databases, VLDB.

    Examples
    --------
    >>> values = sf.engine_free.prf([30.0, 20.0, 10.0], [0.5, 0.9, 0.8], weights=[1.0, 0.5])
    >>> values.round(2).tolist()
    [0.5, 0.68, 0.24]
    """
    omega = checked_weights(weights)
    items = checked_items(scores, prob, exclusive, tuples, ascending=ascending)
    return kernels.tuple_values(items, kernels.SemanticsParameters(kernels.CODE_PRF, 0.0, omega))


def prfe(
    scores: npt.ArrayLike,
    prob: npt.ArrayLike,
    exclusive: npt.ArrayLike | None = None,
    *,
    alpha: float,
    tuples: npt.ArrayLike | None = None,
    ascending: bool = False,
) -> Floats:
    """Return, for every tuple, the sum over ranks i = 1, 2, ... of alpha**i Pr(rank = i) (PRFe).

    Parameters
    ----------
    scores, prob, exclusive, tuples, ascending
        As for `top_k_probabilities`
    alpha
        float in (0, 1]; 1 yields Pr(the tuple exists), small values favour the first rank

    Returns
    -------
    float64[n], the sum for each tuple.

    Raises
    ------
    ValueError, TypeError
        For arrays and numbers that are out of range or have the wrong type.

    Notes
    -----
    Cost: O(n log n).
    Error: relative, 4 n u with u = 2**-53.

    References
    ----------
    Li, Saha and Deshpande (2009), A unified approach to ranking in probabilistic databases, VLDB.

    Examples
    --------
    >>> sf.engine_free.prfe([30.0, 20.0, 10.0], [0.5, 0.9, 0.8], alpha=0.5).round(2).tolist()
    [0.25, 0.34, 0.17]
    """
    parameters = Semantics("prfe", alpha=alpha).parameters
    items = checked_items(scores, prob, exclusive, tuples, ascending=ascending)
    return kernels.tuple_values(items, parameters)


def top_k_streams(
    scores: npt.ArrayLike,
    prob: npt.ArrayLike,
    group: npt.ArrayLike,
    exclusive: npt.ArrayLike | None = None,
    *,
    k: int,
    ascending: bool = False,
) -> Likeliest:
    """Return the k streams with the highest sum of Pr_k over their tuples.

    The tuples of all streams are ranked together.

    Parameters
    ----------
    scores, prob, exclusive, k, ascending
        As for `top_k_probabilities`
    group
        int array [n], the stream of each tuple

    Returns
    -------
    The streams and their sums, highest first; ties are ordered by stream. A sum is the expected
    number of the stream's tuples among the top k.

    Raises
    ------
    ValueError, TypeError
        For arrays and numbers that are out of range or have the wrong type.

    Notes
    -----
    Cost: as for `top_k_probabilities`.

    References
    ----------
    Chen et al. (2013), section 9. IEEE TKDE 25(8), pages 1814-1829.

    Examples
    --------
    >>> best = sf.engine_free.top_k_streams([30.0, 20.0, 10.0], [0.5, 0.9, 0.8], [0, 1, 1], k=1)
    >>> best.indices.tolist()
    [0]
    """
    items = checked_items(scores, prob, exclusive, ascending=ascending)
    ids = np.array(group)
    if ids.shape != (items.tuples,) or (ids.size and ids.dtype.kind not in "iu"):
        raise ValueError(
            f"`group` must be {items.tuples} integers, one per score; got shape {ids.shape} "
            f"of {ids.dtype}"
        )
    found = Semantics().rank(items, np.array([checked_k(k)]), ids.astype(np.int64))
    return Likeliest(found.stream, found.value)
