"""The operators over Arrow tables: any columns, any cut into micro-batches, any restart."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seeds import examples
from sfumato.operators.imputation.imputer import Imputer
from sfumato.operators.state.snapshot import SnapshotError
from sfumato.tables.joins.incomplete_join import IncompleteJoinTableConfig
from sfumato.tables.joins.similarity_join import SimilarityJoinTableConfig
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


def run(settings_, pieces, restart):
    """All output of one operator, restored from its snapshot before piece number `restart`."""
    operator, outputs = settings_.make(), []
    for number, piece in enumerate(pieces):
        if number == restart:
            operator = settings_.restore(operator.snapshot())
        outputs += operator.process(piece, now=1000 * number)
    return operator, outputs


cuts = st.lists(st.integers(1, 199), unique=True, max_size=8).map(lambda c: [0, *sorted(c), 200])


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


def pieces_of(table, sides, cuts, mixed):
    for low, high in pairwise(cuts):
        order = low + mixed.permutation(high - low)
        yield [
            (side, table.take(pa.array(order[sides[order] == side])))
            for side in (1, 0)
            if (sides[order] == side).any()
        ]


@examples(30)
@given(cuts=cuts, seed=st.integers(0, 5), restart=st.integers(0, 9), shuffle=st.integers(0, 9))
def test_join_answers_do_not_depend_on_cuts_restarts_or_order_within_a_batch(
    cuts, seed, restart, shuffle
):
    table, sides = uncertain(200, seed)
    mixed = np.random.default_rng(shuffle)
    whole, expected = run(JOIN, list(pieces_of(table, sides, [0, 200], mixed)), restart=-1)
    parts, got = run(JOIN, list(pieces_of(table, sides, cuts, mixed)), restart)
    assert pa.concat_tables(got).to_pylist() == pa.concat_tables(expected).to_pylist()
    assert len(expected[0]) > 20
    assert parts.counters() == whole.counters()
    assert parts.counters()["rows"] == 200


def incomplete(rows, seed):
    """Both sides of a join of rows with gaps, NULL or NaN, as (table, side of each row)."""
    rng = np.random.default_rng(seed)
    values = np.round(rng.random((rows, 1)) + rng.random((rows, 2)), 2)
    values[np.arange(rows), rng.integers(0, 2, rows)] = np.nan
    values[rng.random(rows) < 0.2] = [0.8, 0.9]
    values[rng.random(rows) < 0.1] = np.nan
    table, sides = uncertain(rows, seed)
    return (
        table.drop_columns(["alternatives"])
        .append_column("value0", pa.array(values[:, 0], from_pandas=True))
        .append_column("value1", pa.array(values[:, 1])),
        sides,
    )


@examples(30)
@given(cuts=cuts, seed=st.integers(0, 5), restart=st.integers(0, 9), shuffle=st.integers(0, 9))
def test_answers_of_incomplete_rows_do_not_depend_on_cuts_restarts_or_order_within_a_batch(
    cuts, seed, restart, shuffle
):
    table, sides = incomplete(200, seed)
    mixed = np.random.default_rng(shuffle)
    whole, expected = run(INCOMPLETE, list(pieces_of(table, sides, [0, 200], mixed)), restart=-1)
    parts, got = run(INCOMPLETE, list(pieces_of(table, sides, cuts, mixed)), restart)
    assert pa.concat_tables(got).to_pylist() == pa.concat_tables(expected).to_pylist()
    assert len(expected[0]) > 20
    assert parts.counters() == whole.counters()
    counts = parts.counters()
    assert counts["rows"] == 200 == sum(counts[n] for n in ("complete", "imputed", "unimputable"))
    assert counts["unimputable"] > 0


def test_the_join_forgets_rows_that_left_their_windows():
    table, sides = uncertain(3000, 7)
    cuts = list(range(0, 3001, 100))
    operator, _ = run(JOIN, list(pieces_of(table, sides, cuts, np.random.default_rng(1))), -1)
    live = [len(operator.operator.live(side)) for side in (0, 1)]
    for store, needed in zip((operator.left, operator.right), live, strict=True):
        assert len(store.numbers) <= 2 * needed + 64 + 100
    small = JOIN.restore(operator.snapshot())
    assert [len(store.numbers) for store in (small.left, small.right)] == live
    assert len(operator.snapshot()) < 40_000


@pytest.mark.parametrize("settings_", [JOIN, INCOMPLETE], ids=["join", "gaps"])
def test_damaged_state_is_refused(settings_):
    data = bytearray(settings_.make().snapshot())
    data[-1] ^= 1
    with pytest.raises(SnapshotError, match="damaged"):
        settings_.restore(bytes(data))


def test_settings_of_another_query_have_another_fingerprint():
    from dataclasses import replace

    assert JOIN.fingerprint() != replace(JOIN, within=0.6).fingerprint()
    assert JOIN.fingerprint() == replace(JOIN).fingerprint()
    other = Imputer(REPOSITORY[1:], [], names=["x", "y"]).to_bytes()
    assert INCOMPLETE.fingerprint() != replace(INCOMPLETE, imputer=other).fingerprint()
    assert JOIN.fingerprint() != INCOMPLETE.fingerprint()
