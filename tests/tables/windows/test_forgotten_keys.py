"""Windows of rows forget a key: its next row finds an empty window, whatever the micro-batches."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seeds import examples
from sfumato.tables.operator import ROW, TIE
from sfumato.tables.windows.table_windows import RowWindowTableConfig
from sfumato.windows import Delta, Rows

WINDOWS = {"rows": Rows(3), "delta": Delta(2.5, on="x")}


def config(window):
    return RowWindowTableConfig(
        window=window, results=(("n", "count", None, None),), attributes=1,
        keys=1, forget_after=7.0,
    )  # fmt: skip


def table_of(rows, first):
    n = len(rows)
    keys, order = zip(*rows, strict=True)
    lists = pa.ListArray.from_arrays(pa.array(np.arange(n + 1), pa.int32()), pa.array(np.ones(n)))
    values = pa.ListArray.from_arrays(
        pa.array(np.arange(n + 1), pa.int32()), pa.array(np.array(order, float))
    )
    return pa.table(
        {
            ROW: [{"c0": first + i} for i in range(n)], "key0": pa.array(keys), "order0": order,
            "prob": lists, "value0": values, TIE: first + np.arange(n),
        }
    )  # fmt: skip


def held(rows):
    """How many rows are in the window of three of each row, by definition."""
    found = []
    for i, (key, at) in enumerate(rows):
        window = [at]
        for other, before in reversed(rows[:i]):
            if other == key:
                if window[0] > before + 7:
                    break
                window.insert(0, before)
        found.append(min(len(window), 3))
    return found


@examples(40)
@given(
    steps=st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 6)), min_size=1, max_size=30),
    cuts=st.sets(st.integers(1, 29)),
    restart=st.integers(0, 30),
)
def test_a_window_begins_anew_after_a_long_silence_of_its_key(steps, cuts, restart):
    order = np.cumsum([step for _, step in steps]).tolist()
    rows = [(key, at) for (key, _), at in zip(steps, order, strict=True)]
    operator, found = config(WINDOWS["rows"]).make(), {}
    for begin, end in pairwise(sorted({0, len(rows), *(c for c in cuts if c < len(rows))})):
        if begin >= restart:
            operator = config(WINDOWS["rows"]).restore(operator.snapshot())
        for out in operator.process([(0, table_of(rows[begin:end], begin))], 0):
            found.update(zip(out["c0"].to_pylist(), out["held"].to_pylist(), strict=True))
    assert [found[i] for i in range(len(rows))] == held(rows)


@pytest.mark.parametrize("kind", WINDOWS)
def test_state_of_keys_that_are_gone_is_freed(kind):
    operator = config(WINDOWS[kind]).make()
    sizes = []
    for batch in range(30):
        rows = [(f"k{batch}-{i}", batch * 5) for i in range(20)]
        operator.process([(0, table_of(rows, batch * 20))], 0)
        sizes.append(len(operator.snapshot()))
    assert max(sizes) < 4 * sizes[0]
    assert operator.index.size <= 80
