"""A reorder forgets a key: what it holds comes out, then the key begins anew, whatever the cut."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seeds import examples
from sfumato.operators.disorder.control import DisorderControl
from sfumato.tables.disorder.table_reorder import ReorderTableConfig
from sfumato.tables.operator import ROW, TIE

FORGET = 50
CONTROLS = {
    "slack": DisorderControl(slack=3, guard=False),
    "delay": DisorderControl(max_delay=20, guard=False),
    "ratio": DisorderControl(0.2, estimator="conformal", max_buffer=4),
    "normal": DisorderControl(0.2, estimator="normal"),
}


def config(control, forget_after: float | None = FORGET):
    return ReorderTableConfig(control=control, keys=1, forget_after=forget_after)


def stream(steps):
    """Rows (key, event time, arrival) of steps (key, time since the last arrival, delay)."""
    arrival = np.cumsum([step for _, step, _ in steps])
    event = arrival - [delay for *_, delay in steps]
    keys = [key for key, *_ in steps]
    return list(zip(keys, event.tolist(), arrival.tolist(), strict=True))


def table_of(rows, first=0):
    keys, event, arrival = (list(column) for column in zip(*rows, strict=True))
    number = list(range(first, first + len(rows)))
    return pa.table(
        {
            ROW: [{"key": k, "n": n} for k, n in zip(keys, number, strict=True)],
            "key0": keys, "event": event, "order0": arrival, TIE: number,
        }
    )  # fmt: skip


def by_key(tables):
    found = {}
    for table in tables:
        for row in table.to_pylist():
            shown = (row[ROW]["n"], row["late"], row["punctuation"])
            found.setdefault(row[ROW]["key"], []).append(shown)
    return found


def by_definition(control, rows):
    """Each key's rows, cut where it begins anew, each part as a stream of its own."""
    found = {}
    for key in dict.fromkeys(key for key, *_ in rows):
        numbers = [n for n, (k, *_) in enumerate(rows) if k == key]
        parts = [[numbers[0]]]
        for before, n in pairwise(numbers):
            if rows[n][2] > rows[before][2] + FORGET:
                parts.append([])
            parts[-1].append(n)
        for part in parts:
            operator = config(control, None).make()
            tables = [t for n in part for t in operator.process([(0, table_of([rows[n]], n))], 0)]
            found.setdefault(key, []).extend(by_key([*tables, *operator.flush()])[key])
    return found


steps = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(1, 40), st.integers(0, 60)),
    min_size=1, max_size=60,
)  # fmt: skip


@pytest.mark.parametrize("control", CONTROLS.values(), ids=CONTROLS)
@examples(30)
@given(steps=steps, cuts=st.sets(st.integers(1, 59)), restart=st.integers(0, 60))
def test_a_key_begins_anew_after_all_it_held_came_out(control, steps, cuts, restart):
    rows = stream(steps)
    operator, got = config(control).make(), []
    ends = [0, *sorted(cut for cut in cuts if cut < len(rows)), len(rows)]
    for low, high in pairwise(ends):
        if low <= restart < high:
            operator = operator.config.restore(operator.snapshot())
        got += operator.process([(0, table_of(rows[low:high], low))], 0)
    counts = operator.counters()
    got += operator.flush()
    assert by_key(got) == by_definition(control, rows)
    again = operator.config.restore(operator.snapshot())
    assert again.counters() == operator.counters()
    assert counts["rows"] == len(rows)


@pytest.mark.parametrize("control", CONTROLS.values(), ids=CONTROLS)
def test_memory_of_silent_keys_is_given_back(control):
    operator, sizes, out = config(control).make(), [], 0
    for batch in range(40):
        rows = [(f"{batch}-{i // 2}", batch * 40 + i, batch * 40 + i) for i in range(40)]
        out += sum(t.num_rows for t in operator.process([(0, table_of(rows))], 0))
        sizes.append(len(operator.snapshot()))
    assert max(sizes[20:]) < 1.3 * max(sizes[:10])
    assert len(operator.index) <= 60
    assert out + sum(t.num_rows for t in operator.flush()) == 1600


@pytest.mark.parametrize("control", CONTROLS.values(), ids=CONTROLS)
def test_a_peak_of_keys_leaves_little_behind(control):
    operator = config(control).make()
    keys = [(f"once {i}", i // 100, i // 100) for i in range(3000)]
    operator.process([(0, table_of(keys))], 0)
    controllers, peak = operator.operator.controllers, len(operator.snapshot())
    states = len(controllers._states)
    assert states > 3000
    for batch in range(1, 9):
        last = [(f"once {i}", 100 * batch, 100 * batch) for i in (2998, 2999)]
        operator.process([(0, table_of(last))], 0)
    assert len(operator.index) == 2
    assert len(controllers._states) < states / 100
    assert len(controllers._memory) < 20_000
    assert len(operator.snapshot()) < peak / 10


def test_sources_are_not_forgotten():
    with pytest.raises(ValueError, match="combined with `source`"):
        ReorderTableConfig(control=CONTROLS["slack"], keys=1, sources=1, forget_after=1.0)
