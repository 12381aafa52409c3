"""Sides with punctuations, read at any pace: a stream join equals the join of static frames."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seeds import examples
from sfumato.tables.operator import TIE
from sfumato.windows import JoinWindow
from table_runs import waiting_rows, with_column
from table_subjects import TABLES

STAMP = pa.timestamp("us", tz="UTC")
ALTERNATIVES = pa.list_(pa.struct([("prob", pa.float64()), ("x", pa.float64())]))
WINDOWS = {
    "rows": (JoinWindow(4), JoinWindow(4)),
    "time": (JoinWindow(span="12 us"), JoinWindow(span="7 us")),
    "both": (JoinWindow(3), JoinWindow(span="10 us")),
}
PAIRS = {"probability": 0.3, "windows": WINDOWS["rows"], "aligned": ((), ())}
COMPLETE = replace(TABLES["similarity join"].make().config, within=1.0, **PAIRS)
GAPS = replace(TABLES["incomplete join"].make().config, within=0.3, on=("y", "x"), **PAIRS)


def controlled(seed, side, n=70, by_key=False):
    """Return rows as from a disorder controller: in event-time order, with rising punctuations."""
    rng = np.random.default_rng([seed, side])
    keys = rng.integers(0, 3, n)
    passed, rows = {}, []
    for i, key in enumerate(keys.tolist()):
        scope = key if by_key else 0
        before, newest = passed.get(scope, (0, 0))
        late = i > 3 and rng.random() < 0.15
        if late:
            rows.append((key, int(rng.integers(0, before + 1)), True, before))
            continue
        time = max(newest, before + 1) + int(rng.integers(0, 3))
        # A controller may release several rows at one punctuation, at or beyond the last of them.
        passed[scope] = (before if rng.random() < 0.5 else time + int(rng.integers(0, 2)), time)
        rows.append((key, time, False, passed[scope][0]))
    values = np.where(rng.random((n, 2)) < 0.3, np.nan, rng.random((n, 2)) + 0.5)
    samples = [[{"prob": 0.5, "x": float(x)} for x in rng.integers(0, 6, 2)] for _ in range(n)]
    return pa.table(
        {
            "row": pa.array([{"c0": 1000 * side + i} for i in range(n)]),
            "alternatives": pa.array(samples, ALTERNATIVES),
            "value0": pa.array(values[:, 0], from_pandas=True),
            "value1": pa.array(values[:, 1], from_pandas=True),
            "order0": pa.array([time for _, time, _, _ in rows], pa.int64()).cast(STAMP),
            "late": pa.array([late for _, _, late, _ in rows]),
            "punctuation": pa.array([p for *_, p in rows], pa.int64()).cast(STAMP),
            "key0": pa.array(keys),
            TIE: pa.array(rng.integers(0, 2**40, n)),
        }
    )


def times(table):
    """Return event times, whether rows are late, and punctuations."""
    time, punctuation = (table.column(c).cast(pa.int64()) for c in ("order0", "punctuation"))
    late = table.column("late").to_numpy().astype(bool)
    return time.to_numpy(), late, punctuation.to_numpy()


def changes(tables):
    """Return answers (left, right, change, probability), sorted."""
    return sorted(
        (row["left"]["c0"], row["right"]["c0"], row["change"], row["probability"])
        for table in tables
        for row in table.to_pylist()
    )


def pairs_of(tables):
    return sorted((r["left"]["c0"], r["right"]["c0"]) for t in tables for r in t.to_pylist())


def in_order(config, sides):
    """Return the join of on-time rows, one by one in event-time order, left before right."""
    plain = replace(config, aligned=None).make()
    out, rows = [], []
    for side, table in enumerate(sides):
        time, late, _ = times(table)
        tie = table.column(TIE).to_numpy()
        rows += [(time[i], side, tie[i], i) for i in np.flatnonzero(~late)]
    for _, side, _, i in sorted(rows):
        out += plain.process([(side, sides[side].slice(i, 1))], 0)
    return changes(out)


@examples(24)
@given(
    st.integers(0, 10**6),
    st.sampled_from([COMPLETE, GAPS]),
    st.sampled_from(sorted(WINDOWS)),
    st.booleans(),
    st.lists(st.tuples(st.sampled_from(["left", "right", "both", "restart"]), st.integers(1, 40))),
)
def test_answers_are_those_of_rows_in_order_for_any_pace_cut_and_restart(
    seed, config, windows, by_key, steps
):
    scopes = ((0,), ()) if by_key else ((), ())
    config = replace(config, windows=WINDOWS[windows], aligned=scopes)
    sides = [controlled(seed, side, by_key=by_key and side == 0) for side in (0, 1)]
    expected = in_order(config, sides)
    operator, out, at = config.make(), [], [0, 0]
    for which, size in [*steps, ("both", 70)]:
        if which == "restart":
            operator = config.restore(operator.snapshot())
            continue
        batch = []
        for side, name in enumerate(("left", "right")):
            if which in (name, "both") and at[side] < 70:
                part = sides[side].slice(at[side], size)
                at[side] += part.num_rows
                batch.append((side, part.take(pa.array(np.argsort(part.column(TIE))))))
        if batch:
            out += operator.process(batch, 0)
    out += operator.flush()
    assert changes(out) == expected
    counted = operator.counters()
    late = sum(np.count_nonzero(times(table)[1]) for table in sides)
    assert (counted["rows"], counted["late"], counted["unaligned"]) == (140, late, 0)
    assert waiting_rows(operator.sides) == 0


def test_rows_wait_only_for_the_slower_side():
    left, right = controlled(1, 0), controlled(1, 1)
    operator = COMPLETE.make()
    operator.process([(0, left)], 0)
    on_time = np.count_nonzero(~times(left)[1])
    assert waiting_rows(operator.sides) == on_time
    operator.process([(1, right.slice(0, 35))], 0)
    half = waiting_rows(operator.sides)
    assert 0 < half < on_time
    operator.process([(1, right.slice(35))], 0)
    newest = min(times(table)[2].max() for table in (left, right))
    waiting = sum(
        np.count_nonzero(~late & (time > newest)) for time, late, _ in map(times, (left, right))
    )
    assert waiting_rows(operator.sides) == waiting


def test_rows_that_follow_after_others_of_their_punctuation_are_counted():
    def side(time, punctuation):
        table = controlled(1, 0, n=len(time))
        given = {"order0": time, "punctuation": punctuation, "late": [False] * len(time)}
        for name, cells in given.items():
            at, kind = table.column_names.index(name), table.schema.field(name).type
            typed = pa.array(cells, pa.bool_() if name == "late" else pa.int64())
            table = table.set_column(at, name, typed.cast(kind))
        return table

    left = side([10, 20, 30, 40], [40, 40, 40, 40])
    right = side([11, 21, 31, 41], [41, 41, 41, 41])
    together, apart = COMPLETE.make(), COMPLETE.make()
    together.process([(0, left), (1, right)], 0)
    assert together.counters()["out_of_order"] == 0
    apart.process([(0, left), (1, right.slice(0, 1))], 0)  # passes 10, 20 and 30 on the left
    apart.process([(1, right.slice(1))], 0)
    assert apart.counters()["out_of_order"] == 2  # 21 and 31


def test_a_silent_side_is_waited_for_until_its_timeout():
    left, right = controlled(2, 0), controlled(2, 1)
    config = replace(COMPLETE, idle_timeout=1_000_000)
    operator = config.make()
    operator.process([(1, right.slice(0, 5))], 0)
    operator.process([(0, left.slice(0, 35))], 10)
    waiting = waiting_rows(operator.sides)
    assert waiting > 20
    operator = config.restore(operator.snapshot())
    operator.process([(0, left.slice(35))], 1005)  # the right side has been silent for 1,005 ms
    assert waiting_rows(operator.sides) < 10
    before = operator.counters()["late"]
    rest = right.slice(5)
    operator.process([(1, rest)], 1006)
    time, late, _ = times(rest)
    passed = np.count_nonzero(late | (time <= times(left)[2].max()))
    assert operator.counters()["late"] - before == passed
    operator.idle(9999)
    assert waiting_rows(operator.sides) == 0


def of_key(rows, key, begin, end):
    """Return a slice of the rows, all with one key."""
    part = rows.slice(begin, end - begin)
    return with_column(part, "key0", pa.array(np.full(part.num_rows, key)))


@pytest.mark.parametrize("scopes", [((0,), (0,)), ((), (0,)), ((0,), ())])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_key_that_is_silent_on_one_side_is_released_while_other_keys_go_on(scopes, restarts):
    left, right = controlled(2, 0), controlled(2, 1)
    busy = 1 if scopes[1] else 0  # the side whose controllers have a key, and lack key 1
    few = (right, left)[1 - busy]
    config = replace(COMPLETE, idle_timeout=1_000_000, aligned=scopes)
    operator = config.make()
    operator.process([(1 - busy, of_key((left, right)[1 - busy], 1, 0, 20))], 0)
    on_time = waiting_rows(operator.sides)
    assert on_time > 10
    for now in range(100, 1000, 100):  # key 0 has rows on both sides
        at = now // 20 - 5
        batch = [(busy, of_key(few, 0, at, at + 5))]
        operator.process(batch, now)
        if restarts:
            operator = config.restore(operator.snapshot())
    before, late = waiting_rows(operator.sides), operator.counters()["late"]
    operator.process([(busy, of_key(few, 0, 45, 50))], 1001)
    assert waiting_rows(operator.sides) < before - 8
    operator.process([(busy, of_key(few, 0, 50, 55))], 1002)
    lates = np.count_nonzero(times(few.slice(45, 10))[1])
    assert operator.counters()["late"] - late == lates  # key 0 loses nothing
    operator.process([(busy, of_key(few, 1, 0, 5))], 1003)  # key 1 is too late, and says so
    assert operator.counters()["late"] - late == lates + 5


def test_sides_with_controllers_of_different_keys_release_only_the_silent_pair_of_keys():
    def rows_at(*at):
        rows = of_key(controlled(3, 0), 7, 0, 4).append_column("key1", pa.array([0, 0, 1, 1]))
        rows = with_column(rows, "late", pa.array([False] * 4))
        for name in ("order0", "punctuation"):
            rows = with_column(rows, name, pa.array(at).cast(STAMP))
        return rows

    config = replace(COMPLETE, idle_timeout=1_000_000, aligned=((0,), (1,)), keys=2)
    operator = config.make()
    left, right = rows_at(10, 20, 30, 40), rows_at(1, 2, 3, 4)
    operator.process([(0, left)], 0)
    operator = config.restore(operator.snapshot())
    later = rows_at(20, 30, 40, 50).slice(3)  # the right side has rows for `key1` 1 only
    operator.process([(0, later), (1, right.slice(2, 1))], 900)
    assert waiting_rows(operator.sides) == 6
    operator.process([(1, right.slice(3))], 1000)
    assert waiting_rows(operator.sides) == 4  # rows of `key1` 0 no longer wait
    operator.process([(1, right.slice(0, 1))], 1001)
    assert operator.counters()["late"] == 1


def test_a_timeout_that_is_added_later_starts_with_the_first_row_after_it():
    left, right = controlled(2, 0), controlled(2, 1)
    operator = COMPLETE.make()
    operator.process([(0, left.slice(0, 20)), (1, right.slice(0, 2))], 5_000_000)
    waiting = waiting_rows(operator.sides)
    operator = replace(COMPLETE, idle_timeout=1_000_000).restore(operator.snapshot())
    assert not sum(map(len, operator.idle(9_000_000)))
    assert waiting_rows(operator.sides) == waiting
    operator.idle(9_001_000)
    assert waiting_rows(operator.sides) == 0


def ever_new_keys(seed, side, n=3000):
    """Return rows whose keys are always new, with two rows and one controller per key."""
    rows = controlled(seed, side, n)
    time = 2 * np.arange(n)
    columns = {
        "order0": pa.array(time).cast(STAMP),
        "punctuation": pa.array(time + 1).cast(STAMP),
        "late": pa.array(np.zeros(n, bool)),
        "key0": pa.array(np.arange(n) // 2),
    }
    for name, values in columns.items():
        rows = with_column(rows, name, values)
    return rows


@pytest.mark.parametrize("scopes", [((0,), (0,)), ((), (0,))])
@pytest.mark.parametrize("behind", [0, 500])
def test_freeing_punctuations_of_silent_keys_changes_no_answer(scopes, behind):
    config = replace(COMPLETE, output="append", aligned=scopes)
    sides = [ever_new_keys(5, side) for side in (0, 1)]
    found, sizes = [], []
    for after in (None, 60.0):
        operator, out = replace(config, forget_after=after).make(), []
        for begin in range(0, 3000 + behind, 100):
            batch = [(0, sides[0].slice(begin, 100))]
            batch += [(1, sides[1].slice(begin - behind, 100))] if begin >= behind else []
            batch = [(side, rows) for side, rows in batch if rows.num_rows]
            out += operator.process(batch, 0)
        sizes.append(len(operator.snapshot()))
        out += operator.flush()
        found.append(pairs_of(out))
    assert found[0] == found[1]
    assert len(found[0]) > 1000
    assert all(len(side.scopes) < 400 + behind for side in operator.sides.sides)
    assert sizes[1] < 0.5 * sizes[0]


def test_a_key_that_is_slower_than_all_others_loses_no_answer():
    config = replace(COMPLETE, output="append", aligned=((0,), (0,)))
    sides = [ever_new_keys(6, side, 400) for side in (0, 1)]
    slow = [rows.filter(pa.compute.equal(rows["key0"], 3)) for rows in sides]
    rest = [rows.filter(pa.compute.not_equal(rows["key0"], 3)) for rows in sides]
    found = []
    for after in (None, 60.0):
        operator, out = replace(config, forget_after=after).make(), []
        for begin in range(0, 398, 50):
            out += operator.process([(s, rows.slice(begin, 50)) for s, rows in enumerate(rest)], 0)
        for place in range(2):
            for side in (1, 0):
                out += operator.process([(side, slow[side].slice(place, 1))], 0)
        out += operator.flush()
        found.append(pairs_of(out))
    assert found[0] == found[1]


def test_rows_without_punctuations_are_counted_where_pace_matters():
    config = replace(COMPLETE, aligned=None, pace_matters=True)
    operator = config.make()
    operator.process([(0, controlled(1, 0)), (1, controlled(1, 1))], 0)
    assert operator.counters()["unaligned"] == 140


@pytest.mark.parametrize("part", ["left", "right"])
def test_a_snapshot_without_the_rows_of_held_tuples_is_refused(part):
    operator = COMPLETE.make()
    operator.process([(0, controlled(1, 0)), (1, controlled(1, 1))], 0)
    store = getattr(operator, part)
    store.keep(store.numbers[-1:])
    operator.before_saving = lambda: None
    with pytest.raises(ValueError, match="every held tuple must have its row"):
        COMPLETE.restore(operator.snapshot())
