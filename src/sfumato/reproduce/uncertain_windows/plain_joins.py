"""A's own joins, in plain loops: nested, and Index-Match by the regions of all samples."""

from typing import Any

import numpy as np

from sfumato.kernels.compile import compiled
from sfumato.kernels.joins.match_probability import defining_sum
from sfumato.kernels.joins.similarity_nested import FOUND, add_found, enter_behind, opposite
from sfumato.kernels.joins.tuple_store import Batch, Store, padded
from sfumato.operators.joins.join_strategy import Nested, Records
from sfumato.operators.joins.similarity_join import SimilarityJoin


@compiled
def bound(tuples: Any, slots: Any) -> None:
    """Write the least and the greatest sample of each slot to its summary."""
    for s in slots:
        length = padded(tuples.samples[s])
        values = tuples.blocks[tuples.at[s] + length : tuples.at[s] + length + tuples.samples[s]]
        tuples.summary[s, 0], tuples.summary[s, 1] = values.min(), values.max()


@compiled
def join_plainly(store: Any, batch: Any, criterion: Any, bounded: bool, counts: Any) -> Any:
    """As `join_nested` in one dimension, by plain loops over the pairs of samples.

    bounded : whether tuples whose regions are farther apart than `within` are passed over. In one
        dimension a region is the interval of all samples; a scan of the intervals stands for the
        paper's grid: the pairs of samples cost far more.
    Source: A, section 5 (the baseline) and 6.2.1 (Index-Match).
    """
    found, n, tuples, within = np.empty(64, FOUND), 0, store.tuples, criterion.within
    summary = tuples.summary
    for i in range(batch.code.size):
        u = batch.slots[i]
        begin, end = opposite(store, batch, i)
        low, high = summary[u, 0] - within, summary[u, 1] + within
        for v in range(begin, end):
            if bounded and (summary[v, 0] > high or summary[v, 1] < low):
                continue
            counts[0].candidates += 1
            total = defining_sum(tuples, u, v, criterion)
            if total >= criterion.probability:
                found = add_found(found, n, i, batch.code[i] ^ 1, v, end, total)
                n += 1
        counts[0].pairs += end - begin
        counts[0].visited += end - begin
        enter_behind(store, batch, i)
    return found[:n]


class _Plain(Nested):
    columns, bounded = 2, False

    def written(self, store: Store, batch: Batch) -> None:
        bound(store.tuples, batch.slots)

    def join(self, store: Store, batch: Batch, counts: Records) -> Records:
        found: Records = join_plainly(store, batch, self.criterion, self.bounded, counts)
        return found


class _Bounded(_Plain):
    bounded = True


class PlainNestedJoin(SimilarityJoin):
    """`SimilarityJoin` in one dimension whose arrivals are held against every tuple, pair by pair.

    The library's own "nested" does the same four samples at a time.
    """

    strategies = {"nested": _Plain}


class IndexMatchJoin(SimilarityJoin):
    """The same, but for tuples whose region of all samples is too far away.

    The library's own "index" prunes by quantiles of the samples instead.
    """

    strategies = {"nested": _Bounded}
