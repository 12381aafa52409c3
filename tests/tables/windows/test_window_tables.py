"""Windows over tables, without Spark: late rows, silent keys, cuts and restarts."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest

from seeds import seeds
from sfumato.tables.reading.exact import ExactNumber
from sfumato.tables.windows.table_extents import ExtentTableConfig
from sfumato.tables.windows.table_windows import RowWindowTableConfig
from sfumato.windows import Delta, Range, Rows, Session

TOTAL = {"results": (("total", "sum", 0, None),), "attributes": 1}


def table(time, key=None, value=None, late=None, punctuation=None):
    """Rows as an adapter gives them; what is not given is 0, or not there."""
    n = len(time)
    columns = {
        "row": pa.array([{"id": i} for i in range(n)], pa.struct([("id", pa.int64())])),
        "prob": pa.array([[1.0]] * n),
        "value0": pa.array([[float(v)] for v in (range(n) if value is None else value)]),
        "order0": pa.array(time, pa.int64()),
        "key0": pa.array(["a"] * n if key is None else key),
        "__tie": pa.array(range(n), pa.int64()),
    }
    if late is not None:
        columns["late"] = pa.array(late)
    if punctuation is not None:
        columns["punctuation"] = pa.array(punctuation, pa.int64())
    return pa.table(columns)


def run(config, rows, cuts, restart=True):
    """All answers, with the rows cut at `cuts` and the operator restored in between."""
    operator, answers = config.make(), []
    ends = [0, *cuts, rows.num_rows]
    for begin, end in itertools.pairwise(ends):
        if end > begin:
            answers += operator.process([(0, rows.slice(begin, end - begin))], 0)
        if restart:
            operator = config.restore(operator.snapshot())
    answers += operator.flush()
    return operator, [row for part in answers for row in part.to_pylist()]


def random_cuts(rng, n):
    return sorted(rng.choice(n, int(rng.integers(0, min(n, 6))), replace=False).tolist())


def rows_config(**more):
    return RowWindowTableConfig(window=Rows(2, 1.0), keys=1, orders=1, **TOTAL, **more)


def range_config(length, slide=None, **more):
    window = Range(f"{length} us", None if slide is None else f"{slide} us")
    return ExtentTableConfig(window=window, keys=1, key_names=("key",), **TOTAL, **more)


def test_a_late_row_is_in_the_extent_that_is_still_open():
    rows = table(
        [10, 20, 5, 30, 40], value=[10, 20, 5, 30, 40],
        late=[False, False, True, False, False], punctuation=[10, 20, 20, 30, 40],
    )  # fmt: skip
    for cut in range(6):
        operator, found = run(range_config(60, scope=()), rows, [cut])
        assert [(row["total"]["mean"], row["late"]) for row in found] == [(105.0, 0)]
        assert operator.counters()["late"] == 0


@pytest.mark.parametrize("seed", seeds(3, 1))
@pytest.mark.parametrize("window", [Range("60 us", "20 us"), Session("9 us"), Rows(4)], ids=str)
def test_exact_sums_do_not_depend_on_cuts_and_restarts(window, seed):
    rng = np.random.default_rng(seed)
    values = [int(v) for v in rng.integers(-(2**59), 2**59, 30)]
    time = np.cumsum(rng.integers(0, 9, 30))
    rows = table(time, rng.choice(["a", "b"], 30))
    cells = pa.array([[v] for v in values], pa.list_(pa.int64()))
    rows = rows.set_column(rows.column_names.index("value0"), "value0", cells)
    results = tuple((of, of, 0, None) for of in ("sum", "min", "max"))
    exact = tuple(ExactNumber(64, of != "sum") for of, *_ in results)
    settings = {"results": results, "attributes": 1, "kinds": ("exact",) * 3, "exact": exact}
    if isinstance(window, Rows):
        config = RowWindowTableConfig(window=window, keys=1, **settings)
    else:
        config = ExtentTableConfig(window=window, keys=1, key_names=("key",), **settings)
    _, once = run(config, rows, [])
    assert run(config, rows, random_cuts(rng, 30))[1] == once
    last = once[-1]
    key = rows.column("key0").to_pylist()
    if isinstance(window, Rows):
        mine = [v for v, k in zip(values, key, strict=True) if k == key[-1]][-last["held"] :]
    else:
        start, end = last["window"]["start"], last["window"]["end"]
        mine = [
            v for v, k, t in zip(values, key, time, strict=True)
            if k == last["key"] and start <= t < end
        ]  # fmt: skip
    assert (last["sum"], last["min"], last["max"]) == (sum(mine), min(mine), max(mine))


@pytest.mark.parametrize("seed", seeds(3, 1))
def test_days_of_a_zone_do_not_depend_on_cuts_and_restarts(seed):
    rng, hour = np.random.default_rng(seed), 3_600_000_000
    order = np.cumsum(rng.integers(1, 9, 60)) * hour
    late = rng.random(60) < 0.2
    time = np.where(late, order - rng.integers(1, 150, 60) * hour, order)
    window = Range("2 days", "1 day", zone="America/New_York")
    config = ExtentTableConfig(
        window=window, keys=1, key_names=("key",), scope=(), missed=True, **TOTAL
    )
    rows = table(time, rng.choice(["a", "b"], 60).tolist(), None, late, order)
    operator, whole = run(config, rows, [])
    counts = operator.counters()
    assert counts["late"] == sum(row["missed"] is not None for row in whole) > 0
    for cuts in (range(1, 60), random_cuts(rng, 60)):
        operator, found = run(config, rows, cuts)
        assert sorted(found, key=repr) == sorted(whole, key=repr)
        assert operator.counters() == counts


def test_an_event_time_beyond_the_range_is_invalid_and_counted():
    rows = table([10, 2**60 + 1, 12, -(2**62)])
    operator, found = run(range_config(60, scope=None), rows, [2])
    assert [row["held"] for row in found] == [2]
    assert operator.counters() | {"rows": 4, "invalid": 2} == operator.counters()


def test_two_controllers_under_one_window_are_counted():
    # a union of two frames, each reordered; in micro-batches their punctuations go back
    rows = table([50, 60, 10, 20], late=[False] * 4, punctuation=[50, 60, 10, 20])
    operator, _ = run(range_config(20, scope=()), rows, [2])
    assert operator.counters()["out_of_order"] == 2


def test_members_come_with_the_results_of_their_extent_late_ones_too():
    rows = table(
        [10, 20, 5, 30], late=[False, False, True, False], punctuation=[10, 20, 20, 30]
    )  # fmt: skip
    for cut in range(5):
        config = range_config(25, scope=(), members=True)
        _, found = run(config, rows, [cut])
        members = sorted((row["window"]["end"], row["id"]) for row in found)
        assert members == [(25, 0), (25, 1), (25, 2), (50, 3)]


@pytest.mark.parametrize("seed", seeds(6, 2))
def test_extents_over_sources_of_any_pace_do_not_depend_on_cuts(seed):
    # rows of two sources as one controller per source lets them out: in order up to the slower one,
    # late ones at once, with the punctuation of their own source
    rng = np.random.default_rng(seed)
    time, late, punctuation, passed = [], [], [], {0: -5, 1: -5}
    for _ in range(80):
        source = int(rng.random() < 0.2 + 0.1 * seed)
        before = min(passed.values())
        if rng.random() < 0.2:
            time.append(passed[source] - int(rng.integers(0, 30)))
            late.append(True)
            punctuation.append(passed[source])
            continue
        passed[source] += int(rng.integers(1, 6))
        now = min(passed.values())
        for t in range(before + 1, now + 1):
            if rng.random() < 0.7:
                time.append(t)
                late.append(False)
                punctuation.append(now)
    key = rng.choice(["a", "b"], len(time)).tolist()
    rows = table(time, key, late=late, punctuation=punctuation)
    config = range_config(14, 7, scope=(), by_source=True)
    _, once = run(config, rows, [], restart=False)
    assert sum(row["held"] for row in once) > len(time)
    for _ in range(5):
        _, cut = run(config, rows, random_cuts(rng, rows.num_rows))
        assert cut == once
        shuffled = rows.take(pa.array(rng.permutation(rows.num_rows)))
        assert run(config, shuffled, [], restart=False)[1] == once


def test_late_rows_take_no_part_in_a_window_of_rows():
    time, late = [10, 20, 5, 30, 15, 40], [False, False, True, False, True, False]
    rows = table(time, value=time, late=late)
    rows = rows.append_column("punctuation", pa.array([10, 20, 20, 30, 30, 40]))
    for cuts in [[], [2, 3], *([cut] for cut in range(1, 6))]:
        operator, found = run(rows_config(controlled=True), rows, cuts)
        assert [row["id"] for row in found] == [0, 1, 3, 5]
        assert [row["total"]["mean"] for row in found] == [10.0, 30.0, 50.0, 70.0]
        assert operator.counters()["late"] == 2
        assert operator.counters()["rows"] == 6


def begun_anew(time, key, value, after, size):
    """Sum of the newest `size` rows of each row's key since its last silence, the slow way."""
    found, held, last = [], {}, {}
    for t, k, v in zip(time, key, value, strict=True):
        if k in last and t - last[k] > after:
            held[k] = []
        last[k] = t
        held[k] = [*held.get(k, []), v][-size:]
        found.append(float(sum(held[k])))
    return found


@pytest.mark.parametrize("window", [Rows(2, 1.0), Delta(1e9, on="x", max_tuples=2)])
@pytest.mark.parametrize("seed", seeds(5, 2))
def test_a_key_that_was_silent_begins_anew_whatever_the_cuts(seed, window):
    rng = np.random.default_rng(seed)
    n, after = 120, 40
    time = np.cumsum(rng.integers(0, 25, n)).tolist()
    key = rng.choice(list("abcdefgh"), n, p=[0.3, 0.2, 0.1, 0.1, 0.1, 0.1, 0.05, 0.05]).tolist()
    value = rng.integers(0, 100, n).tolist()
    expected = begun_anew(time, key, value, after, 2)
    assert expected != begun_anew(time, key, value, 10**9, 2)
    config = RowWindowTableConfig(
        window=window, keys=1, orders=1, forget_after=float(after), **TOTAL
    )
    for _ in range(4):
        _, found = run(config, table(time, key, value), random_cuts(rng, n))
        assert [row["total"]["mean"] for row in found] == expected


@pytest.mark.parametrize(("size", "slide"), [(3, 3), (5, 2), (2, 5), (4, 1)])
@pytest.mark.parametrize("after", [30, 10**9])
def test_a_slide_keeps_every_such_row_of_a_key_whatever_the_cuts(size, slide, after):
    rng = np.random.default_rng(size)
    n = 150
    time = np.cumsum(rng.integers(0, 10, n)).tolist()
    key = rng.choice(list("abcd"), n, p=[0.5, 0.3, 0.15, 0.05]).tolist()
    value = rng.integers(0, 100, n).tolist()
    totals, seen, expected = begun_anew(time, key, value, after, size), {}, []
    for i, part in enumerate(parts_of(time, key, after)):
        seen[part] = seen.get(part, 0) + 1
        if seen[part] % slide == 0:
            expected.append((i, min(size, seen[part]), totals[i]))
    config = RowWindowTableConfig(
        window=Rows(size, 1.0, slide=slide), keys=1, forget_after=float(after), **TOTAL
    )
    for _ in range(4):
        operator, found = run(config, table(time, key, value), random_cuts(rng, n))
        assert [(row["id"], row["held"], row["total"]["mean"]) for row in found] == expected
        assert operator.counters()["rows"] == n


@pytest.mark.parametrize("window", [Rows(3), Delta(2.5, on="x")])
def test_state_of_silent_keys_is_freed(window):
    config = RowWindowTableConfig(window=window, keys=1, orders=1, forget_after=7.0, **TOTAL)
    operator, sizes = config.make(), []
    for batch in range(30):
        rows = table([batch * 5] * 20, [f"k{batch}-{i}" for i in range(20)])
        operator.process([(0, rows)], 0)
        sizes.append(len(operator.snapshot()))
    assert max(sizes) < 4 * sizes[0]
    assert operator.index.size <= 80


def parts_of(time, key, after):
    """The key of each row, with the number of silences of its key before it."""
    found, last, number = [], {}, {}
    for t, k in zip(time, key, strict=True):
        number[k] = number.get(k, 0) + (k in last and t - last[k] > after)
        last[k] = t
        found.append(f"{k}{number[k]}")
    return found


@pytest.mark.parametrize("length", [30, 90])
@pytest.mark.parametrize("controlled", [False, True])
@pytest.mark.parametrize("seed", seeds(4, 2))
def test_extents_of_a_key_that_begins_anew_come_out_and_it_has_others(seed, controlled, length):
    rng = np.random.default_rng(seed)
    n, after = 120, 40
    time = np.cumsum(rng.integers(0, 25, n))
    key = rng.choice(list("abcdefgh"), n, p=[0.3, 0.2, 0.1, 0.1, 0.1, 0.1, 0.05, 0.05]).tolist()
    value = rng.integers(0, 100, n).tolist()
    marks = {"late": [False] * n, "punctuation": time - 1} if controlled else {}
    more = {"scope": (0,) if controlled else None}

    def shown(rows):
        kept = [(row["key"][0], row["window"]["end"], row["total"]["mean"]) for row in rows]
        return sorted(kept)

    apart = table(time, parts_of(time, key, after), value, **marks)
    _, expected = run(range_config(length, 30, **more), apart, [])
    config = range_config(length, 30, forget_after=float(after), **more)
    for _ in range(4):
        _, found = run(config, table(time, key, value, **marks), random_cuts(rng, n))
        assert shown(found) == shown(expected)
    _, unlimited = run(range_config(length, 30, **more), table(time, key, value, **marks), [])
    assert (shown(unlimited) == shown(expected)) == (length < after)


def test_extents_of_silent_keys_come_out_and_their_memory_is_freed():
    config = range_config(20, 10, forget_after=25.0, scope=(0,))
    operator, found = config.make(), 0
    for begin in range(0, 20_000, 500):
        time = np.arange(begin, begin + 500)
        keys = [f"k{t}" for t in time]
        rows = table(time, keys, late=[False] * 500, punctuation=time - 1)
        found += sum(t.num_rows for t in operator.process([(0, rows)], 0))
        assert len(operator.index) < 5_000
        assert len(operator.operator._groups) < 10_000
    assert found > 2 * 19_000
    assert found + sum(t.num_rows for t in operator.flush()) == 2 * 20_000


def test_keys_whose_extents_are_out_are_forgotten_and_no_answer_changes():
    # 12,000 keys, some hundred in an extent; then one of the first comes again
    config = range_config(100, 50, scope=())
    rows = []
    for begin in range(0, 12_000, 1_000):
        time = np.arange(begin, begin + 1_000) // 2
        keys = [f"k{i}" for i in range(begin, begin + 1_000)]
        rows.append(table(time, keys, late=[False] * 1_000, punctuation=time))
    rows.append(table([7_000], ["k3"], value=[5.0], late=[False], punctuation=[7_000]))
    operator, found = config.make(), []
    for part in rows:
        found += [row for t in operator.process([(0, part)], 0) for row in t.to_pylist()]
        assert len(operator.index) < 5_000
        operator = config.restore(operator.snapshot())
    found += [row for t in operator.flush() for row in t.to_pylist()]
    expected = {}
    for part in rows:
        for row in part.to_pylist():
            for end in (row["order0"] // 50 * 50 + 50, row["order0"] // 50 * 50 + 100):
                expected[end, row["key0"]] = row["value0"][0]
    got = {(row["window"]["end"], row["key"]): row["total"]["mean"] for row in found}
    assert len(found) == len(got)
    assert got == expected
