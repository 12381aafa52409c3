"""Two windowed streams joined by extent, with C's toll query, against plain loops."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.operators.joins.answers import pair_matches
from sfumato.tables.joins import table_extent_join
from sfumato.tables.joins.table_extent_join import ExtentJoinTableConfig
from worlds import near_worlds

STAMP = pa.timestamp("us", tz="UTC")
SETTINGS = ExtentJoinTableConfig(keys=1)
START = datetime(2026, 1, 1, tzinfo=UTC)


def table(rows):
    """Return rows (end, key, number) as a side's table; the key 2 is NULL."""
    ends = pa.array([end for end, *_ in rows], pa.int64()).cast(STAMP)
    return pa.table(
        {
            "row": pa.StructArray.from_arrays([pa.array([n for *_, n in rows], pa.int64())], ["n"]),
            "window": pa.StructArray.from_arrays([ends, ends], ["start", "end"]),
            "key0": pa.array([None if key == 2 else key for _, key, _ in rows], pa.int64()),
        }
    )


def pairs(outputs):
    return sorted(
        (left["n"], right["n"])
        for output in outputs
        for left, right in zip(
            output.column("left").to_pylist(), output.column("right").to_pylist(), strict=True
        )
    )


@st.composite
def extents(draw):
    """Draw two sides' rows in order of their extents, and the cuts into micro-batches."""
    sides = []
    for _ in range(2):
        ends = sorted(draw(st.lists(st.integers(0, 5), max_size=10)))
        keys = draw(st.lists(st.integers(0, 2), min_size=len(ends), max_size=len(ends)))
        sides.append([(e, k, n) for n, (e, k) in enumerate(zip(ends, keys, strict=True))])
    # An extent's rows are emitted together, so a side is cut between its extents.
    steps = draw(st.lists(st.sampled_from(["left", "right", "both", "restart"]), max_size=12))
    return sides, steps


def answers_of(settings, sides, steps, as_table=table):
    """Return the operator and its outputs, for rows cut into steps with restarts at some."""
    operator, outputs, places = settings.make(), [], [0, 0]
    for step in [*steps, *["both"] * 12]:
        if step == "restart":
            operator = settings.restore(operator.snapshot())
            continue
        batch = []
        for side, name in enumerate(("left", "right")):
            rest = sides[side][places[side] :]
            if step in (name, "both") and rest:
                taken = [row for row in rest if row[0] == rest[0][0]]
                places[side] += len(taken)
                batch.append((side, as_table(taken)))
        outputs += operator.process(batch, 0) if batch else []
    return operator, [*outputs, *operator.flush()]


@given(extents(), st.sampled_from([0, 1]), st.booleans())
def test_pairs_have_equal_extents_and_keys_for_any_cuts_and_restarts(case, keys, nulls_equal):
    sides, steps = case
    settings = ExtentJoinTableConfig(keys=keys, nulls_equal=nulls_equal)

    def as_table(rows):
        return table(rows) if keys else table(rows).drop_columns("key0")

    operator, outputs = answers_of(settings, sides, steps, as_table)
    of = 1 + keys
    paired = [row for row in sides[0] if nulls_equal or not keys or row[1] != 2]
    expected = [(a[2], b[2]) for a in paired for b in sides[1] if a[:of] == b[:of]]
    assert pairs(outputs) == sorted(expected)
    counted = operator.counters()
    assert counted["pairs"] == len(expected)
    assert counted["rows"] == len(sides[0]) + len(sides[1])


def uncertain(rows):
    """Return the `table` of rows (end, key, number, [(prob, x)]), with alternatives."""
    cells = [[{"prob": p, "x": x} for p, x in row[3]] for row in rows]
    kind = pa.list_(pa.struct([("prob", pa.float64()), ("x", pa.float64())]))
    return table([row[:3] for row in rows]).append_column("alternatives", pa.array(cells, kind))


def alone_by_worlds(row, others):
    """Return Pr(the row exists, and no existing other row is within 1)."""
    found = near_worlds(row[3], [other[3] for other in others], lambda x, y: abs(x - y) <= 1.0)
    return sum(p for p, near in found if not near)


LISTS = st.sampled_from(
    [[(1.0, 0.0)], [(0.5, 0.0)], [(0.25, 1.0), (0.5, 3.0)], [(0.5, 0.0), (0.5, 2.0)], []]
)


@pytest.mark.parametrize("on", [(), ("x",)])
@pytest.mark.parametrize("how", ["left", "right", "full"])
@given(extents(), st.data())
def test_rows_without_a_partner_are_those_over_possible_worlds(how, on, case, data):
    sides, steps = case
    sides = [[(*row, data.draw(LISTS)) for row in side] for side in sides]
    least, nulls_equal = 0.3, data.draw(st.booleans())
    match = {"on": on, "within": 1.0, "probability": least} if on else {}
    settings = ExtentJoinTableConfig(keys=1, how=how, nulls_equal=nulls_equal, **match)

    def as_table(rows):
        return uncertain(rows) if on else table([row[:3] for row in rows])

    operator, outputs = answers_of(settings, sides, steps, as_table)
    rows = [row for output in outputs for row in output.to_pylist()]
    found = {}
    for row in rows:
        if None in (row["left"], row["right"]):
            side = int(row["left"] is None)
            key = side, row[("left", "right")[side]]["n"]
            assert key not in found
            found[key] = row.get("probability", 1.0)
            assert row["window"]["end"].timestamp() * 1e6 == sides[side][key[1]][0]
            if on:
                parts = [part["prob"] for part in row["alternatives"]]
                assert sum(parts) == pytest.approx(found[key], abs=1e-15)
                other = ("right", "left")[side]
                assert all(part.get(f"{other}_x") is None for part in row["alternatives"])
    expected = {}
    for side in {"left": [0], "right": [1], "full": [0, 1]}[how]:
        for row in sides[side]:
            paired = sides[1 - side] if nulls_equal or row[1] != 2 else []
            others = [other for other in paired if other[:2] == row[:2]]
            alone = alone_by_worlds(row, others) if on else float(not others)
            if alone >= least:
                expected[side, row[2]] = alone
    assert found == pytest.approx(expected, abs=1e-12)
    inner = sum(None not in (row["left"], row["right"]) for row in rows)
    assert operator.counters()["pairs"] == inner


def match_probability(one, other):
    """Return Pr(both rows exist, within 1 of each other)."""
    return sum(p * q for p, x in one[3] for q, y in other[3] if abs(x - y) <= 1.0)


@given(extents(), st.data())
def test_one_to_one_pairs_are_the_most_probable_first(case, data):
    sides, steps = case
    sides = [[(*row, data.draw(LISTS)) for row in side] for side in sides]
    settings = ExtentJoinTableConfig(
        keys=1, on=("x",), within=1.0, probability=0.2, one_to_one=True
    )
    operator, outputs = answers_of(settings, sides, steps, uncertain)
    whole = settings.make()
    at_once = whole.process([(n, uncertain(side)) for n, side in enumerate(sides) if side], 0)
    assert pairs(outputs) == pairs([*at_once, *whole.flush()])
    possible = {
        (a[2], b[2]): match_probability(a, b)
        for a in sides[0]
        for b in sides[1]
        if a[:2] == b[:2] and match_probability(a, b) >= 0.2
    }
    found = dict.fromkeys(pairs(outputs))
    assert len(found) == len(pairs(outputs)) == operator.counters()["pairs"]
    for side in (0, 1):
        assert len({pair[side] for pair in found}) == len(found)
    for pair, probability in possible.items():  # it or an equally probable rival is chosen
        rivals = [other for other in found if pair[0] == other[0] or pair[1] == other[1]]
        assert any(possible[rival] >= probability - 1e-12 for rival in rivals)
    unmatched = len(sides[0]) + len(sides[1]) - 2 * len(found)
    assert operator.counters()["unmatched"] == unmatched


@pytest.mark.parametrize("one_to_one", [False, True])
def test_rows_far_apart_are_not_compared(monkeypatch, one_to_one):
    compared = []

    def counted(left, right, at, *limits):
        compared.append(len(at[0]))
        return pair_matches(left, right, at, *limits)

    monkeypatch.setattr(table_extent_join, "pair_matches", counted)
    rng, n = np.random.default_rng(4), 400
    values = rng.integers(0, 2000, (2, n)) / 10  # exactly `within` apart in decimals
    sides = [
        [(i // 200, i % 3, i, [(0.9, x), (0.05, x + 0.3)]) for i, x in enumerate(side.tolist())]
        for side in values
    ]
    settings = ExtentJoinTableConfig(
        keys=1, on=("x",), within=0.1, probability=0.2, one_to_one=one_to_one
    )
    operator = settings.make()
    batch = [(side, uncertain(rows)) for side, rows in enumerate(sides)]
    found = pairs([*operator.process(batch, 0), *operator.flush()])
    near = {
        (a[2], b[2])
        for a in sides[0]
        for b in sides[1]
        if a[:2] == b[:2] and round(10 * abs(a[3][0][1] - b[3][0][1])) <= 1
    }
    assert len(near) > 20
    assert one_to_one or operator.counters()["unmatched"] == 0  # every key and extent has rows
    assert near >= set(found) if one_to_one else near == set(found)
    assert sum(compared) < n * n / 6 / 20  # a twentieth of the pairs with equal keys and extents


def test_equally_probable_pairs_do_not_depend_on_the_order_of_rows():
    rows = [(1, 0, n, [(1.0, 0.0)]) for n in range(6)]
    settings = ExtentJoinTableConfig(
        keys=1, on=("x",), within=1.0, probability=0.2, one_to_one=True
    )
    found = []
    for seed in range(5):
        sides = [np.random.default_rng([seed, side]).permutation(6) for side in (0, 1)]
        operator = settings.make()
        batch = [(side, uncertain([rows[n] for n in order])) for side, order in enumerate(sides)]
        found.append(pairs([*operator.process(batch, 0), *operator.flush()]))
    assert len(found[0]) == 6
    assert all(one == found[0] for one in found)


@pytest.mark.parametrize(
    "wrong", [{}, {"on": ("x",), "within": 1.0, "probability": 1, "how": "left"}]
)
def test_one_to_one_needs_probabilities_of_pairs(wrong):
    with pytest.raises(ValueError, match="`one_to_one` needs `on`, `within` and `probability`"):
        ExtentJoinTableConfig(keys=1, one_to_one=True, **wrong)


@pytest.mark.parametrize("how", ["inner", "left", "full"])
def test_a_row_waits_for_a_silent_side_until_the_timeout(how):
    kind, window = pa.struct({"n": pa.int64()}), pa.struct({"start": STAMP, "end": STAMP})
    answers = pa.schema({"window": window, "left": kind, "right": kind})
    settings = replace(SETTINGS, how=how, idle_timeout=30_000_000, answers=answers)

    def feed(operator, now, left=(), right=()):
        batch = [(side, table(rows)) for side, rows in enumerate((left, right)) if rows]
        operator.set_clock(now)
        found = operator.process(batch, now) if batch else operator.idle(now)
        rows = [row for each in found for row in each.select(["left", "right"]).to_pylist()]
        return sorted(tuple(of and of["n"] for of in row.values()) for row in rows)

    operator, alone = settings.make(), [] if how == "inner" else [(2, None)]
    assert feed(operator, 0, [(1, 0, 1)], [(1, 0, 1)]) == [(1, 1)]
    assert feed(operator, 20_000, [(2, 0, 2)]) == []
    assert feed(operator, 49_999) == []
    operator = settings.restore(operator.snapshot())
    assert feed(operator, 50_000) == alone  # 30 seconds after 2 began to wait
    assert feed(operator, 60_000, right=[(2, 0, 2)]) == []  # late
    assert operator.counters() == {"rows": 4, "late": 1, "pairs": 1, "unmatched": 1}
    assert feed(operator, 70_000, [(3, 0, 3)]) == []
    assert feed(operator, 75_000, right=[(3, 0, 3)]) == [(3, 3)]  # the side is back
    assert feed(operator, 80_000, [(4, 0, 4)]) == []
    assert feed(operator, 10_000) == []  # the clock steps back
    assert feed(operator, 39_999) == []
    assert feed(operator, 40_000) == ([] if how == "inner" else [(4, None)])
    assert feed(operator, 50_000, [(5, 0, 5)]) == []
    operator.resume(200_000)  # a stopped query reads no rows
    assert feed(operator, 229_999) == []
    assert feed(operator, 230_000) == ([] if how == "inner" else [(5, None)])


def test_the_side_that_is_ahead_waits_and_passed_extents_are_forgotten():
    operator = SETTINGS.make()
    for end in range(50):
        assert operator.process([(0, table([(end, 0, end)]))], 0) == []
    assert pairs(operator.process([(1, table([(30, 0, 7)]))], 0)) == [(30, 7)]
    assert len(operator.left.waiting.end) == 20  # extents 30 to 49 may still meet
    assert operator.counters()["unmatched"] == 30
    sizes = []
    for end in range(50, 400):
        operator.process([(0, table([(end, 0, end)])), (1, table([(end, 0, end)]))], 0)
        sizes.append(len(operator.snapshot()))
    assert sizes[-1] <= sizes[50] + 64


def short_lived(n):
    """Return rows of both sides, two per key at consecutive extents; no key returns later."""
    return [[(end + step, end, end) for end in range(n) for step in (0, 1)] for _ in range(2)]


@pytest.mark.parametrize("scope", [(), (0,)])
@pytest.mark.parametrize("ahead", [0, 40])
def test_keys_and_controllers_of_silent_keys_are_freed_and_no_answer_changes(scope, ahead):
    config = ExtentJoinTableConfig(keys=1, scope=scope, forget_after=30.0)
    left, right = short_lived(6000)
    if not scope:
        left, right = sorted(left), sorted(right)
    operator, outputs, sizes = config.make(), [], []
    for begin in range(0, 12_000 + 2 * ahead, 200):
        other = max(begin - 2 * ahead, 0), max(begin - 2 * ahead + 200, 0)
        batch = [(0, left[begin : begin + 200]), (1, right[slice(*other)])]
        outputs += operator.process([(side, table(rows)) for side, rows in batch if rows], 0)
        if begin % 1000 == 0:
            operator = config.restore(operator.snapshot())
            sizes.append(len(operator.snapshot()))
    assert pairs(outputs) == sorted((n, n) for n in range(6000) for _ in range(2))
    assert len(operator.index) < 2000
    assert len(operator.scopes) < 500
    assert max(sizes[5:]) < 1.5 * max(sizes[:5])


def test_a_slow_side_is_not_forgotten_when_the_other_is_ahead():
    config = ExtentJoinTableConfig(keys=1, scope=(0,), forget_after=5.0)
    operator = config.make()
    for end in range(200):
        operator.process([(0, table([(end, end, end)]))], 0)
    outputs = [operator.process([(1, table([(end, end, end)]))], 0) for end in range(200)]
    assert pairs([part for output in outputs for part in output]) == [(n, n) for n in range(200)]
    operator.process([(side, table([(210, 7, 7)])) for side in (0, 1)], 0)
    assert len(operator.scopes.index) == 1
    assert operator.counters()["unmatched"] == 0


NAMES = ("vehID", "highway", "speed", "ts", "arrival")


def traffic(count=240):
    """Return vehicles' readings every 30 s, some late; highway B is congested for a while."""
    rng = np.random.default_rng(1)
    rows = []
    for i in range(count):
        vehicle, at = i % 6, 5 * i
        highway = "AB"[vehicle % 2]
        slow = highway == "B" and 400 <= at < 900
        speed = float(rng.normal(25 if slow else 90, 5))
        delay = float(rng.exponential(4))
        rows.append((vehicle, highway, speed, START + timedelta(seconds=at), at + delay))
    rows.sort(key=lambda row: row[4])
    return [(*row[:4], START + timedelta(seconds=row[4])) for row in rows]


def expected_tolls(rows):
    seconds = [((ts - START).total_seconds(), v, h, s) for v, h, s, ts, _ in rows]
    found = set()
    for end in range(30, 1600, 30):
        for highway in "AB":
            mine = [s for at, _, h, s in seconds if h == highway and end - 300 <= at < end]
            if mine and sum(mine) / len(mine) < 40:
                found |= {
                    (end, v) for at, v, h, _ in seconds if h == highway and end - 30 <= at < end
                }
    return found


def test_the_toll_query_of_c_charges_vehicles_on_congested_highways():
    rows = traffic()
    readings = pa.Table.from_pylist([dict(zip(NAMES, row, strict=True)) for row in rows])
    ordered = sf.reorder(
        readings, event_time="ts", arrival="arrival", drop_ratio=0.01, estimator="conformal"
    )
    active = sf.window_aggregate(
        ordered, {"reports": "count(*)"}, window="30 seconds", order="ts", key=["highway", "vehID"]
    )
    window = sf.Range("5 minutes", slide="30 seconds")
    speeds = sf.window_aggregate(
        ordered, {"speed": "avg(speed)"}, window=window, order="ts", key="highway"
    )
    tolls = sf.where(sf.extent_join(active, speeds, key="highway"), "right.speed < 40")
    late = {(row["vehID"], row["ts"]) for row in sf.split_late(ordered)[1].to_pylist()}
    expected = expected_tolls([row for row in rows if (row[0], row[3]) not in late])
    assert len(expected) > 20
    charged = [
        ((row["window"]["end"] - START).total_seconds(), row["left"]["vehID"])
        for row in tolls.to_pylist()
    ]
    assert len(charged) == len(set(charged))
    assert set(charged) == expected


def test_wrong_arguments_are_refused():
    plain = pa.table({"k": pa.array([1]), "ts": [START]})
    windowed = sf.window_aggregate(
        plain, {"n": "count(*)"}, window=sf.Range("1 minute"), order="ts", key="k"
    )
    for arguments, message in [
        ((plain, windowed), "must have a column `window` of extents"),
        ((windowed, windowed), "add k to `key`"),
    ]:
        with pytest.raises(ValueError, match=message):
            sf.extent_join(*arguments)
    with pytest.raises(ValueError, match="`forget_after` needs a `key`"):
        sf.extent_join(windowed, windowed, forget_after="1 day")
    with pytest.raises(ValueError, match="`forget_after`"):
        sf.extent_join(windowed, windowed, key="k", forget_after="soon")
    with pytest.raises(ValueError, match="need each other"):
        sf.extent_join(windowed, windowed, key="k", on="x")
