"""A ranking forgets a key and starts it again, for any micro-batches and controllers."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from ranked_tables import PLAIN
from seeds import seeds
from sfumato.windows import Range, Rows

AFTER = 12.0
RANKINGS = {
    "in order": PLAIN,
    "longer than that": replace(PLAIN, window=Range("20 us")),
    "by rows": replace(PLAIN, window=Rows(2, 0.9)),
    "controller a key": replace(PLAIN, scope=(0,)),
    "rows, controller a key": replace(PLAIN, scope=(0,), window=Rows(2, 0.9)),
    "one controller": replace(PLAIN, scope=()),
    "streams": replace(PLAIN, streams=True, queries=(("all", 4, 4),)),
    "streams, one controller": replace(PLAIN, streams=True, scope=()),
}


def stream(seed, n, keys):
    """Return rows in order of release, some late, without simultaneous rows."""
    rng = np.random.default_rng(seed)
    time = 3 + np.cumsum(rng.integers(1, 9, n))
    late = rng.random(n) < 0.15
    return pa.table(
        {
            "row": [{"id": i} for i in range(n)],
            "prob": [[p] for p in rng.choice([0.2, 0.7], n)],
            "value0": [[v] for v in rng.random(n).round(2)],
            "order0": np.where(late, time - 30, time),
            "key0": rng.choice(keys, n),
            "stream": rng.choice(["x", "y", "z"], n),
            "rule": pa.array([None if i % 3 else f"r{i // 6}" for i in range(n)], pa.string()),
            "__tie": np.arange(n),
            "late": late,
            "punctuation": time - 2,
        }
    )


def apart(config, rows):
    """Return the rows with a separate key for each part of a key's rows."""
    parts, newest, number = [], {}, {}
    columns = (rows[name].to_pylist() for name in ("order0", "key0", "late"))
    for t, k, late in zip(*columns, strict=True):
        if not (late and config.shared):
            number[k] = number.get(k, 0) + (k in newest and t - newest[k] > AFTER)
            newest[k] = max(t, newest.get(k, t))
        parts.append(f"{k}{number.get(k, 0)}")
    return rows.set_column(rows.schema.get_field_index("key0"), "key0", [parts])


def answers(config, rows, cuts=(), restart=False):
    operator, out = config.make(), []
    for begin, end in pairwise([0, *cuts, rows.num_rows]):
        out += operator.process([(0, rows.slice(begin, end - begin))], 0)
        if restart:
            operator = config.restore(operator.snapshot())
    out += operator.flush()
    found = [row | {"key0": row["key0"][0]} for part in out for row in part.to_pylist()]
    found = [tuple(str(value) for value in row.values()) for row in found]
    return sorted(found), operator


@pytest.mark.parametrize("name", RANKINGS)
@pytest.mark.parametrize("seed", seeds(3))
def test_a_key_begins_anew_by_its_own_rows(name, seed):
    config = RANKINGS[name]
    rows = stream(seed, 150, list("abcdef"))
    if config.scope is None:
        rows = rows.filter(pa.compute.invert(rows["late"]))
    expected, _ = answers(config, apart(config, rows))
    assert expected != answers(config, rows)[0]
    forgetful = replace(config, forget_after=AFTER)
    rng = np.random.default_rng(seed)
    for restart in (False, True, False):
        cuts = np.sort(rng.choice(np.arange(1, rows.num_rows), 6, replace=False)).tolist()
        assert answers(forgetful, rows, cuts, restart)[0] == expected


@pytest.mark.nightly
@pytest.mark.parametrize("name", RANKINGS)
def test_memory_of_silent_keys_is_freed(name):
    config = replace(RANKINGS[name], forget_after=AFTER)
    rows = stream(0, 1000, ["a"])
    keys = [[f"k{i // 2}" for i in range(1000)]]
    rows = rows.set_column(rows.schema.get_field_index("key0"), "key0", keys)
    _, operator = answers(config, rows, range(50, 1000, 50))
    assert len(operator.index) < 100
    assert len(operator.windows.held) < 200
    assert len(operator.streams.index) < 200
    assert len(operator.snapshot()) < 100_000


def test_a_shared_controller_keeps_what_its_clock_still_answers():
    with pytest.raises(ValueError, match="at least the length"):
        replace(PLAIN, scope=(), forget_after=7.0)
    with pytest.raises(ValueError, match=r"by sf\.Rows whose keys share"):
        replace(PLAIN, scope=(), window=Rows(2, 0.9), forget_after=7.0)


class Unpassed(list):
    """A list with items that can be read, but without iteration over all of them."""

    def __iter__(self):
        raise AssertionError("a batch passes over all keys")


def test_a_batch_looks_only_at_the_keys_of_its_rows():
    rows = stream(0, 400, [f"k{i}" for i in range(100)])
    operator = PLAIN.make()
    operator.process([(0, rows.slice(0, 300))], 0)
    windows = operator.windows
    windows.held, windows.schedules = Unpassed(windows.held), Unpassed(windows.schedules)
    for begin in range(300, 400, 10):
        operator.process([(0, rows.slice(begin, 10))], 0)
    assert windows.size == sum(windows.held[k].size for k in range(len(windows.held)))
