"""The answers of one run: several k over the same ranked tuples, from one computation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sfumato.operators.poisson_binomial import Floats
from sfumato.operators.ranked_items import Ints, RankedItems, checked_k
from sfumato.operators.top_k import (
    Likeliest,
    at_least,
    best,
    checked_share,
    exponential,
    likeliest_ranks,
    probabilities,
    rank_means,
    vector,
)

SEMANTICS = ("pk_topk", "pt_k", "u_topk", "u_kranks", "expected_rank", "prfe")
ALIASES = {"global_topk": "pk_topk", "expected_ranks": "expected_rank"}


@dataclass(frozen=True)
class Semantics:
    """What a top-k query answers with.

    name : "pk_topk" (also "global_topk"): the k tuples of highest Pr_k;  "pt_k": all tuples with
        Pr_k >= threshold;  "u_topk": the most probable top-k vector;  "u_kranks": for each rank
        to k the tuple most probable there;  "expected_rank": the k tuples of least expected
        rank;  "prfe": the k tuples of greatest sum of alpha**rank
    threshold : float in (0, 1], for "pt_k" only;  alpha : float in (0, 1], for "prfe" only

    Raises ValueError for an unknown name, and for a missing or a superfluous number.
    """

    name: str = "pk_topk"
    threshold: float | None = None
    alpha: float | None = None

    def __post_init__(self) -> None:
        name = ALIASES.get(str(self.name).lower(), str(self.name).lower())
        if name not in SEMANTICS:
            names = ", ".join(f'"{each}"' for each in SEMANTICS)
            raise ValueError(f"`semantics` must be one of {names}; got {self.name!r}")
        object.__setattr__(self, "name", name)
        for option, owner in (("threshold", "pt_k"), ("alpha", "prfe")):
            value = getattr(self, option)
            if name == owner:
                object.__setattr__(self, option, checked_share(option, value))
            elif value is not None:
                raise ValueError(
                    f'`{option}` belongs to the semantics "{owner}"; got {value!r} for "{name}"'
                )


class Ranking(NamedTuple):
    """The answer to one k: parallel arrays in the order in which they are to be read.

    rank : int64, 1, 2, ...;  tuples : int64
    score : float64, of the tuple's most probable alternative; under U-Topk of the one that the
        vector holds
    value : float64, Pr_k; under U-Topk the probability of the whole vector, under U-kRanks that of
        having this rank, and the expected rank or the sum where these rank the tuples
    """

    rank: Ints
    tuples: Ints
    score: Floats
    value: Floats


def rankings(items: RankedItems, ks: Sequence[int], semantics: Semantics) -> list[Ranking]:
    """The answers to all `ks` at once.

    Cost: that of the greatest k (and of each k on its own under "u_topk").
    """
    if semantics.name == "u_topk":
        return [_of_vector(items, k) for k in ks]
    if semantics.name in ("pk_topk", "pt_k"):
        values = probabilities(items, list(ks))
        if semantics.name == "pt_k":
            assert semantics.threshold is not None
            found = [at_least(items, values[:, j], semantics.threshold) for j in range(len(ks))]
        else:
            found = [best(items, values[:, j], k) for j, k in enumerate(ks)]
        return [_of_likeliest(items, each) for each in found]
    most = max(ks)
    if semantics.name == "u_kranks":
        whole = likeliest_ranks(items, most)
    elif semantics.name == "expected_rank":
        whole = best(items, rank_means(items), most, least=True)
    else:
        assert semantics.alpha is not None
        whole = best(items, exponential(items, semantics.alpha), most)
    prefixes = (Likeliest(whole.indices[:k], whole.probability[:k]) for k in ks)
    return [_of_likeliest(items, prefix) for prefix in prefixes]


def stream_rankings(
    items: RankedItems, streams: Ints, ks: Sequence[int]
) -> list[tuple[Ranking, Ints]]:
    """For each k the k streams of highest Pr_k, the sum over their tuples.

    streams : int64[tuples], the stream of each tuple
    Returns rankings with the streams, int64; score and tuple are those of the stream's tuple of
    highest Pr_k. Equal sums in ascending order of stream.
    Source: D, section 9.
    """
    values = probabilities(items, list(ks))
    ids, place = np.unique(streams, return_inverse=True)
    answers = []
    for j, k in enumerate(ks):
        total: Floats = np.bincount(place, values[:, j], ids.size).astype(np.float64)
        chosen = np.argsort(-total, kind="stable")[:k]
        leader = np.empty(ids.size, dtype=np.int64)
        by_value = np.argsort(values[:, j], kind="stable")
        leader[place[by_value]] = by_value  # the last one written is the greatest
        tuples = leader[chosen]
        rank = np.arange(1, chosen.size + 1)
        ranking = Ranking(rank, tuples, _scores(items, tuples), total[chosen])
        answers.append((ranking, ids[chosen]))
    return answers


def top_k_streams(
    scores: npt.ArrayLike,
    prob: npt.ArrayLike,
    streams: npt.ArrayLike,
    rules: npt.ArrayLike | None = None,
    *,
    k: int,
    ascending: bool = False,
) -> Likeliest:
    """The k streams of highest Pr_k: the sum over the stream's tuples, all ranked together.

    scores, prob, rules : as top_k_probabilities;  streams : int array [n], the tuples' streams
    Returns the streams and their sums, the highest first; equal ones by ascending stream. A sum is
    the expected number of the stream's tuples among the top k.
    Cost: as top_k_probabilities.  Source: D, section 9.
    """
    items = RankedItems(scores, prob, rules, ascending=ascending)
    ids = np.array(streams)
    if ids.shape != (items.items,) or (ids.size and ids.dtype.kind not in "iu"):
        raise ValueError(
            f"`streams` must be {items.items} whole numbers, as long as `scores`; "
            f"got shape {ids.shape} of {ids.dtype}"
        )
    ranking, found = stream_rankings(items, ids.astype(np.int64), [checked_k(k)])[0]
    return Likeliest(found, ranking.value)


def _of_likeliest(items: RankedItems, found: Likeliest) -> Ranking:
    rank = np.arange(1, found.indices.size + 1)
    there = found.indices >= 0  # U-kRanks leaves ranks open that nothing can have
    tuples = found.indices[there]
    return Ranking(rank[there], tuples, _scores(items, tuples), found.probability[there])


def _of_vector(items: RankedItems, k: int) -> Ranking:
    answer: Any = vector(items, k)
    rank = np.arange(1, answer.indices.size + 1)
    value = np.full(rank.size, answer.probability)
    tuples = items.item_tuple[answer.indices]
    return Ranking(rank, tuples, items.scores[answer.indices], value)


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
