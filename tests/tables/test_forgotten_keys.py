"""Operators over tables forget a key by its own rows and then start it again, for any cuts."""

from __future__ import annotations

import marshal
from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from operator_laws import answers_to
from seeds import seeds
from sfumato.operators.disorder.control import DisorderControl
from sfumato.tables.disorder.table_reorder import ReorderTableConfig
from sfumato.windows import JoinWindow
from table_subjects import TABLES, extents_of, fed, rows, subject

AFTER = 25.0
CONTROLS = {
    "slack": DisorderControl(slack=3, guard=False),
    "delay": DisorderControl(max_delay=20, guard=False),
    "ratio": DisorderControl(0.2, estimator="conformal", max_buffer=4),
    "normal": DisorderControl(0.2, estimator="normal"),
}
APPENDED = {"output": "append"}
# name of a subject -> changed settings
CHANGED = {
    "rows window": {},
    "rows window with a slide": {},
    "delta window": {},
    "earlier values": {},
    "imputation of streams": {},
    "as-of join": {"within": None},
    "similarity join": APPENDED,
    "similarity join by radii": APPENDED,
    "similarity join, a task of two": APPENDED,
    "self join": APPENDED,
    "left join that forgets": {"windows": (JoinWindow(span="60 us"),) * 2},
    "incomplete join": APPENDED,
    "top-k": {},
}
VALUES = "prob", "value0"
STRATEGIES = {"nested": 4, "index": 90, "sort": 4}


def marked(rng, n):
    """Return `rows` as a controller per key releases them, none of them late."""
    found = rows(rng, n)
    table = found["table"].append_column("late", pa.array(np.zeros(n, bool)))
    before = table.column("order0").to_numpy() - 1
    return found | {"table": table.append_column("punctuation", pa.array(before))}


def cases():
    """Return subjects by name, none of which forgets keys."""
    found = {}
    for name, changes in CHANGED.items():
        one = TABLES[name]
        config = replace(one.make().config, forget_after=None, **changes)
        found[name] = subject(config, one.feed, one.rows)
    for name, config in CONTROLS.items():
        found[f"reorder by {name}"] = subject(
            ReorderTableConfig(control=config, keys=1), fed("event")
        )
    join = TABLES["similarity join"]
    for strategy, count in STRATEGIES.items():
        windows = (JoinWindow(count, 0.9),) * 2
        config = replace(join.make().config, strategy=strategy, windows=windows, **APPENDED)
        found[f"{strategy} join"] = subject(config, join.feed)
    found["extents"] = subject(replace(extents_of(40, 10), scope=None), fed(*VALUES))
    found["extents, a controller per key"] = subject(
        replace(extents_of(40, 10), scope=(0,)), fed(*VALUES, "late", "punctuation"), marked
    )
    return found


CASES = cases()


def apart(table):
    """Return the rows with a new key after each silence of their key."""
    parts, last, number = [], {}, {}
    columns = table.column("order0").to_pylist(), table.column("key0").to_pylist()
    for time, key in zip(*columns, strict=True):
        number[key] = number.get(key, 0) + (key in last and time - last[key] > AFTER)
        last[key] = time
        parts.append(f"{key}{number[key]}")
    return table.set_column(table.column_names.index("key0"), "key0", pa.array(parts))


def answered(one, given, cuts=(), restarts=()):
    """Count each answer, without the number in its key and the punctuation that completed it."""
    found, _ = answers_to(one, given, np.arange(given["table"].num_rows), cuts, restarts)
    rows_of = [marshal.loads(answer) for _, answer in found]
    return Counter(
        repr({name: cell[:1] if name.startswith("key") else cell for name, cell in row.items()
              if name != "punctuation" or "row" in row})
        for row in rows_of
    )  # fmt: skip


@pytest.mark.parametrize("seed", seeds(3))
@pytest.mark.parametrize("name", CASES)
def test_a_silent_key_begins_anew_whatever_the_cuts(name, seed):
    one, rng = CASES[name], np.random.default_rng(seed)
    given = one.rows(rng, 150)
    expected = answered(one, given | {"table": apart(given["table"])})
    assert expected != answered(one, given)
    config = replace(one.make().config, forget_after=AFTER)
    forgetful = subject(config, one.feed, one.rows)
    for _ in range(3):
        cuts = rng.integers(1, 150, 6)
        restarts = set(np.flatnonzero(rng.random(7) < 0.4).tolist())
        assert answered(forgetful, given, cuts, restarts) == expected


@pytest.mark.parametrize("name", CASES)
def test_memory_of_silent_keys_is_freed(name):
    one = CASES[name]
    operator = replace(one.make().config, forget_after=AFTER).make()
    given = one.rows(np.random.default_rng(1), 1500)
    keys = pa.array([f"{'abc'[i // 2 % 3]}{i // 2}" for i in range(1500)])
    place = given["table"].column_names.index("key0")
    given["table"] = given["table"].set_column(place, "key0", keys)
    sizes = []
    for part in np.split(np.arange(1500), 30):
        one.feed(operator, given, part)
        sizes.append(len(operator.snapshot()))
    assert len(operator.index) < 250
    assert max(sizes[10:]) < 1.5 * max(sizes[:10])
