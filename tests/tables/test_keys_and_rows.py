"""Key codes and the row store, against dictionaries and lists."""

import math
from contextlib import suppress
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seeds import examples
from sfumato.operators.state.snapshot import SavedState, SnapshotError, pack, unpack
from sfumato.tables.arrival_order import count_out_of_order
from sfumato.tables.arrow import as_bytes, from_bytes
from sfumato.tables.keys import KeyIndex
from sfumato.tables.row_store import RowStore

key_values = st.tuples(
    st.sampled_from([None, "a", "b", "ab", ""]), st.sampled_from([None, 0, 1, 2**40])
)
SCHEMA = pa.schema([("name", pa.string()), ("number", pa.int64())])


def as_table(rows):
    return pa.table({"name": [r[0] for r in rows], "number": [r[1] for r in rows]}, schema=SCHEMA)


def restored(index, forget_after=None):
    saved = SavedState()
    index.save_state(saved)
    back = KeyIndex(forget_after=forget_after)
    back.load_state(saved)
    saved.check_empty()
    return back


@given(batches=st.lists(st.lists(key_values, max_size=12), max_size=6), restart=st.integers(0, 6))
def test_codes_count_distinct_keys_in_order_of_first_appearance_across_a_restart(batches, restart):
    index, known = KeyIndex(), {}
    for number, batch in enumerate(batches):
        if number == restart:
            index = restored(index)
        expected = [known.setdefault(row, len(known)) for row in batch]
        codes = index.encode(as_table(batch))
        assert codes.tolist() == expected
        for key in (0, 1) if batch else ():
            assert index.values(codes).column(key).to_pylist() == [row[key] for row in batch]
    assert len(index) == index.size == len(known)


KEY_TYPES = {
    "nan and zeros": (
        pa.float64(), [0.0, math.nan, -0.0, 1.0, -math.nan, None], [0, 1, 0, 2, 1, 3]
    ),
    "floats": (pa.float32(), [math.nan, -0.0, 0.0, math.nan], [0, 1, 1, 0]),
    "lists": (pa.list_(pa.float64()), [[0.0], [-0.0], [math.nan], [math.nan], []], [0, 0, 1, 1, 2]),
    "structs": (
        pa.struct({"a": pa.string(), "b": pa.list_(pa.int64())}),
        [{"a": "x", "b": [1]}, None, {"a": "x", "b": [1]}, {"a": "x", "b": None}], [0, 1, 0, 2],
    ),
    "bytes": (pa.binary(), [b"", b"a", None, b"a"], [0, 1, 2, 1]),
    "decimals": (pa.decimal128(9, 2), [Decimal("1.00"), Decimal("1.01"), Decimal("1")], [0, 1, 0]),
    "times": (pa.timestamp("us", "UTC"), [0, 5, 0], [0, 1, 0]),
    "dates": (pa.date32(), [0, 5, None, 0], [0, 1, 2, 0]),
    "bools": (pa.bool_(), [True, None, False, True], [0, 1, 2, 0]),
    "spans": (pa.duration("us"), [5, 6, 5], [0, 1, 0]),
}  # fmt: skip


@pytest.mark.parametrize("kind", KEY_TYPES)
@pytest.mark.parametrize("at_once", [True, False])
def test_keys_of_any_type_are_equal_as_spark_groups_them(kind, at_once):
    type_, values, expected = KEY_TYPES[kind]
    column, index = pa.array(values, type_), KeyIndex()
    parts = [column] if at_once else [column.slice(i, 1) for i in range(len(column))]
    found = []
    for part in parts:
        found += index.encode(pa.table({"key0": part})).tolist()
        index = restored(index)
    assert found == expected
    first = [found.index(code) for code in sorted(set(found))]
    back = index.values(np.arange(len(index))).column(0).to_pylist()
    assert [str(value) for value in back] == [
        "0.0" if value == 0.0 and isinstance(value, float) else str(value)
        for value in column.take(pa.array(first)).to_pylist()
    ]


def incarnations(rows, forget_after):
    """Return [(key, number of its restarts)] by definition, from the key's own rows alone."""
    newest, times, found = {}, {}, []
    for key, order in rows:
        if key in newest and order > newest[key] + forget_after:
            times[key] = times.get(key, 0) + 1
        newest[key] = max(order, newest.get(key, order))
        found.append((key, times.get(key, 0)))
    return found


@examples(200)
@given(
    steps=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 6)), max_size=60),
    cuts=st.sets(st.integers(0, 60)),
    restart=st.integers(0, 60),
)
def test_a_key_restarts_by_its_own_rows_for_any_cuts_and_codes_are_reused(steps, cuts, restart):
    order = np.cumsum([step for _, step in steps])
    rows = [(f"k{key}", int(at)) for (key, _), at in zip(steps, order, strict=True)]
    index, alive, of = KeyIndex(forget_after=7.0), {}, []
    for begin, end in pairwise(sorted({0, len(rows), *(c for c in cuts if c < len(rows))})):
        if begin >= restart:
            index = restored(index, 7.0)
        keys = pa.table({"key0": [key for key, _ in rows[begin:end]]})
        of += index.encode(keys, order[begin:end]).tolist()
        gone = index.take_expired().tolist()
        assert len(gone) == len(set(gone))
        index.forget(np.array(gone, np.int64))
        for code in gone:
            alive[code] = alive.get(code, 0) + 1
        of[begin:end] = [(code, alive.get(code, 0) - (code in gone)) for code in of[begin:end]]
    expected = incarnations(rows, 7.0)
    assert len(set(of)) == len(set(expected))
    assert len(set(zip(of, expected, strict=True))) == len(set(expected))


def test_memory_of_keys_that_come_once_stays_small():
    index = KeyIndex(forget_after=10.0)
    for batch in range(200):
        names = [f"{batch}-{i}" for i in range(50)]
        index.encode(pa.table({"key0": names}), np.full(50, float(batch)))
        index.forget(index.take_expired())
    assert index.size < 800
    assert len(index) < 700
    assert len(index._values) < 3000


def test_an_index_keeps_some_codes_and_reuses_others():
    index, keys = KeyIndex(), pa.table({"rule": ["a", None, "b", "a"]})
    assert index.encode(keys).tolist() == [0, 1, 2, 0]
    index.keep(np.array([2]))
    index = restored(index)
    assert len(index) == 1
    a, none, b, again = index.encode(keys).tolist()
    assert b == 2
    assert a == again
    assert len({a, none, b}) == len(index) == 3


def test_without_key_columns_every_row_has_code_zero():
    assert KeyIndex().encode(pa.table({"x": [1, 2, 3]}).select([])).tolist() == [0, 0, 0]


@given(
    st.lists(st.tuples(st.integers(0, 40), st.sets(st.integers(0, 200))), min_size=1, max_size=12)
)
def test_rows_needed_stay_available_and_forgotten_ones_leave_memory(steps):
    store, live = RowStore(lambda: needed), set()
    for count, wanted in steps:
        new = range(store.next, store.next + count)
        store.append(pa.table({"n": pa.array(list(new), pa.int64())}))
        live = (live | set(new)) & (wanted | set(new))
        needed = np.array(sorted(live, reverse=True), np.int64)
        store.drop_unneeded(len(needed))
        assert store.take(needed).column("n").to_pylist() == needed.tolist()
        assert len(store.numbers) <= max(2 * len(live) + 64, count)


@pytest.mark.parametrize("apart", [1, 3, 50])
def test_many_rows_are_found_however_far_apart_their_numbers_are(apart):
    rng, store, plain = np.random.default_rng(apart), RowStore(), np.empty(0, np.int64)
    for _ in range(8):
        numbers = store.next + np.cumsum(rng.integers(1, apart + 1, 2_000))
        store.append(pa.table({"n": numbers}), numbers)
        plain = np.concatenate([plain, numbers])
        asked, fresh = rng.choice(plain, 300), pa.table({"n": store.next + np.arange(9)})
        asked = np.append(asked, store.next + rng.integers(0, 9, 5))  # rows that are not stored
        assert store.take(asked, fresh).column("n").to_pylist() == asked.tolist()
        plain = np.sort(rng.choice(plain, len(plain) // 2, replace=False))
        store.keep(plain)


def test_a_forgotten_row_is_an_error_not_another_row():
    store = RowStore()
    store.append(pa.table({"n": list(range(10))}))
    store.keep(np.array([2, 5]))
    assert store.take(np.array([5, 2])).column("n").to_pylist() == [5, 2]
    with pytest.raises(KeyError):
        store.take(np.array([3]))


def test_rows_before_the_latest_one_of_earlier_batches_are_out_of_order():
    day, number = np.array([1, 2, 2, 3]), np.array([9, 1, 5, 0])
    assert count_out_of_order([day, number], None) == 0
    assert count_out_of_order([day, number], (2, 5)) == 2


def test_tables_are_restored_with_their_nulls_and_types():
    table = pa.table({"a": [1, None, 3], "b": [["x"], [], None], "c": [{"d": 1.5}] * 3})
    saved = pack("rows", 1, SavedState({"n": 1}, {"x": np.arange(2), "t": as_bytes(table)}))
    back = unpack(saved, "rows", 1)
    assert from_bytes("t", back.arrays["t"]).equals(table)
    assert (back.values, list(back.arrays)) == ({"n": 1}, ["x", "t"])


@given(place=st.integers(min_value=0), bit=st.integers(0, 7))
def test_a_damaged_table_is_an_error_or_another_table_never_a_crash(place, bit):
    table = pa.table({"a": ["x", "yy", None], "b": [[1], [], None]})
    data = as_bytes(table).copy()
    data[place % len(data)] ^= 1 << bit
    with suppress(SnapshotError):
        from_bytes("rows", data).to_pylist()
