"""Imputing a held object in full, when the join first needs it: its samples, and a smaller box."""

from __future__ import annotations

import numpy as np

from sfumato.kernels.compile import compiled_ieee
from sfumato.kernels.imputation.alternative_rows import AlternativeRows
from sfumato.kernels.imputation.dependency_choice import new_scratch, scale
from sfumato.kernels.imputation.imputation import Account, Completion, impute_object
from sfumato.kernels.joins.incomplete.objects import KEPT, WHOLE
from sfumato.kernels.joins.regions import summarise
from sfumato.kernels.joins.tuple_store import Tuples, padded, write_tuples
from sfumato.kernels.laws.existence import existences


@compiled_ieee
def block_size(dimensions, count):
    """Places of a block of so many samples."""
    return (dimensions + 1) * padded(count)


@compiled_ieee
def room_for_block(tuples, rings, dimensions, used, needed):
    """Tuples with room for a block of so many places, and the place after the last block.

    Where there is none the blocks of all held and imputed objects move to larger room.
    """
    if used + needed <= tuples.blocks.size:
        return tuples, used
    live = needed
    for w in range(rings.base.size):
        for s in range(rings.base[w], rings.base[w] + rings.held[w]):
            if tuples.samples[s] > 0:
                live += block_size(dimensions, tuples.samples[s])
    blocks, used = np.empty(2 * live), 0
    for w in range(rings.base.size):
        for s in range(rings.base[w], rings.base[w] + rings.held[w]):
            size = block_size(dimensions, tuples.samples[s]) if tuples.samples[s] > 0 else 0
            at = tuples.at[s]
            for i in range(size):
                blocks[used + i] = tuples.blocks[at + i]
            tuples.at[s] = used
            used += size
    moved = Tuples(
        blocks, tuples.at, tuples.samples, tuples.existence, tuples.number, tuples.summary
    )
    return moved, used


@compiled_ieee
def write_samples(tuples, rings, objects, match, s, prob, points, used):
    """Write an object's samples into a block and shrink its box to them; (tuples, used)."""
    d, count = points.shape[1], prob.size
    # A block lent to a slot before must not be moved for this one: it is no longer its object's.
    tuples.samples[s] = 0
    tuples, used = room_for_block(tuples, rings, d, used, block_size(d, count))
    slots, number = np.empty(1, np.int64), np.empty(1, np.int64)
    slots[0], number[0] = s, tuples.number[s]
    offsets = np.empty(2, np.int64)
    offsets[0], offsets[1] = 0, count
    used = write_tuples(
        tuples, slots, offsets, prob, points, existences(offsets, prob), number, used
    )
    summarise(tuples, slots, d, match.numbers[2])
    for a in range(d):
        low, high = np.inf, -np.inf
        for k in range(count):
            low, high = min(low, points[k, a]), max(high, points[k, a])
        objects.low[a, s], objects.high[a, s] = low, high
    objects.state[s] = WHOLE
    return tuples, used


@compiled_ieee
def complete(repository, scratch, tuples, rings, objects, match, s, joint, most, room, used):
    """Impute slot s in full; (tuples, room, used).

    room : (`Account`, `AlternativeRows`), to work in
    """
    account, rows = room
    scale(repository, objects.raw[s], scratch.scaled)
    rows, m, _ = impute_object(
        repository,
        Completion(joint, most),
        scratch,
        objects.raw[s],
        objects.rule[s],
        account,
        rows,
        0,
    )
    prob, points = rows.prob, rows.points
    for k in range(m):
        for a in range(points.shape[1]):
            points[k, a] = (points[k, a] - match.shift[a]) / match.span[a]
    tuples, used = write_samples(tuples, rings, objects, match, s, prob[:m], points[:m], used)
    return tuples, (account, rows), used


@compiled_ieee
def new_room(repository):
    """Room for `complete`."""
    trees = repository.column_of.size
    account = Account(np.empty(trees, np.int64), np.empty(trees), np.empty(trees))
    return account, AlternativeRows(np.empty(64), np.empty((64, trees)))


@compiled_ieee
def refill(
    repository, tuples, rings, objects, match, kept, offsets, prob, points, joint, most, used
):
    """Samples of all held objects that have some anew, from `raw` and `rule`; (blocks, used).

    kept : int64[k], slots of the objects of state KEPT    offsets, prob, points : their samples
    """
    scratch, room = new_scratch(repository), new_room(repository)
    for w in range(rings.base.size):
        for s in range(rings.base[w], rings.base[w] + rings.held[w]):
            tuples.samples[s] = 0
    for w in range(rings.base.size):
        for s in range(rings.base[w], rings.base[w] + rings.held[w]):
            if objects.state[s] == WHOLE:
                tuples, room, used = complete(
                    repository, scratch, tuples, rings, objects, match, s, joint, most, room, used
                )
    for i in range(kept.size):
        first, last = offsets[i], offsets[i + 1]
        tuples, used = write_samples(
            tuples, rings, objects, match, kept[i], prob[first:last], points[first:last], used
        )
        objects.state[kept[i]] = KEPT
    return tuples.blocks, used
