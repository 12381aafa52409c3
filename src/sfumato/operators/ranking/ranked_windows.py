"""Many small windows of the same tuples, ranked together: for Pk-topk, where no rule can have too
much in any of them."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from sfumato.kernels.ranking.answer_rows import AnswerRows
from sfumato.kernels.ranking.generation_rules import rule_masses
from sfumato.kernels.ranking.ranked_windows import Asked, Tuples, Windows, rank_windows
from sfumato.operators.arrays import Ints, offsets_of
from sfumato.operators.laws.poisson_binomial import EXCESS
from sfumato.operators.ranking.timetable import Query
from sfumato.operators.ranking.window_answers import TopKAnswers
from sfumato.operators.ranking.window_tuples import HeldTuples

MOST_ITEMS = 1024  # in a window: the best of more are found sooner than all are sorted


class Ranked(NamedTuple):
    """The answers, how many windows were ranked, and the sum of their greatest k."""

    answers: TopKAnswers
    executions: int
    cost: int


def dense_rules(held: HeldTuples) -> tuple[Ints, int] | None:
    """Each tuple's rule, numbered from 0, or -1, and how many there are; None where the members of
    one have more than probability 1 in all."""
    if held.rule.max(initial=-1) < 0:
        return held.rule, 0
    names, rule = np.unique(np.maximum(held.rule, -1), return_inverse=True)
    rule = rule.reshape(-1) - int(names[0] < 0)
    count = int(rule.max()) + 1
    masses = rule_masses(held.prob, np.repeat(rule, np.diff(held.begin)), count)
    return (rule, count) if masses.max() <= 1.0 + 0.999 * EXCESS else None


def small(held: HeldTuples, windows: Windows) -> bool:
    """Whether the windows have at most MOST_ITEMS alternatives each."""
    last = np.maximum(windows.last, windows.first)
    return int((held.begin[last] - held.begin[windows.first]).max(initial=0)) <= MOST_ITEMS


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
    each = [np.array([k_of[name] for name in run], np.int64) for run in runs]
    some = [np.unique(k, return_inverse=True) for k in each]
    return names, Asked(
        begin=offsets_of([k.size for k in each]),
        query=np.array([number[name] for run in runs for name in run], np.int64),
        k=np.concatenate(each),
        ranking=np.concatenate([place for _, place in some]),
        some_k=offsets_of([k.size for k, _ in some]),
        ks=np.concatenate([k for k, _ in some]),
    )


def ranked_windows(
    held: HeldTuples,
    rules: tuple[Ints, int],
    windows: Windows,
    asked: tuple[tuple[str, ...], Asked],
    ascending: bool,
    skips: bool,
) -> Ranked:
    """The answers of windows of at most MOST_ITEMS alternatives.

    rules : see `dense_rules`    asked : names, and of which queries each window is
    ascending : whether the least score ranks first
    skips : whether windows without tuples are left out
    Cost: as `rank_windows`, and nothing more for each window.
    """
    rule, count = rules
    key = held.score if ascending else -held.score
    tuples = Tuples(
        held.row, held.time, held.valid, rule, count, held.begin, key, held.score, held.prob
    )
    names, of = asked
    rows: AnswerRows
    rows, ranked = rank_windows(tuples, windows, of, skips)
    if not ranked.all():  # queries without a run that ranked anything were not answered
        there = np.unique(of.query[np.repeat(ranked > 0, np.diff(of.begin))])
        names = tuple(names[i] for i in there)
        rows = rows._replace(query=np.searchsorted(there, rows.query))
    answers = TopKAnswers(names, *rows, np.empty(0, np.int64))
    return Ranked(answers, int(ranked.sum()), int(ranked @ of.ks[of.some_k[1:] - 1]))
