"""The disorder controller over Arrow tables: any columns, any cut, any restart, any damage."""

from __future__ import annotations

import dataclasses
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seeds import examples
from sfumato.operators.disorder.control import DisorderControl
from sfumato.operators.state.snapshot import SnapshotError
from sfumato.tables.disorder.reorder import ReorderTableConfig
from sfumato.tables.operator import ROW, TIE

BY_KEY = ReorderTableConfig(
    control=DisorderControl(0.1, estimator="conformal"), keys=2, idle_timeout=2000
)
BY_SOURCE = dataclasses.replace(BY_KEY, keys=1, sources=1, expected_sources=2)
both = pytest.mark.parametrize("config", [BY_KEY, BY_SOURCE], ids=["key", "source"])


def disordered(rows, seed, by_source=False):
    rng = np.random.default_rng(seed)
    event = np.cumsum(rng.integers(1, 100, rows))
    arrival = event + rng.integers(0, 300, rows)
    order = np.argsort(arrival, kind="stable")
    device = pa.array([["a", None, "b"][i] for i in rng.integers(0, 3, rows)])
    line = pa.array(rng.integers(0, 2, rows))
    note = [{"number": int(i), "tags": ["x"] * (i % 3)} for i in range(rows)]
    return pa.table(
        {
            ROW: pa.StructArray.from_arrays(
                [device, line, pa.array(note)], ["device", "line", "note"]
            ),
            "key0": device,
            "source0" if by_source else "key1": line,
            "event": pa.array(event[order]),
            "order0": pa.array(np.sort(arrival) + np.arange(rows)),
            TIE: pa.array(np.arange(rows)),
        }
    )


def run(config, pieces, restart):
    """All output of one operator, restored from its snapshot before piece number `restart`."""
    operator, outputs = config.make(), []
    for number, piece in enumerate(pieces):
        if number == restart:
            operator = config.restore(operator.snapshot())
        outputs += operator.process([(0, piece)], now=1000 * number)
    return operator, outputs


cuts = st.lists(st.integers(1, 199), unique=True, max_size=8).map(lambda c: [0, *sorted(c), 200])


@both
@examples(30)
@given(cuts=cuts, seed=st.integers(0, 5), restart=st.integers(0, 9), shuffle=st.integers(0, 9))
def test_reordered_rows_do_not_depend_on_cuts_restarts_or_order_within_a_batch(
    config, cuts, seed, restart, shuffle
):
    table = disordered(200, seed, config.sources > 0)
    whole, expected = run(config, [table], restart=-1)
    mixed = np.random.default_rng(shuffle)
    pieces = []
    for low, high in pairwise(cuts):
        part = table.slice(low, high - low)
        pieces.append(part.take(pa.array(mixed.permutation(part.num_rows))))
    parts, got = run(config, pieces, restart)
    for outputs in (expected, got):
        assert [t.schema for t in outputs] == [outputs[0].schema] * len(outputs)
    assert by_key(got, config) == by_key(expected, config)
    assert by_key(parts.flush(), config) == by_key(whole.flush(), config)
    assert parts.counters() == whole.counters()


def by_key(tables, config):
    found = {}
    for table in tables:
        for row in table.to_pylist():
            place = (row[ROW]["device"], row[ROW]["line"] if config.keys == 2 else row["late"])
            found.setdefault(place, []).append(row)
    return found


def test_idle_keys_give_out_what_they_hold_and_busy_ones_do_not():
    table = disordered(200, 1)
    operator = BY_KEY.make()
    operator.process([(0, table)], now=0)
    held = operator.operator.counters["held"]
    assert held > 0
    assert operator.idle(now=1999) == []
    (out,) = operator.idle(now=2000)
    assert out.num_rows == held
    assert not any(out.column("late").to_pylist())


def test_a_source_that_never_speaks_is_waited_for_until_the_timeout_only():
    assert BY_SOURCE.make().idle(now=2000) == []
    table = disordered(100, 2, by_source=True)
    only = table.filter(pa.compute.equal(table.column("source0"), 0))
    operator = BY_SOURCE.make()
    for rows, now in ((only, 0), (only.slice(0, 1), 1500)):
        for out in operator.process([(0, rows)], now):
            assert all(out.column("late").to_pylist())
    (out,) = operator.idle(now=2000)  # of one key a row has come since: its source still counts
    assert not any(out.column("late").to_pylist())
    assert 0 < out.num_rows < only.num_rows
    assert operator.operator.counters["held"] > 0


def test_event_times_beyond_the_range_are_invalid_and_come_out():
    table = disordered(50, 3)
    event = table.column("event").to_pylist()
    event[3], event[10], event[20], event[30] = None, 2**60, -(2**62), 2**60 - 1
    table = table.set_column(3, "event", pa.array(event))
    operator = BY_KEY.make()
    out = pa.concat_tables([*operator.process([(0, table)], now=0), *operator.flush()])
    assert out.num_rows == 50
    assert operator.counters()["invalid"] == 3
    assert operator.counters()["rows"] == 50
    assert out.slice(0, 3).column("late").to_pylist() == [True] * 3
    assert out.slice(0, 3).column("punctuation").null_count == 3


@both
@examples(150)
@given(place=st.integers(0, 2**20), bit=st.integers(0, 7))
def test_a_damaged_snapshot_is_refused(config, place, bit):
    operator, _ = run(config, [disordered(200, 4, config.sources > 0)], restart=-1)
    data = bytearray(operator.snapshot())
    data[place % len(data)] ^= 1 << bit
    with pytest.raises(SnapshotError):
        config.restore(bytes(data))
