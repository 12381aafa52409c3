"""Extent joins of three streams as a chain of two, against plain merges and possible worlds."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import sfumato as sf
from memory_tables import tuples_of
from seeds import seeds
from worlds import worlds

WINDOW = sf.Range("10 us")


def rows(rng, n, name):
    """Return readings at few places, with alternatives for their values."""
    lists = []
    for _ in range(n):
        values = rng.choice(6, int(rng.integers(1, 4)), replace=False)
        prob = rng.choice([0.25, 0.5, 1.0]) / len(values)
        lists.append([(prob, float(v)) for v in values])
    return pa.table(
        {
            "id": np.arange(n),
            "place": rng.choice(["a", "b"], n),
            "at": np.sort(rng.integers(0, 20, n)),
            "alternatives": tuples_of(lists, **{name: pa.float64()}),
        }
    )


def extents(table):
    """Return rows, each with the extent that contains it."""
    count = {"n": "count(*)"}
    return sf.window_aggregate(table, count, window=WINDOW, order="at", key="place", with_rows=True)


def selected(pairs):
    """Return the columns of pairs that the join with a third stream needs."""
    left, right = (pairs.column(side).combine_chunks() for side in ("left", "right"))
    columns = {"place": pc.struct_field(left, "place")}
    columns |= {"one": pc.struct_field(left, "id"), "two": pc.struct_field(right, "id")}
    kept = [name for name in ("window", "alternatives") if name in pairs.column_names]
    pairs = pairs.select(kept)
    for name, column in columns.items():
        pairs = pairs.append_column(name, column)
    return pairs


def triple_of(row):
    return row["left"]["one"], row["left"]["two"], row["right"]["id"]


def near(one, other):
    return abs(one - other) <= 1.0


@pytest.mark.parametrize("seed", seeds(6, 2))
def test_a_chain_of_two_joins_has_the_probabilities_of_triples(seed):
    rng = np.random.default_rng(seed)
    tables = rows(rng, 18, "x"), rows(rng, 18, "x"), rows(rng, 18, "right_x")
    one, two, three = map(extents, tables)
    how = {"key": "place", "within": 1.0, "probability": 0.1}
    pairs = selected(sf.extent_join(one, two, on="x", **how))
    found = sf.extent_join(pairs, three, on="right_x", **how)
    known = {triple_of(row): row["probability"] for row in found.to_pylist()}
    ends = "left_left_x - right_right_x <= 1 AND right_right_x - left_left_x <= 1"
    all_near = {
        triple_of(row): sum(of["prob"] for of in row["alternatives"])
        for row in sf.where(found, ends).to_pylist()
    }
    expected, mutual = {}, {}
    a, b, c = (table.to_pylist() for table in tables)
    for i, j, k in np.ndindex(18, 18, 18):
        triple = a[i], b[j], c[k]
        if len({(row["place"], row["at"] // 10) for row in triple}) > 1:
            continue
        groups = [
            [(v["prob"], next(x for n, x in v.items() if n != "prob")) for v in row["alternatives"]]
            for row in triple
        ]
        matching = [
            (p, near(there[0], there[2]))
            for p, there in worlds(groups)
            if len(there) == 3 and near(*there[:2]) and near(*there[1:])
        ]
        chance = sum(p for p, _ in matching)
        if chance >= 0.1:
            expected[i, j, k] = float(chance)
            mutual[i, j, k] = float(sum(p for p, ends in matching if ends))
    assert known == pytest.approx(expected, abs=1e-12)
    assert all_near == pytest.approx({t: p for t, p in mutual.items() if p}, abs=1e-12)
    assert len(all_near) > 5


def test_pairs_are_in_order_within_the_keys_of_both_sides():
    rng = np.random.default_rng(3)
    tables = [rows(rng, 20, "x").drop_columns(["alternatives"]) for _ in range(3)]
    ordered = [
        sf.reorder(table, event_time="at", arrival="at", slack=2, key=key)
        for table, key in zip(tables, (None, "place", None), strict=True)
    ]
    one, two, three = map(extents, ordered)
    pairs = selected(sf.extent_join(one, two, key="place"))
    with pytest.raises(ValueError, match="left frame are complete only per place: add place"):
        sf.extent_join(pairs, three)
    assert sf.extent_join(pairs, three, key="place").num_rows > 0
