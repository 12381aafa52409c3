"""Imputing a held object in full, when the join first needs it: its samples, and a smaller box."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sfumato.kernels.compile import compiled_ieee
from sfumato.kernels.imputation.alternative_rows import AlternativeRows
from sfumato.kernels.imputation.imputation import Account, Completion, impute_object
from sfumato.kernels.imputation.repository import Repository, Scratch, new_scratch, scale
from sfumato.kernels.joins.incomplete.objects import KEPT, WHOLE
from sfumato.kernels.joins.regions import summarise
from sfumato.kernels.joins.store_room import compact_blocks
from sfumato.kernels.joins.tuple_store import Store, Tuples, block_size, write_block
from sfumato.kernels.laws.existence import existences


class Imputing(NamedTuple):
    """How objects are imputed: see `impute_object`; the last two are to work in.

    It is never given back by a function: to count references to its arrays took 2 us an object.
    """

    repository: Repository
    completion: Completion
    scratch: Scratch
    account: Account


@compiled_ieee
def _with_room(store, heads, d, needed):
    """The store with room for a block of so many places: blocks of all since `heads` move if need
    be."""
    tuples, ends = store.tuples, store.ends
    if ends[0].places + needed <= tuples.blocks.size:
        return store
    blocks = np.empty(2 * (compact_blocks(store, heads, d, np.empty(0)) + needed))
    ends[0].places = compact_blocks(store, heads, d, blocks)
    moved = Tuples(
        blocks, tuples.at, tuples.samples, tuples.existence, tuples.number, tuples.time,
        tuples.summary,
    )  # fmt: skip
    return Store(moved, store.windows, store.span, store.held, ends, store.task, store.tasks)


@compiled_ieee
def write_samples(store, heads, objects, nearness, s, prob, points):
    """Write an object's samples into a block and shrink its box to them; the store.

    heads : int64[windows], where the windows began when this batch did: blocks since then are kept
    """
    d, count = points.shape[1], prob.size
    store = _with_room(store, heads, d, block_size(d, count))
    tuples, slots, offsets = store.tuples, np.empty(1, np.int64), np.empty(2, np.int64)
    slots[0], offsets[0], offsets[1] = s, 0, count
    tuples.existence[s] = existences(offsets, prob)[0]
    store.ends[0].places = write_block(tuples, s, store.ends[0].places, prob, points, 0, count)
    summarise(tuples, slots, d, nearness.criterion.least)
    for a in range(d):
        low, high = np.inf, -np.inf
        for k in range(count):
            low, high = min(low, points[k, a]), max(high, points[k, a])
        objects.low[a, s], objects.high[a, s] = low, high
    objects.state[s] = WHOLE
    return store


@compiled_ieee
def new_imputing(repository, joint, most):
    """`Imputing` with room."""
    trees = repository.column_of.size
    account = Account(np.empty(trees, np.int64), np.empty(trees), np.empty(trees))
    return Imputing(repository, Completion(joint, most), new_scratch(repository), account)


@compiled_ieee
def new_rows(imputing):
    """Room for the alternatives of an object."""
    return AlternativeRows(np.empty(64), np.empty((64, imputing.account.donors.size)))


@compiled_ieee
def complete(store, heads, objects, nearness, imputing, rows, s):
    """Impute slot s in full; (store, rows).

    heads : as for `write_samples`    rows : of `new_rows`, to work in
    """
    repository, completion, scratch, account = imputing
    scale(repository, objects.raw[s], scratch.scaled)
    rows, m, _ = impute_object(
        repository, completion, scratch, objects.raw[s], objects.rule[s], account, rows, 0
    )
    prob, points = rows.prob, rows.points
    for k in range(m):
        for a in range(points.shape[1]):
            points[k, a] = (points[k, a] - nearness.shift[a]) / nearness.span[a]
    store = write_samples(store, heads, objects, nearness, s, prob[:m], points[:m])
    return store, rows


@compiled_ieee
def refill(imputing, store, objects, nearness, kept, samples):
    """Samples of all held objects that have some anew, from `raw` and `rule`; the store.

    kept : int64[k], slots of the objects of state KEPT    samples : (offsets, prob, points), theirs
    """
    offsets, prob, points = samples
    windows, heads, rows = store.windows, store.windows.head.copy(), new_rows(imputing)
    store.ends[0].places = 0
    for w in range(windows.head.size):
        for s in range(windows.head[w], windows.tail[w]):
            store.tuples.samples[s] = 0
    for w in range(windows.head.size):
        for s in range(windows.head[w], windows.tail[w]):
            if objects.state[s] == WHOLE:
                store, rows = complete(store, heads, objects, nearness, imputing, rows, s)
    for i in range(kept.size):
        first, last = offsets[i], offsets[i + 1]
        store = write_samples(
            store, heads, objects, nearness, kept[i], prob[first:last], points[first:last]
        )
        objects.state[kept[i]] = KEPT
    return store
