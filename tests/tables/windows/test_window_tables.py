"""Windows over tables, without Spark: late rows, slides, memory of silent keys."""

import numpy as np
import pyarrow as pa
import pytest

from sfumato.tables.windows.table_extents import ExtentTableConfig
from sfumato.tables.windows.table_windows import RowWindowTableConfig
from sfumato.windows import Range, Rows
from table_runs import run, table_of

TOTAL = {"results": (("total", "sum", 0, None),), "attributes": 1}


def table(time, key=None, value=None, late=None, punctuation=None):
    """Return rows as from an adapter; columns that are not given have defaults or are missing."""
    n = len(time)
    columns = {
        "prob": pa.array([[1.0]] * n),
        "value0": pa.array([[float(v)] for v in (range(n) if value is None else value)]),
        "order0": pa.array(time, pa.int64()),
        "key0": pa.array(["a"] * n if key is None else key),
    }
    if late is not None:
        columns["late"] = pa.array(late)
    if punctuation is not None:
        columns["punctuation"] = pa.array(punctuation, pa.int64())
    return table_of({"id": range(n)}, **columns)


def random_cuts(rng, n):
    return sorted(rng.choice(n, int(rng.integers(0, min(n, 6))), replace=False).tolist())


def range_config(length, slide=None, **more):
    window = Range(f"{length} us", None if slide is None else f"{slide} us")
    return ExtentTableConfig(window=window, keys=1, **TOTAL, **more)


def test_event_times_out_of_range_are_invalid():
    rows = table([10, 2**60 + 1, 12, -(2**62)])
    operator, found = run(range_config(60, scope=None), rows, [2])
    assert [row["held"] for row in found] == [2]
    assert operator.counters() | {"rows": 4, "invalid": 2} == operator.counters()


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("scope", [(), (0,)])
def test_late_rows_of_a_source_ahead_are_included_after_an_idle_timeout(scope, restarts):
    window = Range("25 us", idle_timeout="1 second")
    config = ExtentTableConfig(window=window, keys=1, scope=scope, by_source=True, **TOTAL)
    operator = config.make()
    rows = table(
        [10, 5, 20, 21], late=[False, True, False, True],
        punctuation=[10, 20, 20, 30], key=["a", "a", "a", "b"],
    )  # fmt: skip
    assert operator.process([(0, rows)], 1000) == []
    if restarts:
        operator = config.restore(operator.snapshot())
    assert operator.idle(1999) == []
    found = pa.concat_tables(operator.idle(2000)).to_pylist()
    assert sorted((row["key0"], row["held"]) for row in found) == [("a", 3)]
    assert operator.flush() == []
    assert operator.counters()["late"] == 1  # the row at 21, whose extent ended before 30


@pytest.mark.parametrize(("size", "slide"), [(3, 3), (5, 2), (2, 5), (4, 1)])
def test_a_slide_of_rows_answers_every_nth_row_of_a_key(size, slide):
    rng = np.random.default_rng(size)
    n = 150
    time = np.cumsum(rng.integers(0, 10, n)).tolist()
    key = rng.choice(list("abcd"), n, p=[0.5, 0.3, 0.15, 0.05]).tolist()
    value = rng.integers(0, 100, n).tolist()
    seen, expected = {}, []
    for i, (k, v) in enumerate(zip(key, value, strict=True)):
        seen[k] = [*seen.get(k, []), v]
        if len(seen[k]) % slide == 0:
            held = seen[k][-size:]
            expected.append((i, len(held), float(sum(held))))
    config = RowWindowTableConfig(window=Rows(size, 1.0, slide=slide), keys=1, **TOTAL)
    for _ in range(4):
        operator, found = run(config, table(time, key, value), random_cuts(rng, n))
        assert [(row["id"], row["held"], row["total"]["mean"]) for row in found] == expected
        assert operator.counters()["rows"] == n


def test_forgetting_keys_without_open_extents_changes_no_answer():
    # 12,000 keys, about a hundred per extent; then one of the first keys returns.
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
    got = {(row["window"]["end"], row["key0"]): row["total"]["mean"] for row in found}
    assert len(found) == len(got)
    assert got == expected
