"""The rows of many queries' answers, from the rankings that one run gave for each k."""

from __future__ import annotations

import numpy as np

from sfumato.kernels.compile import compiled

# Rows of the whole numbers of answers.
QUERY, K, TIME, ANSWERED, RANK, ROW, STREAM = range(7)


@compiled
def answer_rows(
    whole, real, at, queries, ks, place, times, offsets, rank, tuples, score, value, stream, rows
):
    """Write the answers of one run to each of its queries; returns where the next ones go.

    whole, real : int64[7, n] and float64[2, n], filled from column `at` on: QUERY, K, TIME,
        ANSWERED, RANK, ROW and STREAM; score and value
    queries, ks, place : int64[q], of each query its number, its k, and its ranking
    times : int64[2], the run's instant, and when it was answered
    offsets, rank, tuples, score, value, stream : the rankings; ranking c has the places
        offsets[c] ... offsets[c + 1] - 1.  rows : int64[tuples], what is written of a tuple
    Cost: O(rows written). One pass, column by column: there may be far more of them than tuples,
    for every query gets its own.
    """
    for j in range(queries.size):
        begin, end = offsets[place[j]], offsets[place[j] + 1]
        size = end - begin
        whole[QUERY, at : at + size] = queries[j]
        whole[K, at : at + size] = ks[j]
        whole[TIME, at : at + size] = times[0]
        whole[ANSWERED, at : at + size] = times[1]
        whole[RANK, at : at + size] = rank[begin:end]
        whole[STREAM, at : at + size] = stream[begin:end]
        real[0, at : at + size] = score[begin:end]
        real[1, at : at + size] = value[begin:end]
        for i in range(size):
            whole[ROW, at + i] = rows[tuples[begin + i]]
        at += size
    return at


@compiled
def count_answers(changes, latency, every):
    """How many answers there are, and how many of them are later than their `every`.

    changes : bool[n], where another answer begins;  latency, every : int64[n] microseconds,
        latency negative where unknown
    Returns int64[3]: answers, late ones, and the sum of the known latencies.
    """
    out = np.zeros(3, dtype=np.int64)
    for i in range(changes.size):
        if changes[i]:
            out[0] += 1
            if latency[i] > every[i]:
                out[1] += 1
            if latency[i] > 0:
                out[2] += latency[i]
    return out
