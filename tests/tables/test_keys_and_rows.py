"""Key codes and the store of rows, against dictionaries and lists."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.operators.state.row_store import RowStore
from sfumato.tables.arrival_order import arrival_order, count_out_of_order
from sfumato.tables.keys import KeyIndex

key_values = st.tuples(
    st.sampled_from([None, "a", "b", "ab", ""]), st.sampled_from([None, 0, 1, 2**40])
)
SCHEMA = pa.schema([("name", pa.string()), ("number", pa.int64())])


def as_table(rows):
    return pa.table({"name": [r[0] for r in rows], "number": [r[1] for r in rows]}, schema=SCHEMA)


@given(batches=st.lists(st.lists(key_values, max_size=12), max_size=6), restart=st.integers(0, 6))
def test_codes_count_distinct_keys_in_order_of_first_appearance_across_a_restart(batches, restart):
    index, known = KeyIndex(), {}
    for number, batch in enumerate(batches):
        if number == restart:
            index = KeyIndex(index.table)
        expected = [known.setdefault(row, len(known)) for row in batch]
        assert index.encode(as_table(batch)).tolist() == expected
    assert len(index) == len(known)


def test_without_key_columns_every_row_has_code_zero():
    assert KeyIndex().encode(pa.table({"x": [1, 2, 3]}).select([])).tolist() == [0, 0, 0]


@given(
    st.lists(st.tuples(st.integers(0, 40), st.sets(st.integers(0, 200))), min_size=1, max_size=12)
)
def test_rows_needed_stay_available_and_forgotten_ones_leave_memory(steps):
    store, live = RowStore(), set()
    for count, wanted in steps:
        new = range(store.next, store.next + count)
        store.append(pa.table({"n": pa.array(list(new), pa.int64())}))
        live = (live | set(new)) & (wanted | set(new))
        needed = np.array(sorted(live, reverse=True), np.int64)
        store.forget(needed)
        assert store.take(needed).column("n").to_pylist() == needed.tolist()
        assert len(store.numbers) <= max(2 * len(live) + 64, count)


def test_a_forgotten_row_is_an_error_not_another_row():
    store = RowStore()
    store.append(pa.table({"n": list(range(10))}))
    store.keep(np.array([2, 5]))
    assert store.take(np.array([5, 2])).column("n").to_pylist() == [5, 2]
    with pytest.raises(KeyError):
        store.take(np.array([3]))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3)), max_size=30))
def test_arrival_order_is_a_stable_sort_by_columns_then_ties(rows):
    a, b, t = (np.array([r[i] for r in rows], np.int64) for i in range(3))
    expected = sorted(range(len(rows)), key=lambda i: rows[i])
    assert arrival_order([a, b], [t]).tolist() == expected
    assert arrival_order([a]).tolist() == sorted(range(len(rows)), key=lambda i: rows[i][0])


def test_rows_before_the_latest_one_of_earlier_batches_are_out_of_order():
    day, number = np.array([1, 2, 2, 3]), np.array([9, 1, 5, 0])
    assert count_out_of_order([day, number], None) == 0
    assert count_out_of_order([day, number], (2, 5)) == 2
