"""Joins over Arrow tables: their stored rows, and the self join."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from sfumato.operators.imputation.imputer import Imputer
from sfumato.tables.imputation.repositories import RepositoryImputer
from sfumato.tables.joins.table_join import ALTERNATIVES, attributes_at
from sfumato.windows import JoinWindow
from table_runs import table_of
from table_subjects import REPOSITORY, TABLES

AFTER = 40.0
NEAR = {"within": 0.7, "probability": 0.2, "output": "append"}
SIMILAR = replace(TABLES["similarity join"].make().config, **NEAR)
INCOMPLETE = TABLES["incomplete join"].make().config
ALONE = replace(TABLES["self join"].make().config, windows=(JoinWindow(12),) * 2, **NEAR)


def stream(rows, seed, keys="abcdefgh"):
    """Return (table, side of each row) in order of arrival."""
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
    offsets = pa.array(2 * np.arange(rows + 1), pa.int32())
    columns = {ALTERNATIVES: pa.ListArray.from_arrays(offsets, samples), "order0": order}
    columns |= {"value0": values[:, 0], "value1": values[:, 1], "key0": rng.choice([*keys], rows)}
    table = table_of({"id": np.arange(rows)}, **columns)
    return table, rng.integers(0, 2, rows)


def pairs(config, table, sides, ends, restart=-1):
    """Return the operator after the rows, and its answers as one dict per pair."""
    operator, found = config.make(), []
    for number, (low, high) in enumerate(pairwise(ends)):
        if number == restart:
            operator = config.restore(operator.snapshot())
        places = np.arange(low, high)
        batch = [(side, table.take(places[sides[places] == side])) for side in (1, 0)]
        for out in operator.process([(s, t) for s, t in batch if t.num_rows], now=0):
            found += out.to_pylist()
    return operator, found


def ids(answers):
    return [(row["left"]["id"], row["right"]["id"], row["probability"]) for row in answers]


def test_current_answers_cannot_be_forgotten():
    with pytest.raises(ValueError, match="stay current"):
        replace(SIMILAR, output="changes", forget_after=AFTER)


@pytest.mark.parametrize("config", [replace(SIMILAR, output="changes"), ALONE])
def test_the_join_stores_the_rows_of_its_windows_once(config):
    table, sides = stream(3000, 7, "ab")
    sides = sides if config is not ALONE else 0 * sides
    operator, _ = pairs(config, table, sides, range(0, 3001, 100))
    live = [len(operator.operator.live_numbers(side)) for side in range(len(operator.stores))]
    for store, needed in zip(operator.stores, live, strict=True):
        assert len(store.numbers) <= 2 * needed + 64 + 100
    small = config.restore(operator.snapshot())
    assert [len(store.numbers) for store in small.stores] == live
    assert len(operator.snapshot()) < 40_000
    assert config is not ALONE or (len(small.left), len(small.right)) == (live[0], 0)


def test_different_settings_have_different_fingerprints():
    assert SIMILAR.fingerprint() != replace(SIMILAR, within=0.6).fingerprint()
    assert SIMILAR.fingerprint() == replace(SIMILAR).fingerprint()
    other = RepositoryImputer(Imputer(REPOSITORY[1:], [], names=["x", "y"])).to_bytes()
    assert INCOMPLETE.fingerprint() != replace(INCOMPLETE, imputer=other).fingerprint()
    assert SIMILAR.fingerprint() != INCOMPLETE.fingerprint()


@pytest.mark.parametrize("output", ["append", "changes"])
@pytest.mark.parametrize("tasks", [1, 2, 3])
def test_a_self_join_finds_each_pair_of_a_window_once_by_any_number_of_tasks(output, tasks):
    table, _ = stream(200, 3, "ab")
    zero, cuts = np.zeros(200, int), (0, 70, 71, 200)
    rows = table.select(["key0", ALTERNATIVES]).to_pylist()
    expected = []
    for i, row in enumerate(rows):
        earlier = [j for j in range(i) if rows[j]["key0"] == row["key0"]]
        for j in earlier:
            near = sum(
                a["prob"] * b["prob"]
                for a in row[ALTERNATIVES]
                for b in rows[j][ALTERNATIVES]
                if abs(a["x"] - b["x"]) <= 0.7
            )
            if near >= 0.2:
                expected.append((i, j, near))
    config = replace(ALONE, windows=(JoinWindow(200),) * 2, output=output)
    found = []
    for task in range(tasks):
        found += pairs(replace(config, tasks=tasks, task=task), table, zero, cuts)[1]
    assert len(expected) > 300
    assert {row.get("change", "+") for row in found} == {"+"}
    assert [row[:2] for row in sorted(ids(found))] == [row[:2] for row in sorted(expected)]
    probabilities = [row[2] for row in sorted(ids(found))]
    assert probabilities == pytest.approx([row[2] for row in sorted(expected)], rel=1e-12)
    small, one = replace(config, windows=(JoinWindow(5, 0.9),) * 2), []
    shared = []
    for task in range(tasks):
        shared += pairs(replace(small, tasks=tasks, task=task), table, zero, cuts)[1]
    one = pairs(small, table, zero, [0, 200])[1]
    assert sorted(map(str, shared)) == sorted(map(str, one))


def test_pairs_without_alternatives_are_the_same_pairs():
    table, sides = stream(100, 3)
    plain = pairs(replace(SIMILAR, alternatives=False), table, sides, [0, 100])[1]
    whole = pairs(SIMILAR, table, sides, [0, 100])[1]
    assert [row.pop(ALTERNATIVES) for row in whole]
    assert plain == whole


SAMPLES = pa.table(
    {
        ALTERNATIVES: pa.array(
            [[{"prob": 0.5, "x": 1.0}, {"prob": 0.5, "x": 2.0}], [{"prob": 1.0, "x": 3.0}]],
            pa.list_(pa.struct([("prob", pa.float64()), ("x", pa.float64())])),
        )
    }
)


def test_attributes_are_read_from_the_samples_of_their_rows():
    found = attributes_at(SAMPLES, np.array([1, 0, 0], np.int32), np.array([2, 1]))
    assert found["x"].to_pylist() == [2.0, 1.0, 3.0]
    for sample in ([2, 0], [-1, 0], [0, 1], [0, 7]):
        with pytest.raises(ValueError, match="pairs must refer to alternatives of their rows"):
            attributes_at(SAMPLES, np.array(sample, np.int32), np.array([1, 1]))
