"""Snapshots with a damaged header and a correct checksum are refused with a SnapshotError."""

import json
import zlib
from contextlib import suppress
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import table_subjects
from operator_subjects import SUBJECTS
from seeds import examples
from sfumato.operators.state.snapshot import (
    MAGIC,
    SNAPSHOT_PREFIX,
    SavedState,
    SnapshotError,
    pack,
    unpack,
)

# Operators whose rows belong to sources have the same state as those whose rows belong to keys.
BY_KEY = {name: of for name, of in table_subjects.TABLES.items() if "by source" not in name}
EVERY = SUBJECTS | BY_KEY
VALUES = (
    *(None, True, False, 0, 1, -1, 7, 2**31, 2**63, 10**400, 1.5, -0.0, 1e308),
    *("", "x", "<f8", "object", "V8", "f8,f8", [], [1], [[]], [None, "x"], {}, {"x": 1}, {"": []}),
)


def nodes(tree, path=()):
    """Yield the paths of all values of a JSON tree, including its root."""
    yield path
    if isinstance(tree, dict | list):
        names = tree if isinstance(tree, dict) else range(len(tree))
        for name in names:
            yield from nodes(tree[name], (*path, name))


def replaced(tree, path, value):
    if not path:
        return value
    copied = dict(tree) if isinstance(tree, dict) else list(tree)
    copied[path[0]] = replaced(tree[path[0]], path[1:], value)
    return copied


def taken_apart(data):
    length = SNAPSHOT_PREFIX.unpack_from(data)[2]
    return json.loads(data[SNAPSHOT_PREFIX.size : SNAPSHOT_PREFIX.size + length]), data[
        SNAPSHOT_PREFIX.size + length :
    ]


def forged(header, parts):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    text += b" " * (-(SNAPSHOT_PREFIX.size + len(text)) % 8)
    return SNAPSHOT_PREFIX.pack(MAGIC, zlib.crc32(text + parts), len(text)) + text + parts


@cache
def saved(name):
    subject = EVERY[name]
    operator, rows = subject.make(), subject.rows(np.random.default_rng(3), 30)
    subject.feed(operator, rows, np.arange(20))
    return operator, rows, operator.snapshot()


def opened(name, data):
    """Return whether a forged snapshot opens; then its operator runs, or refuses the rows."""
    operator, rows, _ = saved(name)
    try:
        one = EVERY[name].restore(operator, data)
    except SnapshotError:
        return False
    with suppress(ValueError):
        EVERY[name].feed(one, rows, np.arange(20, 30))
        one.snapshot()
    return True


@examples(200)
@given(st.data())
@pytest.mark.parametrize("name", EVERY)
def test_any_value_of_a_header_replaced_by_another_is_refused_or_gives_an_operator(name, data):
    header, parts = taken_apart(saved(name)[2])
    path = data.draw(st.sampled_from(list(nodes(header))))
    opened(name, forged(replaced(header, path, data.draw(st.sampled_from(VALUES))), parts))


@pytest.mark.parametrize("name", SUBJECTS)
def test_every_value_of_a_state_replaced_by_each_is_refused_or_gives_an_operator(name):
    header, parts = taken_apart(saved(name)[2])
    for path in nodes(header["values"]):
        for value in VALUES:
            opened(name, forged(replaced(header, ("values", *path), value), parts))


@pytest.mark.parametrize("key", ["kind", "version", "values", "parts", None])
def test_a_header_of_another_structure_is_refused(key):
    header, parts = taken_apart(pack("window", 8, SavedState({"n": 1}, {"p": np.arange(3.0)})))
    for value in VALUES:
        if key == "values" and isinstance(value, dict):
            continue  # only the snapshot's operator checks its values
        with pytest.raises(SnapshotError):
            unpack(forged(value if key is None else header | {key: value}, parts), "window", 8)


@pytest.mark.parametrize("key", ["offset", "length", "dtype", "shape"])
def test_a_part_described_by_values_of_other_types_is_refused(key):
    header, parts = taken_apart(pack("window", 1, SavedState({}, {"p": np.arange(3.0)})))
    place = header["parts"]["p"]
    for value in VALUES:
        if type(value) is type(place[key]) and value == place[key]:
            continue
        damaged = header | {"parts": {"p": place | {key: value}}}
        with pytest.raises(SnapshotError):
            unpack(forged(damaged, parts), "window", 1)
    with pytest.raises(SnapshotError):
        unpack(forged(header | {"parts": {"p": place | {"more": 1}}}, parts), "window", 1)


@given(st.binary(max_size=60) | st.sampled_from([b"[" * 100_000, b"1" * 10_000, b"NaN", b"{"]))
def test_a_header_of_any_bytes_is_refused(text):
    with pytest.raises(SnapshotError):
        unpack(forged(text, b""), "window", 1)
