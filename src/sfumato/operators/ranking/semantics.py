"""The semantics of a top-k query, and its answers: several k from one computation."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.kernels.ranking.best_of_columns import best_of_columns, best_rows
from sfumato.kernels.ranking.windows import Rankings
from sfumato.operators.arguments import share
from sfumato.operators.arrays import Floats, Ints
from sfumato.operators.ranking import tuple_values
from sfumato.operators.ranking.ranked_items import RankedItems
from sfumato.operators.ranking.tuple_values import Likeliest, Vector, vector_of_tuples

SEMANTICS = ("pk_topk", "pt_k", "u_topk", "u_kranks", "expected_rank", "prf", "prfe")
NO_SCORES = np.empty(0)
SEMANTICS_ALIASES = {"global_topk": "pk_topk", "expected_ranks": "expected_rank"}


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


SEMANTICS_OPTIONS: tuple[tuple[str, str, Callable[[str, Any], Any]], ...] = (
    ("probability", "pt_k", partial(share, what="a number")),
    ("alpha", "prfe", partial(share, what="a number")),
    ("weights", "prf", lambda _, weights: tuple(checked_weights(weights).tolist())),
)


@dataclass(frozen=True)
class Semantics:
    """Answers of a top-k query.

    name : "pk_topk" (also "global_topk"): the k tuples of highest Pr_k;  "pt_k": all tuples with
        Pr_k >= probability;  "u_topk": the most probable top-k vector of tuples;  "u_kranks": for
        each rank to k the tuple most probable there;  "expected_rank": the k tuples of least
        expected rank;  "prf": the k tuples of greatest sum of weights, weights[0] being that of
        rank 1;  "prfe": the same with alpha**rank
    Equal values, to 12 digits, are in order of expected score (see `RankedItems.key_of`), then of
    arrival.
    probability : float in (0, 1], for "pt_k" only;  weights : numbers, for "prf" only
    alpha : float in (0, 1], for "prfe" only

    Raises ValueError for an unknown name, and for a missing or a superfluous number.
    """

    name: str = "pk_topk"
    probability: float | None = None
    alpha: float | None = None
    weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        name = SEMANTICS_ALIASES.get(str(self.name).lower(), str(self.name).lower())
        if name not in SEMANTICS:
            names = ", ".join(f'"{each}"' for each in SEMANTICS)
            raise ValueError(f"`semantics` must be one of {names}; got {self.name!r}")
        object.__setattr__(self, "name", name)
        for option, owner, check in SEMANTICS_OPTIONS:
            value = getattr(self, option)
            if name == owner:
                object.__setattr__(self, option, check(option, value))
            elif value is not None:
                raise ValueError(
                    f'`{option}` belongs to the semantics "{owner}"; got {value!r} for "{name}"'
                )


def semantics_of(
    name: str, probability: float | None, alpha: float | None, weights: Sequence[float] | None
) -> Semantics:
    """The semantics that the arguments of `top_k` mean. Raises ValueError as `Semantics`."""
    if probability is not None and name != "pt_k":
        raise ValueError(
            f'`probability` is the least Pr_k of "pt_k"; got {probability!r} for {name!r}: '
            "the column of probabilities is `existence`"
        )
    if probability is None and name == "pt_k":
        raise ValueError('"pt_k" needs `probability`, the least Pr_k, in (0, 1]; got None')
    return Semantics(name, probability, alpha, None if weights is None else tuple(weights))


def rankings(items: RankedItems, ks: Ints, semantics: Semantics) -> Rankings:
    """The answers to all of `ks`, int64[c], ascending.

    Cost: that of the greatest k (and of each k on its own under "u_topk").
    """
    name = semantics.name
    if name == "u_topk":
        return _vectors(items, ks)
    if name == "pk_topk":
        front, values = tuple_values.front_probabilities(items, ks)
        scores = items.scores if items.single else NO_SCORES
        offsets, rank, tuples, score, value = best_rows(values, ks, front, scores)
        score = score if items.single else _scores(items, tuples)
        return Rankings(offsets, rank, tuples, score, value, np.full(rank.size, -1))
    if name == "pt_k":
        front, values = tuple_values.front_probabilities(items, ks)
        least = semantics.probability or 0.0
        return _joined(items, [tuple_values.at_least(front, each, least) for each in values.T])
    most = int(ks[-1])
    if name == "u_kranks":
        whole = tuple_values.likeliest_ranks(items, most)
    elif name == "expected_rank":
        whole = tuple_values.best(items, tuple_values.rank_means(items), most, least=True)
    elif name == "prf":
        omega = np.array(semantics.weights)
        whole = tuple_values.best(items, tuple_values.weighed(items, omega), most)
    else:
        values = tuple_values.exponential(items, semantics.alpha or 0.0)
        whole = tuple_values.best(items, values, most)
    return _joined(items, [Likeliest(whole.indices[:k], whole.probability[:k]) for k in ks])


def stream_rankings(items: RankedItems, streams: Ints, ks: Ints) -> Rankings:
    """For each k the k streams of highest Pr_k, the sum over their tuples.

    streams : int64[tuples], the stream of each tuple;  ks : as in `rankings`
    `score` and `tuples` are those of the stream's tuple of highest Pr_k. Equal sums in ascending
    order of stream.  Source: D, section 9.
    """
    tuples, values = tuple_values.front_probabilities(items, ks)
    ids, place = np.unique(streams[tuples], return_inverse=True)
    if ids.size < ks[-1] and tuples.size < items.tuples:  # streams without a chance belong too
        rest = np.setdiff1d(np.arange(items.tuples), tuples)
        tuples = np.concatenate([tuples, rest])
        values = np.concatenate([values, np.zeros((rest.size, ks.size))])
        ids, place = np.unique(streams[tuples], return_inverse=True)
    total = np.zeros((ids.size, ks.size))
    np.add.at(total, place, values)
    offsets, chosen = best_of_columns(total, ks)
    columns = np.repeat(np.arange(ks.size), np.diff(offsets))
    leader = np.empty((ids.size, ks.size), dtype=np.int64)
    for j in range(ks.size):
        by_value = np.argsort(-values[:, j], kind="stable")[::-1]
        leader[place[by_value], j] = tuples[by_value]  # the last one written is the greatest
    found = _rankings(items, offsets, leader[chosen, columns], total[chosen, columns])
    return found._replace(stream=ids[chosen])


def _rankings(items: RankedItems, offsets: Ints, tuples: Ints, value: Floats) -> Rankings:
    """Rankings of tuples in their order, k after k."""
    rank = np.arange(1, tuples.size + 1) - np.repeat(offsets[:-1], np.diff(offsets))
    none = np.full(tuples.size, -1)
    return Rankings(offsets, rank, tuples, _scores(items, tuples), value, none)


def _joined(items: RankedItems, answers: Sequence[Likeliest]) -> Rankings:
    sizes = [answer.indices.size for answer in answers]
    tuples = np.concatenate([answer.indices for answer in answers])
    value = np.concatenate([answer.probability for answer in answers])
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    if (tuples >= 0).all():
        return _rankings(items, offsets, tuples, value)
    there = tuples >= 0  # U-kRanks leaves ranks open that nothing can have
    rank = np.arange(1, tuples.size + 1) - np.repeat(offsets[:-1], sizes)
    kept = np.concatenate([[0], np.cumsum(there)])[offsets]
    found = _rankings(items, kept, tuples[there], value[there])
    return found._replace(rank=rank[there])


def _vectors(items: RankedItems, ks: Ints) -> Rankings:
    if items.items > items.tuples:  # tuples of several alternatives
        return _joined(items, [_each_of(vector_of_tuples(items, int(k))) for k in ks])
    vectors = [tuple_values.vector(items, int(k)) for k in ks]
    indices = np.concatenate([each.indices for each in vectors])
    sizes = [each.indices.size for each in vectors]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    value = np.repeat([each.probability for each in vectors], sizes)
    found = _rankings(items, offsets, items.item_tuple[indices], value)
    return found._replace(score=items.scores[indices])


def _each_of(vector: Vector) -> Likeliest:
    """The tuples of a vector, each with the probability of the whole."""
    return Likeliest(vector.indices, np.full(vector.indices.size, vector.probability))


def _scores(items: RankedItems, tuples: Ints) -> Floats:
    """Score of each tuple's most probable alternative; of the first such."""
    if items.single:
        return items.scores[tuples]
    wanted = np.zeros(items.tuples, dtype=np.bool_)
    wanted[tuples] = True
    members = np.flatnonzero(wanted[items.item_tuple])[::-1]
    members = members[np.argsort(items.prob[members], kind="stable")]
    score = np.empty(items.tuples)
    score[items.item_tuple[members]] = items.scores[members]
    return score[tuples]
