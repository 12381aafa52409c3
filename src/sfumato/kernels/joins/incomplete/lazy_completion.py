"""Imputing a held object in full, when the join first needs it: its samples, and a smaller box."""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.compile import compiled_ieee, lean
from sfumato.kernels.imputation.alternative_rows import AlternativeRows
from sfumato.kernels.imputation.imputation import (
    Account,
    Completion,
    impute_object,
    independent_laws,
    taken_jointly,
    write_product,
)
from sfumato.kernels.imputation.repository import Repository, Scratch, new_scratch, scale
from sfumato.kernels.joins.incomplete.objects import KEPT, WHOLE
from sfumato.kernels.joins.regions import summarise_one
from sfumato.kernels.joins.store_room import compact_blocks
from sfumato.kernels.joins.tuple_store import Store, Tuples, block_size, padded, write_block
from sfumato.kernels.laws.existence import existence_within


class Imputing(NamedTuple):
    """How objects are imputed: see `impute_object`; the last two are to work in.

    It is never given back by a function: to count references to its arrays takes time.
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
        tuples.summary, tuples.rounding,
    )  # fmt: skip
    return Store(
        moved, store.windows, store.span, store.held, ends, store.task, store.tasks, store.rounding
    )


class SampleRoom(NamedTuple):
    """Room for an object's samples, `places` of them: prob, points as of `AlternativeRows`; value,
    mass : float64[>= padded], to summarise them."""

    prob: np.ndarray
    points: np.ndarray
    value: np.ndarray
    mass: np.ndarray


@compiled_ieee
def new_room(places, dimensions):
    """`SampleRoom` for so many samples."""
    return SampleRoom(
        np.empty(places), np.empty((places, dimensions)), np.empty(padded(places)),
        np.empty(padded(places)),
    )  # fmt: skip


@lean
def _fits(store, room, count):
    """Whether an object of so many samples has room in both."""
    places = store.ends[0].places + block_size(room.points.shape[1], count)
    return count <= room.prob.size and places <= store.tuples.blocks.size


@lean
def _write_samples(store, objects, nearness, room, s, count):
    """Write an object's samples, the first of `room`, into a block and shrink its box to them."""
    tuples, points, d = store.tuples, room.points, room.points.shape[1]
    tuples.existence[s] = existence_within(room.prob, 0, count)
    store.ends[0].places = write_block(tuples, s, store.ends[0].places, room.prob, points, 0, count)
    summarise_one(tuples, s, d, nearness.criterion.least, room.value, room.mass)
    for a in range(d):
        low, high = np.inf, -np.inf
        for k in range(count):
            low, high = min(low, points[k, a]), max(high, points[k, a])
        objects.low[a, s], objects.high[a, s] = low, high
    objects.state[s] = WHOLE


@compiled_ieee
def new_imputing(repository, joint, most):
    """`Imputing` with room."""
    trees = repository.column_of.size
    account = Account(np.empty(trees, np.int64), np.empty(trees), np.empty(trees))
    return Imputing(repository, Completion(joint, most), new_scratch(repository), account)


@lean
def _to_units(points, count, nearness):
    """Change `count` values to the units of distances."""
    for k in range(count):
        for a in range(points.shape[1]):
            points[k, a] = (points[k, a] - nearness.shift[a]) / nearness.span[a]


@lean
def complete_in_place(store, objects, nearness, imputing, room, s):
    """Impute slot s in full, if there is room for it and it is not done jointly; whether it is."""
    repository, completion, scratch = imputing.repository, imputing.completion, imputing.scratch
    if taken_jointly(repository, completion, objects.rule[s]):
        return False
    raw = objects.raw[s]
    scale(repository, raw, scratch.scaled)
    count = independent_laws(repository, completion, scratch, objects.rule[s], imputing.account)
    if not _fits(store, room, count):
        return False
    write_product(repository, raw, scratch, room, 0)
    _to_units(room.points, count, nearness)
    _write_samples(store, objects, nearness, room, s, count)
    return True


@compiled_ieee
def complete(store, heads, objects, nearness, imputing, room, s):
    """Impute slot s in full, whatever it takes; (store, room), larger if need be.

    heads : int64[windows], where the windows began when this batch did: blocks since then are kept
    Where `complete_in_place` will do, it costs less: so many arrays are not handed back.
    """
    repository, completion, scratch = imputing.repository, imputing.completion, imputing.scratch
    scale(repository, objects.raw[s], scratch.scaled)
    rows, count, _ = impute_object(
        repository, completion, scratch, objects.raw[s], objects.rule[s], imputing.account,
        AlternativeRows(room.prob, room.points), 0,
    )  # fmt: skip
    _to_units(rows.points, count, nearness)
    if count > room.prob.size:
        larger = new_room(rows.prob.size, rows.points.shape[1])
        room = SampleRoom(rows.prob, rows.points, larger.value, larger.mass)
    store = _with_room(store, heads, rows.points.shape[1], block_size(rows.points.shape[1], count))
    _write_samples(store, objects, nearness, room, s, count)
    return store, room


@compiled_ieee
def refill(imputing, store, objects, nearness, kept, samples):
    """Samples of all held objects that have some anew, from `raw` and `rule`; the store.

    kept : int64[k], slots of the objects of state KEPT    samples : (offsets, prob, points), theirs
    """
    offsets, prob, points = samples
    windows, heads, d = store.windows, store.windows.head.copy(), points.shape[1]
    room = new_room(64, d)
    store.ends[0].places = 0
    for w in range(windows.head.size):
        for s in range(windows.head[w], windows.tail[w]):
            store.tuples.samples[s] = 0
    for w in range(windows.head.size):
        for s in range(windows.head[w], windows.tail[w]):
            if objects.state[s] == WHOLE:
                store, room = complete(store, heads, objects, nearness, imputing, room, s)
    for i in range(kept.size):
        first, last = offsets[i], offsets[i + 1]
        if last - first > room.prob.size:
            room = new_room(2 * (last - first), d)
        room.prob[: last - first] = prob[first:last]
        room.points[: last - first] = points[first:last]
        store = _with_room(store, heads, d, block_size(d, last - first))
        _write_samples(store, objects, nearness, room, kept[i], last - first)
        objects.state[kept[i]] = KEPT
    return store
