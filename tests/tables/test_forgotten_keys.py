"""Operators over tables forget a key by its own rows and then start it again, for any cuts."""

import marshal
from collections import Counter
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from operator_laws import answers_to
from ranked_tables import PLAIN
from seeds import seeds
from sfumato.operators.disorder.control import DisorderControl
from sfumato.tables.disorder.table_reorder import ReorderTableConfig
from sfumato.windows import JoinWindow, Range, Rows
from table_runs import with_column
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
RANKINGS = {
    "in order": PLAIN,
    "longer than the silence": replace(PLAIN, window=Range("40 us")),
    "by rows": replace(PLAIN, window=Rows(2, 0.9)),
    "a controller per key": replace(PLAIN, scope=(0,)),
    "rows, a controller per key": replace(PLAIN, scope=(0,), window=Rows(2, 0.9)),
    "one controller": replace(PLAIN, scope=()),
    "streams": replace(PLAIN, streams=True, queries=(("all", 4, 4),)),
    "streams, one controller": replace(PLAIN, streams=True, scope=()),
}
VALUES = "prob", "value0"
STRATEGIES = {"nested": 4, "index": 90, "sort": 4}


def marked(rng, n):
    """Return `rows` as a controller per key releases them, none of them late."""
    found = rows(rng, n)
    table = found["table"].append_column("late", pa.array(np.zeros(n, bool)))
    before = table.column("order0").to_numpy() - 1
    return found | {"table": table.append_column("punctuation", pa.array(before))}


def ranked_rows(with_late, rng, n):
    """Return rows in order of release without simultaneous rows, some of them late if wanted."""
    time = 30 + np.cumsum(rng.integers(1, 9, n))
    late = rng.random(n) < 0.15 * with_late
    columns = {
        "row": [{"id": i} for i in range(n)],
        "prob": [[p] for p in rng.choice([0.2, 0.7], n)],
        "value0": [[v] for v in rng.random(n).round(2)],
        "order0": np.where(late, time - 30, time),
        "key0": rng.choice([*"abcdef"], n),
        "stream": rng.choice(["x", "y", "z"], n),
        "rule": pa.array([None if i % 3 else f"r{i // 6}" for i in range(n)], pa.string()),
        "__tie": np.arange(n),
        "late": late,
        "punctuation": time - 2,
    }
    return {"table": pa.table(columns)}


def ranking(config):
    """Return the subject of a ranking, whose answers have no order."""

    def dumped(tables):
        return [(0, marshal.dumps(row, 2)) for table in tables for row in table.to_pylist()]

    def feed(operator, rows, places):
        some = rows["table"].take(pa.array(places))
        return dumped(operator.process([(0, some)], 0) if some.num_rows else [])

    one = subject(config, feed, partial(ranked_rows, config.scope is not None))
    return replace(one, finish=lambda operator: dumped(operator.flush()))


def forgetful(one):
    """Return a subject whose operator forgets silent keys."""
    config = replace(one.make().config, forget_after=AFTER)
    return replace(one, make=config.make, restore=lambda operator, data: config.restore(data))


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
    found |= {f"ranking, {name}": ranking(config) for name, config in RANKINGS.items()}
    found["extents"] = subject(replace(extents_of(40, 10), scope=None), fed(*VALUES))
    found["extents, a controller per key"] = subject(
        replace(extents_of(40, 10), scope=(0,)), fed(*VALUES, "late", "punctuation"), marked
    )
    return found


CASES = cases()


def number_keys(table, shared=False):
    """Return the rows with a new key after each silence of their key.

    shared : the keys have one controller, whose late rows are ignored
    """
    parts, last, number = [], {}, {}
    names = table.column_names
    columns = (table.column(name).to_pylist() for name in ("order0", "key0"))
    lates = table.column("late").to_pylist() if "late" in names else [False] * table.num_rows
    for time, key, late in zip(*columns, lates, strict=True):
        if not (late and shared):
            number[key] = number.get(key, 0) + (key in last and time - last[key] > AFTER)
            last[key] = max(time, last.get(key, time))
        parts.append(f"{key}{number.get(key, 0)}")
    return with_column(table, "key0", parts)


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
def test_a_silent_key_restarts_for_any_cuts(name, seed):
    one, rng = CASES[name], np.random.default_rng(seed)
    given = one.rows(rng, 150)
    shared = getattr(one.make().config, "shared", False)
    expected = answered(one, given | {"table": number_keys(given["table"], shared)})
    assert expected != answered(one, given)
    for _ in range(3):
        cuts = rng.integers(1, 150, 6)
        restarts = set(np.flatnonzero(rng.random(7) < 0.4).tolist())
        assert answered(forgetful(one), given, cuts, restarts) == expected


@pytest.mark.parametrize("name", CASES)
def test_memory_of_silent_keys_is_freed(name):
    one = forgetful(CASES[name])
    operator, saved = one.make(), one.make()  # a snapshot may free memory
    given = one.rows(np.random.default_rng(1), 1500)
    keys = [f"{'abc'[i // 2 % 3]}{i // 2}" for i in range(1500)]
    given["table"] = with_column(given["table"], "key0", keys)
    sizes = []
    for part in np.split(np.arange(1500), 30):
        one.feed(operator, given, part)
        one.feed(saved, given, part)
        sizes.append(len(saved.snapshot()))
    assert len(operator.index) < 250
    assert max(sizes[10:]) < 1.5 * max(sizes[:10])
    if name.startswith("ranking"):
        assert operator.windows.latest.size < 250
        assert len(operator.streams.index) < 250
    if name.startswith("reorder"):
        assert len(operator.operator.controllers._states) < 500
        assert len(operator.operator.controllers.memory) < 40_000
    if name.startswith("extents"):
        assert len(operator.operator._groups) < 500


@pytest.mark.parametrize(
    ("control", "sources", "message"),
    [
        (DisorderControl(slack=3), 1, "combined with `source`"),
        # It would depend on micro-batches.
        (DisorderControl(slack=3, max_buffer_total=5), 0, "`max_buffer_total` cannot be combined"),
    ],
)
def test_controllers_that_cannot_forget_keys_are_refused(control, sources, message):
    with pytest.raises(ValueError, match=message):
        ReorderTableConfig(control=control, keys=1, sources=sources, forget_after=1.0)
