"""The join of a stream with itself: rows are stored once, and several tasks share the work."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from sfumato.tables.joins.table_similarity_join import SelfJoinTableConfig
from sfumato.windows import JoinWindow


def stream(rows, seed=3):
    rng = np.random.default_rng(seed)
    number = pa.array(np.arange(rows))
    flat = pa.StructArray.from_arrays(
        [pa.array(np.full(2 * rows, 0.5)), pa.array(rng.integers(0, 9, 2 * rows) * 1.0)],
        ["prob", "on0"],
    )
    return pa.table(
        {
            "row": pa.StructArray.from_arrays([number], ["c0"]),
            "alternatives": pa.ListArray.from_arrays(
                pa.array(np.arange(0, 2 * rows + 1, 2), pa.int32()), flat
            ),
            "key0": pa.array(rng.integers(0, 2, rows)),
            "order0": number,
            "__tie": number,
        }
    )


def operator(output="append", **chosen):
    return SelfJoinTableConfig(
        within=1.0, probability=0.4, windows=(JoinWindow(12), JoinWindow(12)), on=("on0",),
        orders=1, keys=1, output=output, **chosen,
    ).make()  # fmt: skip


def answers(one, rows, cuts=(0, 70, 71, 200)):
    tables = [
        table
        for begin, end in pairwise(cuts)
        for table in one.process([(0, rows.slice(begin, end - begin))], 0)
    ]
    return [row for table in tables for row in table.to_pylist()]


def by_pair(rows):
    return sorted(rows, key=lambda row: (row["left"]["c0"], row["right"]["c0"], str(row)))


@pytest.mark.parametrize("output", ["append", "changes"])
@pytest.mark.parametrize("tasks", [2, 3])
def test_several_tasks_find_the_pairs_of_one(output, tasks):
    rows = stream(200)
    alone = answers(operator(output), rows)
    shared = [
        row
        for task in range(tasks)
        for row in answers(operator(output, tasks=tasks, task=task), rows)
    ]
    assert len(alone) > 300
    assert by_pair(shared) == by_pair(alone)
    assert all(row["left"]["c0"] > row["right"]["c0"] for row in alone)


def test_a_row_is_stored_once():
    one, rows = operator(), stream(2_000)
    answers(one, rows, (0, 1_000, 2_000))
    one.snapshot()  # drops what no window has
    assert len(one.left) == 24  # two keys, twelve rows each
    assert len(one.right) == 0


def test_pairs_come_without_their_alternatives_if_asked():
    rows = stream(100)
    plain = answers(operator(alternatives=False), rows)
    whole = answers(operator(), rows)
    assert [row.pop("alternatives") for row in whole]
    assert plain == whole
