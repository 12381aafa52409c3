"""The rows of many queries' answers, from the rankings that one run gave for each k."""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.compile import compiled


class Rankings(NamedTuple):
    """The answers to several k, one after the other: k number c has offsets[c] ... offsets[c + 1].

    rank : int64, 1, 2, ...;  tuples : int64
    score : float64, of the tuple's most probable alternative
    value : float64, Pr_k; under U-Topk the probability of the whole vector, under U-kRanks that of
        having this rank, and the expected rank or the sum where these rank the tuples
    stream : int64, -1 unless streams are ranked
    """

    offsets: np.ndarray
    rank: np.ndarray
    tuples: np.ndarray
    score: np.ndarray
    value: np.ndarray
    stream: np.ndarray


class Run(NamedTuple):
    """One run, at an instant, for several queries.

    query, k, ranking : int64[q], of each query its number, its k, and which ranking is its answer
    time, answered : int, the instant, and when it was answered, in microseconds
    row : int64[tuples], what is written of a tuple
    """

    query: np.ndarray
    k: np.ndarray
    ranking: np.ndarray
    time: int
    answered: int
    row: np.ndarray


class AnswerRows(NamedTuple):
    """n rows of answers, column by column: all int64[n], but score and probability float64[n]."""

    query: np.ndarray
    k: np.ndarray
    time: np.ndarray
    answered: np.ndarray
    rank: np.ndarray
    row: np.ndarray
    stream: np.ndarray
    score: np.ndarray
    probability: np.ndarray


@compiled
def write_answers(out, at, run, rankings):
    """Write the answers of one run to each of its queries; returns where the next ones go.

    out : AnswerRows, filled from row `at` on;  run : Run;  rankings : Rankings of its k
    One pass, column by column: there may be far more rows than tuples, as every query gets its own.
    """
    offsets = rankings.offsets
    for j in range(run.query.size):
        begin, end = offsets[run.ranking[j]], offsets[run.ranking[j] + 1]
        size = end - begin
        out.query[at : at + size] = run.query[j]
        out.k[at : at + size] = run.k[j]
        out.time[at : at + size] = run.time
        out.answered[at : at + size] = run.answered
        out.rank[at : at + size] = rankings.rank[begin:end]
        out.stream[at : at + size] = rankings.stream[begin:end]
        out.score[at : at + size] = rankings.score[begin:end]
        out.probability[at : at + size] = rankings.value[begin:end]
        for i in range(size):
            out.row[at + i] = run.row[rankings.tuples[begin + i]]
        at += size
    return at


@compiled
def count_answers(changes, latency, every):
    """How many answers there are, how many are later than their `every`, and their latency.

    changes : bool[n], where another answer begins;  latency, every : int64[n] microseconds,
        latency negative where unknown
    Returns (answers, late ones, the sum of the known latencies).
    """
    answers, late, total = 0, 0, 0
    for i in range(changes.size):
        if changes[i]:
            answers += 1
            late += latency[i] > every[i]
            total += max(latency[i], 0)
    return answers, late, total
