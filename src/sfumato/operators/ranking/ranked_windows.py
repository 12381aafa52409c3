"""Many small windows ranked together: for Pk-topk, where no rule can have too much in any."""

from functools import lru_cache

import numpy as np

from sfumato.kernels.ranking.answer_rows import AnswerRows
from sfumato.kernels.ranking.generation_rules import rule_masses
from sfumato.kernels.ranking.ranked_windows import Asked, Tuples, Windows, rank_windows
from sfumato.operators.arrays import Bools, Ints, offsets_of
from sfumato.operators.laws.poisson_binomial import EXCESS
from sfumato.operators.ranking.timetable import Query
from sfumato.operators.ranking.window_tuples import HeldTuples

MOST_ITEMS = 1024  # in a window: the best of more are found sooner than all are sorted


def dense_rules(held: HeldTuples, stream: Ints, streams: int) -> tuple[Ints, int, Bools]:
    """Each tuple's rule, numbered from 0 in each of some streams, or -1; how many there are in one
    at most; and in which the members of a rule have more than probability 1 in all: bool[streams].

    stream : int64[n], ascending, where each tuple belongs
    """
    overfull, bound = np.zeros(streams, np.bool_), np.flatnonzero(held.rule >= 0)
    if not bound.size:
        return held.rule, 0, overfull
    rules, code = np.unique(held.rule[bound], return_inverse=True)
    names, number = np.unique(stream[bound] * rules.size + code, return_inverse=True)
    owner, rule = names // rules.size, np.full(held.size, -1)
    rule[bound] = number
    masses = rule_masses(held.prob, np.repeat(rule, np.diff(held.begin)), names.size)
    overfull[owner[masses > 1.0 + 0.999 * EXCESS]] = True
    rule[bound] -= np.searchsorted(owner, stream[bound])
    return rule, int(np.bincount(owner).max()), overfull


@lru_cache(256)
def asked_for(
    runs: tuple[tuple[str, ...], ...], queries: tuple[tuple[str, Query], ...]
) -> tuple[tuple[str, ...], Asked]:
    """Names of queries, and what some runs are asked for.

    runs : the names that each of them answers    queries : (name, (k, every)) of all
    """
    k_of = {name: k for name, (k, _) in queries}
    names = tuple(dict.fromkeys(name for run in runs for name in run))
    number = {name: i for i, name in enumerate(names)}
    none = np.empty(0, np.int64)
    each = [np.array([k_of[name] for name in run], np.int64) for run in runs]
    some = [np.unique(k, return_inverse=True) for k in each]
    return names, Asked(
        begin=offsets_of([k.size for k in each]),
        query=np.array([number[name] for run in runs for name in run], np.int64),
        k=np.concatenate([none, *each]),
        ranking=np.concatenate([none, *(place for _, place in some)]),
        some_k=offsets_of([k.size for k, _ in some]),
        ks=np.concatenate([none, *(k for k, _ in some)]),
    )


def ranked_windows(
    held: HeldTuples,
    rules: tuple[Ints, int],
    windows: Windows,
    asked: Asked,
    *,
    ascending: bool,
    skips: bool,
) -> tuple[AnswerRows, Ints]:
    """The answers of windows of at most MOST_ITEMS alternatives, one after the other, tuples by
    their place; and how many rows each has, int64[r], -1 of one that is left out.

    rules : each tuple's, from 0 or -1, and how many a window has at most
    ascending : whether the least score ranks first
    skips : whether windows without tuples are left out
    Cost: as `rank_windows`, and nothing more for each window.
    """  # fmt: skip
    rule, count = rules
    key, place = held.score if ascending else -held.score, np.arange(held.size)
    tuples = Tuples(
        place, held.time, held.valid, rule, count, held.begin, key, held.score, held.prob
    )
    found: tuple[AnswerRows, Ints] = rank_windows(tuples, windows, asked, skips)
    return found
