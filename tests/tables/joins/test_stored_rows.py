"""The joins over Arrow tables: the rows that they store, and their fingerprints."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa

from sfumato.operators.imputation.imputer import Imputer
from sfumato.tables.joins.table_incomplete_join import IncompleteJoinTableConfig
from sfumato.tables.joins.table_similarity_join import SimilarityJoinTableConfig
from sfumato.tables.operator import TIE
from sfumato.windows import JoinWindow

JOIN = SimilarityJoinTableConfig(
    within=0.5,
    probability=0.3,
    windows=(JoinWindow(4, 0.9),) * 2,
    output="changes",
    on=("x",),
    keys=1,
)

REPOSITORY = np.random.default_rng(0).random((60, 1)) + np.random.default_rng(1).random((60, 2))
INCOMPLETE = IncompleteJoinTableConfig(
    imputer=Imputer(
        REPOSITORY, ["x -> y : 0.2 -> 1", "y -> x : 0.2 -> 1"], names=["x", "y"], fallback="reject"
    ).to_bytes(),
    within=0.3,
    probability=0.3,
    windows=(JoinWindow(4),) * 2,
    output="changes",
    on=("y", "x"),
    keys=1,
)


def uncertain(rows, seed):
    """Both sides of a join as (side, table), in order of arrival over both."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 4, rows)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    prob = np.repeat(rng.choice([0.5, 0.9, 1.0], rows) / lengths, lengths)
    pair = pa.StructArray.from_arrays(
        [pa.array(prob), pa.array(rng.normal(0, 1, offsets[-1])), pa.array(np.arange(offsets[-1]))],
        ["prob", "x", "label"],
    )
    row = pa.StructArray.from_arrays(
        [pa.array(np.arange(rows)), pa.array([f"n{i}" for i in range(rows)])], ["id", "name"]
    )
    table = pa.table(
        {
            "row": row,
            "alternatives": pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pair),
            "order0": pa.array(np.arange(rows)),
            "key0": pa.array([f"k{i}" for i in rng.integers(0, 2, rows)]),
            TIE: pa.array(np.arange(rows)),
        }
    )
    return table, rng.integers(0, 2, rows)


def test_the_join_forgets_rows_that_left_their_windows():
    table, sides = uncertain(3000, 7)
    operator = JOIN.make()
    for low, high in pairwise(range(0, 3001, 100)):
        part, of = table.slice(low, high - low), sides[low:high]
        operator.process([(side, part.filter(pa.array(of == side))) for side in (0, 1)], 0)
    live = [len(operator.operator.live(side)) for side in (0, 1)]
    for store, needed in zip((operator.left, operator.right), live, strict=True):
        assert len(store.numbers) <= 2 * needed + 64 + 100
    small = JOIN.restore(operator.snapshot())
    assert [len(store.numbers) for store in (small.left, small.right)] == live
    assert len(operator.snapshot()) < 40_000


def test_settings_of_another_query_have_another_fingerprint():
    from dataclasses import replace

    assert JOIN.fingerprint() != replace(JOIN, within=0.6).fingerprint()
    assert JOIN.fingerprint() == replace(JOIN).fingerprint()
    other = Imputer(REPOSITORY[1:], [], names=["x", "y"]).to_bytes()
    assert INCOMPLETE.fingerprint() != replace(INCOMPLETE, imputer=other).fingerprint()
    assert JOIN.fingerprint() != INCOMPLETE.fingerprint()
