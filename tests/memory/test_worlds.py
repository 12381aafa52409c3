"""Chains over drawn worlds against enumeration of the whole chain, world by world."""

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from memory_tables import tuples_of
from worlds import law_over, worlds

SECOND = 1_000_000
N = 2_000
NEVER_BEYOND = math.sqrt(math.log(2e9) / (2 * N))  # exceeded by the error of one answer in 1e9
AT = {"order": "at", "key": "world"}
HOUR = sf.Range("1 hour")


@st.composite
def tuples(draw, first=0, most=5):
    """Draw a few tuples (id, second, [(probability, x)]) with existences up to 1."""
    found = []
    for number in range(draw(st.integers(1, most))):
        values = draw(st.lists(st.integers(-2, 3), min_size=1, max_size=3, unique=True))
        share = Fraction(draw(st.sampled_from([1, 3, 4])), 4)
        alternatives = [(share / len(values), x) for x in values]
        found.append((first + number, draw(st.integers(0, 7)), alternatives))
    return found


def readings(given):
    lists = [[(float(p), float(x)) for p, x in of] for _, _, of in given]
    return pa.table(
        {
            "id": pa.array([number for number, _, _ in given], pa.int64()),
            "at": pa.array([at * SECOND for _, at, _ in given], pa.int64()),
            "alternatives": tuples_of(lists, x=pa.float64()),
        }
    )


def drawn(given, source, n=N):
    return sf.draw_worlds(readings(given), n, source=source, id="id")


def lifted(rows, column, field, name):
    cells = pc.struct_field(rows.column(column).combine_chunks(), field)
    return rows.append_column(name, cells)


def groups_of(*streams):
    """Return all tuples as groups of (probability, (stream, id, second, x))."""
    return [
        [(p, (stream, number, at, x)) for p, x in of]
        for stream, tuples_ in enumerate(streams)
        for number, at, of in tuples_
    ]


# ---- chains: the library's over drawn rows, and plain Python over one world


def pairs_per_window(left, right):
    """Filter, join, and count the pairs in tumbling extents."""
    sides = [sf.where(one, "x > -2") for one in (left, right)]
    pairs = sf.similarity_join(*sides, on="x", within=1, probability=1, window=HOUR, **AT)
    times = lifted(pairs, "left", "at", "at")
    counted = sf.window_aggregate(times, {"n": "count(*)"}, window="4 seconds", **AT)
    return sf.merge_worlds(lifted(counted, "window", "start", "start"), key="start", columns="n")


def pairs_per_window_in(there):
    kept = [of for of in there if of[3] > -2]
    found = {}
    for a in kept:
        for b in kept:
            if a[0] == 0 and b[0] == 1 and abs(a[3] - b[3]) <= 1:
                start = a[2] // 4 * 4 * SECOND
                found[start] = found.get(start, 0) + 1
    return found


def busiest(left, right):
    """Join, count the partners of each left tuple, and rank the left tuples."""
    pairs = sf.similarity_join(left, right, on="x", within=1, probability=1, window=HOUR, **AT)
    of_left = lifted(lifted(pairs, "left", "at", "at"), "left", "id", "id")
    partners = sf.window_aggregate(
        of_left, {"n": "count(*)"}, window="8 seconds", order="at", key=["world", "id"]
    )
    scored = lifted(partners, "window", "end", "end")
    best = sf.top_k(scored, 1, by="10 * n + id", window=HOUR, order="end", key="world")
    rows = lifted(lifted(best, "row", "id", "id"), "row", "n", "n")
    return sf.merge_worlds(rows, key="rank", columns=["id", "n"])


def busiest_in(there):
    partners = {}
    for a in there:
        for b in there:
            if a[0] == 0 and b[0] == 1 and abs(a[3] - b[3]) <= 1:
                partners[a[1]] = partners.get(a[1], 0) + 1
    best = max(((10 * n + i, i, n) for i, n in partners.items()), default=None)
    return {} if best is None else {1: best[1:]}


def highest_mean(left, right):
    """Return means of overlapping extents, filtered, and their maximum."""
    both = pa.concat_tables([left, right])
    means = sf.window_aggregate(
        both, {"m": "avg(x)"}, window=sf.Range("4 seconds", slide="2 seconds"), **AT
    )
    high = lifted(sf.where(means, "m > 0"), "window", "start", "start")
    shifted = high.append_column("at", pc.add(high.column("start"), 4 * SECOND)).drop(
        ["window", "late", "held", "punctuation"]
    )
    found = sf.window_aggregate(shifted, {"top": "max(m)"}, window="8 seconds", **AT)
    return sf.merge_worlds(lifted(found, "window", "start", "of"), key="of", columns="top")


def highest_mean_in(there):
    found = {}
    for start in range(-2, 8, 2):
        inside = [x for _, _, at, x in there if start <= at < start + 4]
        mean = sum(inside) / len(inside) if inside else 0
        if mean > 0:
            of = (start + 4) // 8 * 8 * SECOND
            found[of] = max(found.get(of, mean), mean)
    return found


CHAINS = {
    "pairs per window": (pairs_per_window, pairs_per_window_in),
    "busiest": (busiest, busiest_in),
    "highest mean": (highest_mean, highest_mean_in),
}


@pytest.mark.parametrize("name", CHAINS)
@settings(max_examples=25, deadline=None)
@given(left=tuples(), right=tuples(first=100, most=4))
def test_a_chain_of_three_is_that_of_the_possible_worlds(name, left, right):
    build, in_world = CHAINS[name]
    answers = build(drawn(left, "left"), drawn(right, "right")).to_pylist()
    some = [(p, in_world(there)) for p, there in worlds(groups_of(left, right))]
    key, *_ = answers[0] if answers else [""]
    found = {of[key]: {value_of(a): a["prob"] for a in of["alternatives"]} for of in answers}
    for at in {at for _, world in some for at in world} | set(found):
        expected = law_over(some, lambda world, at=at: world.get(at))
        law = found.get(at, {})
        for value in {*expected, *law}:
            limit = NEVER_BEYOND
            assert law.get(value, 0) == pytest.approx(float(expected.get(value, 0)), abs=limit)
            assert value in expected  # no impossible value


def value_of(alternative):
    values = [of for name, of in alternative.items() if name != "prob"]
    return values[0] if len(values) == 1 else tuple(values)


# ---- draws


def certain(n):
    return pa.table({"id": pa.array(range(n), pa.int64()), "existence": [0.3] * n})


def test_draws_are_independent_between_tuples_worlds_and_sources():
    n, rows = 400, 300
    seen = {}
    for source in ("a", "b"):
        found = sf.draw_worlds(certain(rows), n, source=source, id="id")
        there = np.zeros((rows, n), bool)
        there[found.column("id").to_numpy(), found.column("world").to_numpy()] = True
        seen[source] = there
    for there in seen.values():
        assert abs(there.mean() - 0.3) < 5 * math.sqrt(0.21 / there.size)
        for size, counts in ((n, there.sum(1)), (rows, there.sum(0))):
            variance = counts.var() / (size * 0.21)
            assert abs(variance - 1) < 6 * math.sqrt(2 / counts.size)
    together = (seen["a"] & seen["b"]).mean()
    assert abs(together - 0.09) < 5 * math.sqrt(0.09 / seen["a"].size)


def test_a_tuple_is_drawn_alike_everywhere():
    given = readings([(i, i, [(Fraction(1, 3), x) for x in range(2)]) for i in range(20)])
    whole = sf.draw_worlds(given, 50, source="s", id="id")
    parts = [sf.draw_worlds(given.slice(i, 7), 50, source="s", id="id") for i in (14, 0, 7)]
    by = [("id", "ascending"), ("world", "ascending")]
    assert pa.concat_tables(parts).sort_by(by).equals(whole.sort_by(by))
    narrow = given.set_column(0, "id", given.column("id").cast(pa.int16()))
    other = sf.draw_worlds(narrow, 50, source="s", id="id")
    assert other.column("x").equals(whole.column("x"))
    more = sf.draw_worlds(given, 80, source="s", id="id")
    assert (
        more.filter(pc.less(more.column("world"), 50)).drop(["world"]).equals(whole.drop(["world"]))
    )
    assert not sf.draw_worlds(given, 50, source="t", id="id").equals(whole)


@pytest.mark.parametrize("convert", [pa.Table.to_pandas, pl.from_arrow])
def test_other_libraries_draw_and_merge_alike(convert):
    given = readings([(i, i, [(Fraction(1, 3), x) for x in range(2)]) for i in range(5)])
    whole = sf.merge_worlds(sf.draw_worlds(given, 50, source="s", id="id"), key="id", columns="x")
    rows = sf.draw_worlds(convert(given), 50, source="s", id="id")
    merged = sf.merge_worlds(rows, key="id", columns="x")
    assert type(merged) is type(rows)
    as_table = (
        pa.Table.from_pandas(merged) if isinstance(merged, pd.DataFrame) else merged.to_arrow()
    )
    assert as_table.to_pylist() == whole.to_pylist()


@pytest.mark.filterwarnings("ignore:window_aggregate. a duplicate that arrives")
@pytest.mark.parametrize("more", [{}, {"source": "device"}, {"unique": ["id"]}])
def test_rows_are_drawn_alike_before_they_are_ordered(more):
    rng, n = np.random.default_rng(3), 40
    made = np.sort(rng.integers(0, 200, n))
    rows = pd.DataFrame({"made": made, "arrival": made + rng.integers(0, 30, n), "id": range(n)})
    rows = rows.assign(existence=rng.random(n), device=rng.choice(["a", "b"], n))
    rows = rows.sort_values("arrival", kind="stable")
    ordered = {"event_time": "made", "arrival": "arrival", "max_delay": "40 us"}

    def drawn(table):
        return sf.draw_worlds(table, 5, source="rows", id="id")

    def counts(table):
        found = sf.window_aggregate(
            table, {"n": "count(*)"}, window=sf.Range("50 us"), order="made", key="world"
        )
        return sorted(
            (of["world"], of["window"]["end"], of["n"]) for of in found.to_dict("records")
        )

    first = counts(sf.reorder(drawn(rows), **ordered, key="world", **more))
    assert first == counts(drawn(sf.reorder(rows, **ordered)))
    with pytest.raises(ValueError, match="already has the rows of drawn worlds"):
        drawn(drawn(rows))


IN_WORLDS = {
    "left join": lambda a, b: sf.similarity_join(
        a, b, on="x", within=0.5, probability=1, window="5 us", how="left", **BY
    ),
    "join in lockstep": lambda a, b: sf.similarity_join(
        a, b, on="x", within=0.5, probability=1, window=sf.Rows(2, lockstep=True),
        alternatives=False, **BY,
    ),
    "as-of join": lambda a, b: sf.asof_join(a, b, within="6 us", how="left", **BY),
    "resample": lambda a, b: sf.resample(a, every="3 us", **BY),
    "earlier values": lambda a, b: sf.earlier_values(a, "x", **BY),
    "neighbours": lambda a, b: sf.neighbours(a, on="x", within=1, window=sf.Rows(4), **BY),
    "impute": lambda a, b: sf.impute(
        a, repository=KNOWN, dependencies="x -> y : 5 -> 5", attributes="y"
    ),
    "reorder": lambda a, b: sf.reorder(
        a, event_time="at", arrival="seen", max_delay="4 us", key=["world", "device"]
    ),
}  # fmt: skip
BY = {"order": "at", "key": ["world", "device"]}
KNOWN = pd.DataFrame({"x": np.arange(30) % 4.0, "y": np.arange(30) % 7.0})


@pytest.mark.parametrize("name", IN_WORLDS)
def test_an_operator_over_drawn_worlds_is_that_over_each_world(name):
    rng, n = np.random.default_rng(5), 30

    def drawn(source):
        at = 2 * np.arange(n) if source == "s" else 2 * np.arange(n) + 1  # no ties
        rows = pd.DataFrame({"id": range(n), "at": at, "seen": at + rng.integers(0, 9, n)})
        rows["y"] = rng.random(n)
        rows["y"] = rows["y"].mask(rng.random(n) < 0.3)
        rows["device"] = rng.choice(["a", "b"], n)
        pairs = rng.integers(0, 4, (n, 2)).astype(float).tolist()
        rows["alternatives"] = [[{"prob": 0.4, "x": x} for x in pair] for pair in pairs]
        return sf.draw_worlds(rows, 4, source=source, id="id")

    sides = [drawn(source) for source in "st"]
    plain = [pd.DataFrame({name: list(side[name]) for name in side}) for side in sides]
    found = IN_WORLDS[name](*sides)
    each = [
        IN_WORLDS[name](*(side[side["world"] == world] for side in plain)) for world in range(4)
    ]
    columns = [name for name in each[0].columns if name in found.columns and name != "alternatives"]
    expected = pd.concat(each)[columns].to_dict("records")
    assert len(expected) > n
    assert sorted(map(repr, found[columns].to_dict("records"))) == sorted(map(repr, expected))


def test_invalid_rows_are_left_out_and_counted():
    given = pa.table({"id": [1, None, 3], "existence": [0.5, 0.5, 2.0]})
    with pytest.warns(sf.errors.InvalidRowsWarning, match="2 of 3 rows"):
        found = sf.draw_worlds(given, 9, source="s", id="id", name="w")
    assert set(found.column("id").to_pylist()) == {1}
    assert "existence" not in found.column_names
    counted = sf.ops.counters(found)["sfumato_draw_worlds_w_input"]
    assert counted["rows"] == 3
    assert counted["reasons"] == {
        "id is NULL": 1, "existence is not a number in [0, 1]": 1,
    }  # fmt: skip


def test_the_merged_error_bounds_the_probabilities():
    """At most the stated 1% of 400 tuples (plus 4 sd) exceed the error."""
    found = sf.merge_worlds(sf.draw_worlds(certain(400), 300, source="s", id="id"), key="id")
    beyond = np.abs(found.column("existence").to_numpy() - 0.3) > found.column("error")[0].as_py()
    assert beyond.sum() <= 4 + 4 * 2


def test_values_that_are_equal_or_missing_are_one():
    rows = pa.table(
        {
            "k": ["a", "a", "a", None], "x": [0.0, -0.0, None, float("nan")],
            "s": [{"u": 1}, {"u": 1}, None, {"u": None}], "world": [0, 1, 2, 2],
        }
    )  # fmt: skip
    found = sf.merge_worlds(rows, key="k", columns=["x", "s"], n=4).to_pylist()
    assert [of["k"] for of in found] == ["a", None]
    assert found[0]["alternatives"] == [
        {"prob": 0.25, "x": None, "s": None}, {"prob": 0.5, "x": 0.0, "s": {"u": 1}},
    ]  # fmt: skip
    assert sf.merge_worlds(rows.slice(0, 0), key="k", columns="x", n=4).num_rows == 0
    assert sf.merge_worlds(rows.slice(0, 2), key=[], n=4).to_pylist()[0]["existence"] == 0.5


def merged(**options):
    return lambda: sf.merge_worlds(drawn([(0, 0, [(1, 1)])] * 2, "s", 3), **options)


def filtered():
    return sf.where(readings([(0, 0, [(Fraction(1, 2), 1), (Fraction(1, 2), 2)])]), "x > 1")


WRONG = {
    "`n` must": lambda: sf.draw_worlds(certain(2), 0, source="s", id="id"),
    "`n` must be at most": lambda: sf.draw_worlds(certain(2), 10**7, source="s", id="id"),
    "`source` must be a string": lambda: sf.draw_worlds(certain(2), 2, source="", id="id"),
    "`id` must name": lambda: sf.draw_worlds(certain(2), 2, source="s", id=[]),
    "`id` names a column `no`": lambda: sf.draw_worlds(certain(2), 2, source="s", id="no"),
    "must come before sf.where": lambda: sf.draw_worlds(filtered(), 2, source="s", id="id"),
    "the rows of drawn worlds|must contain": lambda: sf.draw_worlds(
        drawn([(0, 0, [(1, 1)])], "s"), 2, source="s", id="id"
    ),
    "must be free for": lambda: sf.draw_worlds(
        readings([(0, 0, [(1, 1)])]).append_column("x", pa.array([1])), 2, source="s", id="id"
    ),
    "`key` must contain `world`": lambda: sf.window_aggregate(
        drawn([(0, 0, [(1, 1)])], "s"), {"n": "count(*)"}, window=sf.Rows(2), order="at"
    ),
    "got 3 and 0 worlds": lambda: sf.similarity_join(
        drawn([(0, 0, [(1, 1)])], "s", 3),
        readings([(0, 0, [(1, 1)])]),
        on="x",
        within=1,
        probability=1,
        window=sf.Rows(2),
        **AT,
    ),
    "several answers with the same id": merged(key="id"),
    "`columns` must not name `prob`|is not in the frame": merged(key="id", columns="prob"),
    "must not contain a column of `key` or the world column; got id": merged(
        key="id", columns="id"
    ),
    "`n` must be 3": merged(key=["id", "x"], n=4),
    "for example n=1000": lambda: sf.merge_worlds(certain(2), key="id"),
    "must contain only world numbers from 0 to 1": lambda: sf.merge_worlds(
        pa.table({"id": [1], "world": [2]}), key="id", n=2
    ),
    "merged over worlds may share": lambda: sf.window_aggregate(
        sf.merge_worlds(drawn([(0, 0, [(1, 1)])], "s", 3), key="id", columns="x"),
        {"n": "count(*)"},
        window=sf.Rows(2),
        order="id",
    ),
}


@pytest.mark.parametrize("said", WRONG)
def test_wrong_arguments_are_refused(said):
    with pytest.raises((TypeError, ValueError), match=said):
        WRONG[said]()
