"""A's own joins, in plain loops: nested, and Index-Match by the regions of all samples."""

from __future__ import annotations

from typing import Any

import numpy as np

from sfumato.kernels.compile import compiled
from sfumato.kernels.joins.match_probability import defining_sum
from sfumato.kernels.joins.similarity_nested import CANDIDATES, PAIRS, VISITED, keep
from sfumato.kernels.joins.tuple_store import Tuples, Windows, padded
from sfumato.operators.joins.join_strategy import Batch, Floats, Ints, Match, Nested, Strategy
from sfumato.operators.joins.similarity_join import SimilarityJoin


@compiled
def bound(tuples: Any, slots: Any) -> None:
    """Write the least and the greatest sample of each slot to its summary."""
    for s in slots:
        length = padded(tuples.samples[s])
        values = tuples.blocks[tuples.at[s] + length : tuples.at[s] + length + tuples.samples[s]]
        tuples.summary[s, 0], tuples.summary[s, 1] = values.min(), values.max()


@compiled
def join_plainly(
    tuples: Any,
    windows: Any,
    code: Any,
    slots: Any,
    begins: Any,
    within: float,
    probability: float,
    bounded: bool,
    counters: Any,
) -> Any:
    """As `join_nested` in one dimension, by plain loops over the pairs of samples.

    bounded : whether tuples whose regions are farther apart than `within` are passed over. In one
        dimension a region is the interval of all samples; a scan of the intervals stands for the
        paper's grid: the pairs of samples cost far more.
    Source: A, section 5 (the baseline) and 6.2.1 (Index-Match).
    """
    found, totals, n = np.empty((64, 3), np.int64), np.empty(64), 0
    for i in range(code.size):
        w, u = code[i], slots[i]
        begin, end = windows.head[w ^ 1], windows.tail[w ^ 1]
        low, high = tuples.summary[u, 0] - within, tuples.summary[u, 1] + within
        for v in range(begin, end):
            if bounded and (tuples.summary[v, 0] > high or tuples.summary[v, 1] < low):
                continue
            counters[CANDIDATES] += 1
            total = defining_sum(
                tuples.blocks, tuples.at[u], tuples.samples[u], tuples.at[v], tuples.samples[v],
                1, within,
            )  # fmt: skip
            if total >= probability:
                found, totals = keep(found, totals, n, i, v, end, total)
                n += 1
        counters[PAIRS] += end - begin
        counters[VISITED] += end - begin
        windows.tail[w] = u + 1
        windows.head[w] = begins[i]
    return found[:n], totals[:n]


class PlainNestedJoin(SimilarityJoin):
    """`SimilarityJoin` in one dimension whose arrivals are held against every tuple, pair by pair.

    The library's own "nested" does the same four samples at a time.
    """

    def _strategy(self) -> Strategy:
        return _Plain(self._match, bounded=False)


class IndexMatchJoin(SimilarityJoin):
    """The same, but for tuples whose region of all samples is too far away.

    The library's own "index" prunes by quantiles of the samples instead.
    """

    def _strategy(self) -> Strategy:
        return _Plain(self._match, bounded=True)


class _Plain(Nested):
    def __init__(self, match: Match, bounded: bool) -> None:
        super().__init__(match)
        self.bounded = bounded
        self.columns = 2

    def written(self, tuples: Tuples, slots: Ints) -> None:
        bound(tuples, slots)

    def join(
        self, tuples: Tuples, windows: Windows, batch: Batch, counters: Ints
    ) -> tuple[Ints, Floats]:
        result: tuple[Ints, Floats] = join_plainly(
            tuples, windows, batch.code, batch.slots, batch.begins,
            self.match.within, self.match.probability, self.bounded, counters,
        )  # fmt: skip
        return result
