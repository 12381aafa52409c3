"""Joins forget a key: its next row finds empty windows, whatever the micro-batches."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from sfumato.operators.imputation.imputer import Imputer
from sfumato.tables.joins.table_incomplete_join import IncompleteJoinTableConfig
from sfumato.tables.joins.table_similarity_join import SimilarityJoinTableConfig
from sfumato.tables.operator import ROW, TIE
from sfumato.windows import JoinWindow

AFTER = 40.0
SIMILAR = SimilarityJoinTableConfig(
    within=0.7, probability=0.2, windows=(JoinWindow(4, 0.9),) * 2, on=("x",), keys=1
)
REPOSITORY = np.random.default_rng(0).random((60, 1)) + np.random.default_rng(1).random((60, 2))
INCOMPLETE = IncompleteJoinTableConfig(
    imputer=Imputer(
        REPOSITORY, ["x -> y : 0.2 -> 1", "y -> x : 0.2 -> 1"], names=["x", "y"], fallback="reject"
    ).to_bytes(),
    within=0.5, probability=0.2, windows=(JoinWindow(4),) * 2, on=("y", "x"), keys=1,
)  # fmt: skip
JOINS = {
    "nested": replace(SIMILAR, strategy="nested"),
    "index": replace(SIMILAR, strategy="index", windows=(JoinWindow(90, 0.9),) * 2),
    "sort": replace(SIMILAR, strategy="sort"),
    "time": replace(SIMILAR, windows=(JoinWindow(span="300 us"),) * 2),
    "incomplete": INCOMPLETE,
}


def stream(rows, seed, keys="abcdefgh"):
    """(table, side of each row) in order of arrival."""
    rng = np.random.default_rng(seed)
    order = np.cumsum(rng.integers(1, 25 if len(keys) > 1 else 3, rows))
    if len(keys) == 1:
        order[rows // 2 :] += 100
    prob = pa.array(rng.choice([0.4, 0.5], 2 * rows))
    samples = pa.StructArray.from_arrays(
        [prob, pa.array(rng.normal(0, 1, 2 * rows))], ["prob", "x"]
    )
    values = rng.random((rows, 2))
    values[rng.random(rows) < 0.4, 1] = np.nan
    table = pa.table(
        {
            ROW: pa.StructArray.from_arrays([pa.array(np.arange(rows))], ["id"]),
            "alternatives": pa.ListArray.from_arrays(
                pa.array(2 * np.arange(rows + 1), pa.int32()), samples
            ),
            "value0": values[:, 0],
            "value1": values[:, 1],
            "order0": order,
            "key0": rng.choice(list(keys), rows),
            TIE: np.arange(rows),
        }
    )
    return table, rng.integers(0, 2, rows)


def parts_of(table):
    """The keys, each with the number of silences before its row."""
    found, last, number = [], {}, {}
    for t, k in zip(table["order0"].to_pylist(), table["key0"].to_pylist(), strict=True):
        number[k] = number.get(k, 0) + (k in last and t - last[k] > AFTER)
        last[k] = t
        found.append(f"{k}{number[k]}")
    return found


def pairs(config, table, sides, ends, restart=-1):
    operator, found = config.make(), []
    for number, (low, high) in enumerate(pairwise(ends)):
        if number == restart:
            operator = config.restore(operator.snapshot())
        places = np.arange(low, high)
        batch = [(side, table.take(places[sides[places] == side])) for side in (1, 0)]
        for out in operator.process([(s, t) for s, t in batch if t.num_rows], now=0):
            shown = zip(out["left"].to_pylist(), out["right"].to_pylist(), strict=True)
            probability = out["probability"].to_pylist()
            for (left, right), p in zip(shown, probability, strict=True):
                found.append((left["id"], right["id"], p))
    return operator, found


@pytest.mark.parametrize("name", JOINS)
@pytest.mark.parametrize("keys", ["abcdefgh", "a"])
def test_a_key_begins_anew_with_empty_windows(name, keys):
    config = replace(JOINS[name], forget_after=AFTER)
    for seed in range(3):
        table, sides = stream(200, seed, keys)
        rng = np.random.default_rng(seed)
        apart = table.set_column(table.schema.get_field_index("key0"), "key0", [parts_of(table)])
        _, expected = pairs(JOINS[name], apart, sides, [0, 200])
        _, unlimited = pairs(JOINS[name], table, sides, [0, 200])
        assert expected != unlimited
        for _ in range(3):
            cuts = np.sort(rng.choice(np.arange(1, 200), 5, replace=False)).tolist()
            _, got = pairs(config, table, sides, [0, *cuts, 200], int(rng.integers(0, 6)))
            assert got == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", JOINS)
def test_memory_of_silent_keys_is_freed(name):
    config = replace(JOINS[name], forget_after=AFTER)
    table, sides = stream(3000, 1)
    keys = [f"k{i // 2}" for i in range(3000)]
    table = table.set_column(table.schema.get_field_index("key0"), "key0", [keys])
    operator, found = pairs(config, table, sides, range(0, 3001, 100))
    assert len(operator.index) < 110
    assert operator.operator.store.store.held.sum() < 220
    assert operator.left.numbers.size < 700
    _, expected = pairs(JOINS[name], table, sides, [0, 3000])
    assert found == expected


def test_current_answers_are_not_forgotten():
    with pytest.raises(ValueError, match="stay current"):
        replace(SIMILAR, output="changes", forget_after=AFTER)
