"""Aggregates over windows in SQL: queries of two papers, compared with the functions' answers."""

import re
from collections import Counter
from datetime import UTC

import numpy as np
import pytest
from pyspark.sql import Row
from pyspark.sql import functions as F  # noqa: N812

import sfumato as sf
from sfumato.language import explain, sql
from sfumato.language.syntax import SqlError
from sfumato.operators.distributions.aggregate import Aggregate
from sfumato.operators.windows.count.count_window_aggregate import CountWindowAggregate
from spark_tables import tables_of
from sql_readings import CARS, START, at, error, traffic

pytestmark = pytest.mark.spark


def stamp(value):
    return (value.replace(tzinfo=UTC) - START).total_seconds()


@pytest.fixture(scope="module")
def tables(spark):
    """Create Sensors, Disordered and `u`, and the rows of a figure."""
    figure = spark.createDataFrame(
        [(i, 0.5 if i == 11 else 0.75 if i == 8 else 1.0, float(2**i)) for i in range(15)],
        "arrival int, existence double, v double",
    )
    views = traffic(spark) | {"figure": figure}
    for name, df in views.items():
        df.createOrReplaceTempView(name)
    yield {"cars": CARS, "spark": spark}
    for name in views:
        spark.catalog.dropTempView(name)


def fast(cars, length=300, slide=30):
    """Return (vehID, speed, ts) of the groups whose mean is above 80, once per extent.

    cars : (vehID, speed, ts) and, for a late row, its punctuation; it is in extents that end later
    """
    answers = []
    last = int(max(stamp(c[2]) for c in cars))
    for end in range(slide, last + length + slide, slide):
        extent = [
            c[:3] for c in cars
            if end - length <= stamp(c[2]) < end and all(end - 1e-6 > stamp(p) for p in c[3:])
        ]  # fmt: skip
        for vehicle in (0, 1, 2):
            group = [c for c in extent if c[0] == vehicle]
            if group and sum(c[1] for c in group) / len(group) > 80:
                answers += group
    return sorted((v, speed, stamp(ts)) for v, speed, ts in answers)


Q = "SELECT vehID, speed FROM {table} [RANGE 300 seconds SLIDE 30 seconds WATTR ts{control}] "
Q += "GROUP BY vehID HAVING AVG(speed) > 80"


def test_q1_of_c_gives_the_rows_of_the_qualifying_groups_once_an_extent(tables):
    out = sql(tables["spark"], Q.format(table="Sensors", control=""))
    assert out.columns == ["vehID", "speed"]
    expected = fast(tables["cars"])
    assert sorted((r["vehID"], r["speed"]) for r in out.collect()) == [e[:2] for e in expected]
    assert len(expected) > 100


@pytest.mark.parametrize("control", [" SLACK 10", " DRATIO 1%", " DRATIO 1% BSIZE 100"])
def test_q2_to_q4_of_c_run_as_printed_over_the_rows_that_came_in_time(tables, control):
    spark = tables["spark"]
    out = sql(spark, Q.format(table="Disordered", control=control)).collect()
    ordered = sql(spark, f"SELECT * FROM Disordered [RANGE 300 seconds WATTR ts{control}]")
    kept = [
        (r["vehID"], r["speed"], r["ts"], *([r["punctuation"]] if r["late"] else []))
        for r in ordered.collect()
    ]
    assert sorted((r["vehID"], r["speed"]) for r in out) == [e[:2] for e in fast(kept)]


@pytest.mark.parametrize(
    ("word", "query"),
    [
        ("RSTREAM", "window.end, AVG(speed) FROM Sensors [RANGE 5 minutes WATTR ts]"),
        ("rstream", "vehID, speed FROM Sensors [RANGE 5 min WATTR ts] HAVING COUNT(*) > 3"),
        ("ISTREAM", "* FROM Sensors [RANGE 5 minutes SLIDE 1 minute WATTR ts]"),
        ("Istream", "*, speed + 1 AS s FROM Disordered [WATTR ts SLACK 3]"),
        ("ISTREAM", "vehID, AVG(speed) FROM Sensors [ROWS 3 ORDER ts]"),
    ],
)
def test_cqls_words_for_streams_may_name_what_is_emitted_anyway(tables, word, query):
    spark = tables["spark"]
    with_word, without = (sql(spark, f"SELECT {of}{query}") for of in (f"{word} ", ""))
    assert with_word.columns == without.columns
    assert sorted(map(tuple, with_word.collect())) == sorted(map(tuple, without.collect()))


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("ISTREAM(vehID) FROM Sensors [RANGE 5 min WATTR ts]", "without parentheses"),
        ("RSTREAM 'a' AS a, vehID FROM Sensors [RANGE 5 min WATTR ts]", "HAVING COUNT(*) > 0"),
        ("RSTREAM * FROM (SELECT * FROM Sensors [RANGE 5 min WATTR ts])", "window in brackets"),
        ("ISTREAM abs(speed) FROM earlier_values(Sensors, 'speed', order => ts)", "in brackets"),
        ("DSTREAM vehID FROM Sensors [RANGE 5 min WATTR ts]", "the rows that leave a window"),
        ("RSTREAM vehID FROM Sensors [RANGE 5 min WATTR ts]", "HAVING COUNT(*) > 0"),
        ("ISTREAM AVG(speed) FROM Sensors [RANGE 5 min WATTR ts]", "without ISTREAM, each extent"),
        (
            "RSTREAM TOP 2 vehID FROM Sensors [RANGE 5 min WATTR ts] RANK BY speed",
            "leave RSTREAM out",
        ),
    ],
)
def test_cqls_words_for_streams_are_refused_where_they_ask_for_something_else(
    tables, query, reason
):
    with pytest.raises(SqlError) as caught:
        sql(tables["spark"], f"SELECT {query}")
    assert caught.value.word.upper() in ("ISTREAM", "RSTREAM", "DSTREAM")
    assert reason in caught.value.reason


def test_columns_may_be_called_like_cqls_words(tables):
    tables["spark"].sql("SELECT 1 AS rstream, timestamp_seconds(0) AS ts").createOrReplaceTempView(
        "r"
    )
    for query in ("rstream", "rstream AS x", "r.rstream", "rstream * 2", "rstream, ts"):
        assert sql(tables["spark"], f"SELECT {query} FROM r [WATTR ts]").first()[0] in (1, 2)


def test_columns_may_have_the_names_of_aggregates(spark):
    columns = [f"id AS {name}" for name in ("mode", "first", "count")]
    rows = spark.range(3).selectExpr("timestamp_seconds(id) AS at", *columns)
    answers = sf.sql(spark, "SELECT mode, first, count FROM s [RANGE 10 s WATTR at]", s=rows)
    assert sorted(map(tuple, answers.collect())) == [(i, i, i) for i in range(3)]
    with pytest.raises(sf.errors.SqlError, match="ROWS or DELTA window needs an aggregate"):
        sf.sql(spark, "SELECT mode FROM s [ROWS 5 ORDER at]", s=rows)


def test_extents_carry_their_window_key_and_numbers(tables):
    out = sql(
        tables["spark"],
        "SELECT vehID, window.end AS ends, COUNT(*) AS n, AVG(speed) AS mean, MAX(speed), held "
        "FROM Sensors [RANGE 5 minutes WATTR ts] WHERE vehID < 2 GROUP BY vehID "
        "HAVING COUNT(*) > 3",
    )
    assert out.columns == ["vehID", "ends", "n", "mean", "MAX(speed)", "held"]
    assert dict(out.dtypes)["n"] == "bigint"
    rows = out.collect()
    assert {r["vehID"] for r in rows} == {0, 1}
    assert len(rows) == 6
    for row in rows:
        end = stamp(row["ends"])
        group = [
            c[1] for c in tables["cars"] if c[0] == row["vehID"] and end - 300 <= stamp(c[2]) < end
        ]
        assert row["n"] == row["held"] == len(group)
        assert row["mean"] == pytest.approx(sum(group) / len(group))
        assert row["MAX(speed)"] == max(group)


def test_figure_2_of_a_from_sql_gives_four_sums_with_their_probabilities(tables):
    out = sql(
        tables["spark"],
        "SELECT arrival, held, DISTRIBUTION(SUM(v), 4) AS sums, EXPECTED(SUM(v)) AS mean "
        "FROM figure [ROWS 13 CONFIDENCE 100%]",
    )
    last = out.where("arrival = 14").first()
    everything = 2**15 - 1
    sums = {a["value"]: a["prob"] for a in last["sums"]}
    assert sums == pytest.approx(
        {
            everything - 3: 0.375,
            everything - 1 - 2**11: 0.375,
            everything - 1 - 2**8: 0.125,
            everything - 2**8 - 2**11: 0.125,
        }
    )
    assert last["held"] == 15
    assert last["mean"] == pytest.approx(sum(v * p for v, p in sums.items()))


def test_each_distribution_has_its_own_number_of_values(tables):
    out = sql(
        tables["spark"],
        "SELECT arrival, DISTRIBUTION(SUM(v), 2) AS few, DISTRIBUTION(SUM(v), 3) AS some, "
        "DISTRIBUTION(MAX(v)) AS most, EXPECTED(SUM(v)) AS mean, PROB(SUM(v) >= 0) AS one "
        "FROM figure [ROWS 13 CONFIDENCE 100%] HAVING size(DISTRIBUTION(SUM(v), 2)) > 1",
    )
    last = out.where("arrival = 14").first()
    assert (len(last["few"]), len(last["some"]), last["one"]) == (2, 3, pytest.approx(1.0))
    for name in ("few", "some"):
        assert sum(a["prob"] for a in last[name]) == pytest.approx(1.0)
        assert sum(a["value"] * a["prob"] for a in last[name]) == pytest.approx(last["mean"])
    assert last["most"] == [Row(prob=1.0, value=2.0**14)]


def test_uncertain_aggregates_have_numbers_probabilities_and_conditions(tables):
    spark = tables["spark"]
    text = (
        "SELECT s.sensor, EXPECTED(AVG(s.x)) AS mean, STDDEV(AVG(x)) AS sd, "
        "EXISTENCE(AVG(x)) AS p, QUANTILE(SUM(x), 50%) AS half, PROB(SUM(x) > 10) AS high, "
        "SUM(x) AS total FROM u AS s [RANGE 4 s WATTR ts] GROUP BY s.sensor "
        "HAVING PROB(SUM(x) > 10) >= 0.2 AND AVG(x) > 0 ORDER BY mean"
    )
    got = sql(spark, text).collect()
    out = sf.window_aggregate(
        spark.table("u"), {"mean": "avg(x)", "total": "sum(x)"}, window=sf.Range("4 s"),
        order="ts", key="sensor", quantiles=(0.5,),
    )  # fmt: skip
    laws = sf.window_aggregate(
        spark.table("u"), {"law": "sum(x)"}, window=sf.Range("4 s"), order="ts",
        key="sensor", distribution=10_000,
    )  # fmt: skip
    high = F.aggregate(
        F.filter("law.distribution", lambda a: a["value"] > 10),
        F.lit(0.0),
        lambda s, a: s + a["prob"],
    )
    both = out.join(laws.select("sensor", "window", high.alias("high")), ["sensor", "window"])
    expected = both.where("high >= 0.2 and mean.mean > 0").orderBy("mean.mean").collect()
    assert 0 < len(expected) < out.count()
    for row, other in zip(got, expected, strict=True):
        assert (row["sensor"], row["mean"], row["sd"], row["p"]) == (
            other["sensor"], other["mean"]["mean"], other["mean"]["stddev"],
            other["mean"]["existence"],
        )  # fmt: skip
        assert row["half"] == other["total"]["q50"]
        assert row["high"] == pytest.approx(other["high"])
        assert row["total"]["mean"] == pytest.approx(other["total"]["mean"])


CONDITIONS = {
    "AVG(pay) > 3000 AND avg( PAY ) < 5000": lambda pays: 3000 < np.mean(pays) < 5000,
    "AVG(pay) BETWEEN 3000 AND 5000": lambda pays: 3000 <= np.mean(pays) <= 5000,
    "NOT AVG(pay) BETWEEN 3000 AND 5000": lambda pays: not 3000 <= np.mean(pays) <= 5000,
    "COUNT(*) > 2 OR count( * ) = 1": lambda pays: len(pays) > 2 or len(pays) == 1,
    "MAX(p.pay) = 4000 OR NOT (MAX(pay) < 8000 AND max(pay) > 0)": (
        lambda pays: max(pays) == 4000 or not 0 < max(pays) < 8000
    ),
    "SUM(pay) IN (2000, 8000) OR ABS(SUM(pay) - 14000) < 1000": (
        lambda pays: sum(pays) in (2000, 8000) or abs(sum(pays) - 14000) < 1000
    ),
    "MAX(pay) IS NULL OR MAX(pay) > 7000": lambda pays: not pays or max(pays) > 7000,
    "COALESCE(AVG(pay), NULL, 0) < 2000": lambda pays: not pays or np.mean(pays) < 2000,
}


def test_a_condition_on_one_aggregate_may_name_it_several_times(spark):
    pays = [2000.0 * i for i in range(5)]
    spark.range(5).selectExpr(
        "timestamp_seconds(id) AS at", "id * 2000D AS pay", "0.5D AS existence"
    ).createOrReplaceTempView("p")
    worlds = [[pay for i, pay in enumerate(pays) if world >> i & 1] for world in range(2**5)]
    expected = {  # a comparison with NULL, the aggregate of the empty world, does not hold
        condition: sum(map(holds, worlds["NULL" not in condition :])) / 2**5
        for condition, holds in CONDITIONS.items()
    }
    window = "FROM p [RANGE 1 hour WATTR at]"
    frames = {c: sql(spark, f"SELECT PROB({c}) AS c {window}") for c in CONDITIONS}
    *_, (c, p) = expected.items()
    for bound in (p - 0.01, p + 0.01):
        frames[bound] = sql(spark, f"SELECT held {window} HAVING PROB({c}) >= {bound}")
    found = tables_of(frames)
    assert [found[bound].num_rows for bound in (p - 0.01, p + 0.01)] == [1, 0]
    for c, p in expected.items():
        assert found[c].column("c").to_pylist() == pytest.approx([p], abs=1e-12)


def test_the_probability_of_an_event_of_every_world_is_exactly_one(spark):
    kind = "t long, alternatives array<struct<prob: double, x: double>>"
    rows = [(i, [(1 / n, float(x)) for x in range(n)]) for i, n in enumerate((3, 7, 10, 49))]
    text = "SELECT PROB(AVG(x) > -1) AS p FROM s [ROWS 1 CONFIDENCE 100% ORDER t] HAVING p >= 1"
    found = sql(spark, f"{text} AND p = 1", s=spark.createDataFrame(rows, kind)).collect()
    assert [row.p for row in found] == [1.0] * 4


def test_spreads_of_certain_rows_are_sparks_own_numbers(tables):
    spark = tables["spark"]
    text = "STDDEV(speed) AS a, STDDEV_SAMP(speed) AS b, VARIANCE(speed) AS c, VAR_SAMP(speed) AS d"
    ours = sql(spark, f"SELECT vehID, {text} FROM Sensors [RANGE 1 day WATTR ts] GROUP BY vehID")
    (plain,) = spark.sql(f"SELECT {text} FROM Sensors WHERE vehID = 1").collect()
    (found,) = ours.where("vehID = 1").collect()
    np.testing.assert_allclose([*found[1:]], [*plain], rtol=1e-12)


def test_spreads_of_uncertain_rows_are_asked_for_by_their_whole_name(tables):
    text = (
        "SELECT EXPECTED(STDDEV_SAMP(x)) AS s, EXISTENCE(VAR_SAMP(x)) AS p FROM u [ROWS 2 ORDER id]"
    )
    found = sql(tables["spark"], text).orderBy("p").collect()
    assert found[0].s is None
    assert 0 < found[-1].s < 12
    assert 0 < found[-1].p < 1


def test_count_windows_with_a_slide_answer_at_every_such_row(tables):
    spark = tables["spark"]
    every, slid = (
        sql(spark, f"SELECT id, EXPECTED(SUM(x)) AS s FROM u [ROWS 5 {slide} ORDER id]").collect()
        for slide in ("", "SLIDE 3")
    )
    assert sorted(map(tuple, slid)) == sorted(map(tuple, every))[2::3]


def test_explain_shows_extents_held_tuples_and_state(tables):
    spark = tables["spark"]
    text = explain(spark, Q.format(table="Disordered", control=" DRATIO 1%"))
    for part in ("extents of 5 min every 30 s", "10 extents", "avg(speed)", "with its rows"):
        assert part in text
    text = explain(spark, "SELECT AVG(x) FROM u [ROWS 500 CONFIDENCE 95% ORDER id]")
    assert "w' = least n" in text
    assert "0.9: about" in text
    text = explain(spark, "SELECT AVG(x) FROM u [ROWS 5 SLIDE 3 ORDER id]")
    assert "one per 3 arriving tuples of a group" in text


def test_the_bytes_that_explain_tells_are_those_that_are_stored(tables):
    text = explain(tables["spark"], "SELECT AVG(x) FROM u [ROWS 500 CONFIDENCE 95% ORDER id]")
    held, kilobytes = re.search(
        r"w' = (\d+) .existence 0.9.: .* = ([\d.]+) kB per group", text
    ).groups()
    window = CountWindowAggregate(500, 0.95, [Aggregate("avg", 0)])
    arrivals = 2_000
    answers = window.process(
        np.zeros(arrivals, int), np.arange(0, 10 * arrivals + 1, 10), np.full(10 * arrivals, 0.09),
        np.random.default_rng(1).normal(size=(10 * arrivals, 1)),
    )  # fmt: skip
    assert answers.held[-1] == pytest.approx(int(held), rel=0.01)
    assert len(window.snapshot()) == pytest.approx(1_000 * float(kilobytes), rel=0.25)


def toll_pairs(cars, key):
    """Return (end, left vehicle, right vehicle) for extents of 30 s and 60 s that end together."""
    found = []
    for end in range(30, 1000, 30):
        left = [c for c in cars if end - 30 <= stamp(c[2]) < end]
        right = [c for c in cars if end - 60 <= stamp(c[2]) < end]
        found += [(end, a[0], a[1], b[1]) for a in left for b in right if a[0] == b[0] or not key]
    return sorted(found)


@pytest.mark.parametrize("key", [True, False])
def test_two_windowed_tables_join_extent_by_extent(tables, key):
    on = "ON a.vehID = b.vehID AND a.speed > b.speed" if key else "ON a.speed > b.speed"
    out = sql(
        tables["spark"],
        "SELECT window.end AS ends, a.vehID, a.speed AS x, b.speed AS y "
        "FROM Sensors [RANGE 30 s SLIDE 30 s WATTR ts] a "
        f"JOIN Sensors [RANGE 60 s SLIDE 30 s WATTR ts] AS b {on} WHERE a.vehID < 2",
    )
    got = sorted((int(stamp(r["ends"])), r["vehID"], r["x"], r["y"]) for r in out.collect())
    expected = [p for p in toll_pairs(tables["cars"], key) if p[2] > p[3] and p[1] < 2]
    assert got == expected
    assert len(got) > 10


@pytest.mark.parametrize("how", ["LEFT", "RIGHT OUTER", "FULL"])
def test_outer_joins_of_windows_keep_the_rows_that_meet_none(tables, how):
    text = (
        "SELECT window.end AS ends, a.vehID AS one, a.n AS slow, b.vehID AS other, b.n AS fast "
        "FROM (SELECT vehID, window, COUNT(*) AS n FROM cars [RANGE 90 s WATTR ts] "
        f"WHERE speed < 80 GROUP BY vehID) a {how} JOIN "
        "(SELECT vehID, window, COUNT(*) AS n FROM cars [RANGE 90 s WATTR ts] "
        "WHERE speed >= 80 GROUP BY vehID) b ON a.vehID = b.vehID"
    )
    cars = tables["spark"].table("Sensors").withColumn("vehID", F.expr("NULLIF(vehID, 1)"))
    found = sql(tables["spark"], text, cars=cars).collect()
    slow, fast = Counter(), Counter()
    for vehicle, speed, ts in tables["cars"]:
        of = slow if speed < 80 else fast
        of[stamp(ts) // 90 * 90 + 90, None if vehicle == 1 else vehicle] += 1
    both = {of for of in slow.keys() & fast.keys() if of[1] is not None}  # NULL equals nothing
    expected = [(*of, slow[of], of[1], fast[of]) for of in both]
    if not how.startswith("RIGHT"):
        expected += [(*of, slow[of], None, None) for of in slow.keys() - both]
    if not how.startswith("LEFT"):
        expected += [(end, None, None, vehicle, fast[end, vehicle])
                     for end, vehicle in fast.keys() - both]  # fmt: skip
    assert Counter((stamp(row.ends), *row[1:]) for row in found) == Counter(expected)
    assert any(end for end, vehicle in slow.keys() & fast.keys() if vehicle is None)


@pytest.mark.parametrize("written", ["", "AS "])
def test_an_alias_with_the_name_of_a_column_selects_no_rows(tables, written):
    found = sql(
        tables["spark"],
        f"SELECT window.end {written}ts, vehID {written}id, AVG(speed) {written}speed "
        "FROM Sensors [RANGE 90 s WATTR ts] GROUP BY vehID",
    ).collect()
    extents = {(stamp(c[2]) // 90 * 90 + 90, c[0]) for c in tables["cars"]}
    assert sorted((stamp(row.ts), row.id) for row in found) == sorted(extents)
    ranked = f"SELECT TOP 2 id {written}x FROM u [RANGE 300 s WATTR ts] RANK BY x"
    assert sql(tables["spark"], ranked).columns == ["x"]


def test_answers_of_two_windows_join_as_the_toll_query_has_them(tables):
    spark = tables["spark"]
    text = (
        "WITH mean AS (SELECT vehID, window, punctuation, AVG(speed) AS speed FROM Sensors "
        "[RANGE 60 s SLIDE 30 s WATTR ts] GROUP BY vehID) "
        "SELECT active.vehID, window.end AS ends, active.n, mean.speed FROM "
        "(SELECT vehID, window, COUNT(*) AS n FROM Sensors [RANGE 30 s WATTR ts] GROUP BY vehID) "
        "active JOIN mean ON active.vehID = mean.vehID WHERE mean.speed > 80"
    )
    rows = sql(spark, text).collect()
    assert rows
    for row in rows:
        end = stamp(row["ends"])
        mine = [c for c in tables["cars"] if c[0] == row["vehID"]]
        speeds = [c[1] for c in mine if end - 60 <= stamp(c[2]) < end]
        assert row["n"] == sum(end - 30 <= stamp(c[2]) < end for c in mine)
        assert row["speed"] == pytest.approx(sum(speeds) / len(speeds))
        assert row["speed"] > 80
    assert "extent by extent" in explain(spark, text)
    assert "(vehID)" in explain(spark, text)
    one, other = ("Sensors a [RANGE 30 s WATTR ts IDLE 5 s]", "Sensors b [RANGE 30 s WATTR ts]")
    told = explain(spark, f"SELECT * FROM {one} LEFT JOIN {other} ON a.vehID = b.vehID")
    assert re.search(r"idle_timeout\s+5 s", told)


def test_windows_join_by_similarity_too(tables):
    spark = tables["spark"]
    out = sql(
        spark,
        "SELECT a.id AS i, b.id AS j, probability FROM u [RANGE 4 s WATTR ts] a SIMILARITY JOIN "
        "u [RANGE 4 s WATTR ts] b ON (x) WITHIN 1 PROBABILITY 0.2 AND a.sensor = b.sensor",
    )
    got = {(r["i"], r["j"]): r["probability"] for r in out.collect()}
    expected = {}
    for i in range(12):
        for j in range(12):
            if i // 4 == j // 4 and i % 2 == j % 2:
                p = sum(
                    p * q
                    for p, x in ((0.5, i), (0.25, i + 2))
                    for q, y in ((0.5, j), (0.25, j + 2))
                    if abs(x - y) <= 1
                )
                if p >= 0.2:
                    expected[i, j] = p
    assert got == pytest.approx(expected)
    assert len(expected) >= 12


def test_rows_of_one_time_are_all_in_their_extent(tables):
    spark = tables["spark"]
    rows = [(i, at(10 * (i // 4)), float(i)) for i in range(48)]
    spark.createDataFrame(rows, "id int, ts timestamp, v double").createOrReplaceTempView("tied")
    out = sql(
        spark,
        "SELECT window.end AS e, COUNT(*) AS n, SUM(v) AS total FROM tied [RANGE 30 s WATTR ts]",
    )
    got = sorted((stamp(r["e"]), r["n"], r["total"]) for r in out.collect())
    assert got == [(30.0 * (j + 1), 12, float(sum(range(12 * j, 12 * j + 12)))) for j in range(4)]
    pairs = sql(
        spark, "SELECT a.id FROM tied [RANGE 10 s WATTR ts] a JOIN tied [RANGE 10 s WATTR ts] b "
        "ON a.id = b.id"
    )  # fmt: skip
    assert pairs.count() == 48
    spark.catalog.dropTempView("tied")


def test_averages_over_time_carry_the_newest_value_into_each_window(tables):
    of = "FROM Sensors [RANGE 45 s SLIDE 15 s WATTR ts] GROUP BY vehID"
    text = f"SELECT vehID, window.end AS e, TIME_AVG(speed) AS m, INTEGRAL(speed) AS i {of}"
    got = {
        (r["vehID"], stamp(r["e"])): (r["m"], r["i"]) for r in sql(tables["spark"], text).collect()
    }
    assert len(got) > 60
    for (car, end), (mean, integral) in got.items():
        readings = [(stamp(ts), speed) for vehicle, speed, ts in tables["cars"] if vehicle == car]
        held = [
            [speed for time, speed in readings if time <= second][-1:]
            for second in np.arange(end - 45, end)
        ]
        known = [speed for speeds in held for speed in speeds]
        assert (mean, integral) == pytest.approx((np.mean(known), sum(known)))
    assert "the newest earlier value per group" in explain(tables["spark"], text)


def test_errors_of_aggregates_name_what_the_user_wrote(tables):
    window = "FROM u [RANGE 1 hour WATTR ts]"
    for call, reason in (
        ("SUM(*)", "sum in SUM(*) needs an attribute"),
        ("PERCENTILE(x, 2)", "PERCENTILE(x, 2) must be quantile(expression, share) with"),
    ):
        caught = error(tables["spark"], f"SELECT {call} {window}")
        assert reason in caught.reason
        assert "aggregate" not in str(caught)
    with pytest.raises(Exception, match=r"avg\(x\)") as raised:
        sql(tables["spark"], f"SELECT COUNT(*) {window} HAVING AVG(x) = array(1)")
    assert "aggregate0" not in str(raised.value)


def test_rows_in_order_answer_early_without_a_controller(tables):
    spark = tables["spark"]
    text = "SELECT final, COUNT(*) AS n FROM Sensors [RANGE 300 s WATTR ts EARLY 100 s]"
    answers = sql(spark, f"{text} GROUP BY vehID").collect()
    assert sum(row.n for row in answers if row.final) == len(tables["cars"])
    assert any(not row.final for row in answers)
    low = sql(spark, text.replace("final", "interval.`count(*)`.low AS low").replace(" AS n", ""))
    assert low.columns == ["low", "COUNT(*)"]


SPEEDS = (
    "WITH a AS (SELECT vehID, window, AVG(speed) AS mean FROM Sensors {0} GROUP BY vehID), "
    "b AS (SELECT vehID, window, MAX(speed) AS most FROM Sensors {0} GROUP BY vehID), "
    "c AS (SELECT vehID, window, MIN(speed) AS least FROM Sensors {0} GROUP BY vehID) "
).format("[RANGE 60 s WATTR ts]")


def test_calendar_windows_and_samples_are_the_functions(tables):
    spark, answers = tables["spark"], ("vehID", "window", "n")
    for written, window in (
        ("RANGE 1 DAY ZONE 'Asia/Kolkata'", sf.Range("1 day", zone="Asia/Kolkata")),
        ("RANGE 2 weeks SLIDE 1 week ZONE r'UTC'", sf.Range("2 weeks", slide="1 week", zone="UTC")),
        ("RANGE 1 month OFFSET 6 hours", sf.Range("1 month", offset="6 hours")),
        ("RANGE 2 years SLIDE 1 year", sf.Range("2 years", slide="1 year")),
    ):
        text = (
            f"SELECT vehID, window, COUNT(*) AS n FROM Sensors [{written} WATTR ts] GROUP BY vehID"
        )
        own = sf.window_aggregate(
            spark.table("Sensors"), {"n": "count(*)"}, window=window, order="ts", key="vehID"
        ).select(*answers)
        assert sorted(sql(spark, text).collect()) == sorted(own.collect()) != []
    assert "in the time zone UTC" in explain(
        spark, "SELECT COUNT(*) FROM Sensors [RANGE 1 DAY ZONE 'UTC' WATTR ts]"
    )
    for written, window, order in (
        ("RANGE 300 s WATTR ts", sf.Range("300 s"), "ts"),
        ("ROWS 40 ORDER ts", sf.Rows(40), "ts"),
    ):
        text = f"SELECT AVG(x) AS m, QUANTILE(AVG(x), 0.5) FROM u [{written} SAMPLES 7 SEED 5]"
        how = {"window": window, "order": order, "quantiles": [0.5], "samples": 7, "seed": 5}
        own = sf.window_aggregate(spark.table("u"), {"m": "avg(x)"}, **how).collect()
        assert sorted(row.m.q50 for row in own) == sorted(
            row.m.q50 for row in sql(spark, text).collect()
        )


def test_three_windows_are_joined_in_a_subquery(tables):
    text = SPEEDS + (
        "SELECT p.vehID, c.window, p.mean, p.most, c.least FROM (SELECT a.vehID AS vehID, "
        "a.window AS window, a.mean AS mean, b.most AS most FROM a JOIN b ON a.vehID = b.vehID) p "
        "JOIN c ON p.vehID = c.vehID"
    )
    expected = {}
    for vehicle, speed, ts in tables["cars"]:
        expected.setdefault((vehicle, ts.replace(second=0)), []).append(speed)
    found = {
        (row.vehID, row.window.start.replace(tzinfo=UTC)): row[2:]
        for row in sql(tables["spark"], text).collect()
    }
    assert found == {
        place: (sum(speeds) / len(speeds), max(speeds), min(speeds))
        for place, speeds in expected.items()
    }


CORRECTED = (
    "SELECT {} FROM Disordered [RANGE 300 s WATTR ts SLACK 8 UNIQUE vehID VERSION {}] "
    "GROUP BY vehID"
)  # fmt: skip


SHARED = "SELECT window, SUM(x) AS s FROM u [RANGE 300 s WATTR ts ARRIVAL ts SLACK 8 SHARED {}]"


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("SELECT vehID FROM Sensors [RANGE 300 s WATTR ts EARLY 9 s]", "EARLY",
         "EARLY is allowed only for aggregates over a RANGE"),
        ("SELECT vehID FROM Sensors [WATTR ts SLACK 3 EARLY 9 s]", "EARLY",
         "EARLY is allowed only for aggregates over a RANGE"),
        ("SELECT TOP 3 vehID FROM Sensors [RANGE 300 s WATTR ts EARLY 9 s] RANK BY speed", "EARLY",
         "EARLY is allowed only for aggregates over a RANGE"),
        ("SELECT a.vehID FROM Sensors [RANGE 30 s WATTR ts EARLY 9 s] a JOIN Sensors "
         "[RANGE 30 s WATTR ts] b ON a.vehID = b.vehID", "EARLY",
         "EARLY is allowed only for aggregates over a RANGE"),
        ("SELECT AVG(speed) FROM Sensors [RANGE 300 s WATTR ts LEVEL 80%]", "LEVEL",
         "LEVEL needs EARLY"),
        ("SELECT AVG(speed) FROM Sensors [RANGE 300 s WATTR ts EARLY 9]", "",
         "EARLY needs a unit of time"),
        ("SELECT AVG(speed) FROM Sensors [RANGE 300 s WATTR ts EARLY 301 s]", "EARLY",
         "EARLY must be at most"),
        ("SELECT AVG(speed) FROM Sensors [RANGE 300 s WATTR ts EARLY 9 s LEVEL 100%]", "LEVEL",
         "LEVEL must lie in"),
        ("SELECT speed, AVG(speed) FROM Sensors [RANGE 300 s WATTR ts EARLY 9 s]", "EARLY",
         "EARLY answers describe extents"),
        ("SELECT PERCENTILE(speed, 0.5) FROM Sensors [RANGE 300 s WATTR ts EARLY 9 s]", "EARLY",
         "is quantile: compute it"),
        ("SELECT vehID FROM Sensors [RANGE 300 s WATTR ts EMPTY 2]", "EMPTY",
         "EMPTY is allowed only for aggregates over a RANGE"),
        ("SELECT TOP 3 vehID FROM Sensors [RANGE 300 s WATTR ts EMPTY 2] RANK BY speed", "EMPTY",
         "EMPTY is allowed only for aggregates over a RANGE"),
        ("SELECT TOP 3 vehID FROM Sensors [RANGE 1 day ZONE 'UTC' WATTR ts] RANK BY speed", "ZONE",
         "ZONE is allowed only for aggregates over a RANGE"),
        ("SELECT TOP 3 vehID FROM Sensors [RANGE 1 month WATTR ts] RANK BY speed", "RANGE 1 month",
         "months and years are allowed only for aggregates"),
        ("SELECT vehID FROM Sensors [WATTR ts ZONE 'UTC']", "ZONE", "ZONE needs a RANGE"),
        ("SELECT COUNT(*) FROM Sensors [RANGE 1 day ZONE UTC WATTR ts]", "UTC",
         "write it in quotes, 'UTC'"),
        ("SELECT COUNT(*) FROM Sensors [RANGE 1 day ZONE 'Europe/Berln' WATTR ts]", "ZONE",
         "did you mean `Europe/Berlin`"),
        ("SELECT COUNT(*) FROM Sensors [RANGE 5 min ZONE 'UTC' WATTR ts]", "5 min",
         "RANGE of a window with calendar units must be a positive number of days"),
        ("SELECT COUNT(*) FROM Sensors [RANGE 99999999999999 days WATTR ts]", "99999999999999 days",
         "RANGE must be at most 2**60 microseconds"),
        ("SELECT COUNT(*) FROM Sensors [RANGE 1 day WATTR ts EARLY 1e300 days]", "1e300 days",
         "EARLY must be at most 2**60 microseconds"),
        ("SELECT COUNT(*) FROM Sensors [RANGE 1e400 days WATTR ts]", "1e400 days",
         "RANGE must be at most 2**60 microseconds"),
        ("SELECT COUNT(*) FROM Sensors [RANGE 1 month SLIDE 1 day WATTR ts]", "1 day",
         "SLIDE must be in months or years, because RANGE is"),
        ("SELECT vehID FROM Disordered [WATTR ts SLACK 8 SAMPLES 9]", "SAMPLES",
         "SAMPLES is allowed only for aggregates over windows"),
        ("SELECT AVG(x) FROM u [RANGE 300 s WATTR ts SAMPLES 0]", "0",
         "SAMPLES must be an integer of at least 1"),
        ("SELECT AVG(speed) FROM Sensors [RANGE 300 s WATTR ts EMPTY 0]", "EMPTY 0",
         "must be a number of extents from 1"),
        ("SELECT AVG(speed) FROM Disordered [RANGE 300 s WATTR ts SLACK 3 KEY vehID FORGET 1 day "
         "EARLY 9 s]", "", "cannot be combined"),
        ("SELECT vehID FROM Disordered [WATTR ts SLACK 1 REMEMBER 1 DAY]", "",
         "REMEMBER needs UNIQUE"),
        ("SELECT * FROM Sensors [RANGE 2 min OFFSET 30 s WATTR ts]", "", "OFFSET"),
        ("SELECT COUNT(*) FROM Sensors [RANGE 2 min OFFSET 2 min WATTR ts]", "", "OFFSET"),
        (SHARED.format("nothing"), "SHARED", "has no column nothing"),
        (SHARED.format("sensor").replace("SUM(x)", "TIME_AVG(x)"), "SHARED",
         "cannot have shared errors"),
        (SHARED.format("vehID").replace("SUM(x)", "SUM(speed)").replace(" u ", " Disordered "),
         "SHARED", "SHARED needs uncertain rows"),
        ("SELECT x FROM u [WATTR ts ARRIVAL ts SLACK 8 SHARED sensor]", "SHARED",
         "SHARED is allowed only for aggregates over a RANGE"),
        (CORRECTED.format("COUNT(*)", "speed"), "VERSION", "VERSION must be a column of integers"),
        (CORRECTED.format("COUNT(*)", "nothing"), "VERSION", "has no column nothing"),
        (CORRECTED.format("COUNT(*)", "ts").replace("UNIQUE vehID ", ""), "VERSION",
         "VERSION needs UNIQUE"),
        ("SELECT vehID FROM Disordered [WATTR ts SLACK 8 UNIQUE vehID VERSION ts]", "VERSION",
         "VERSION is allowed only for aggregates over a RANGE"),
        (f"{SPEEDS}SELECT a.mean FROM a JOIN b ON a.vehID = b.vehID JOIN c ON a.vehID = c.vehID",
         "", "put the two windows in a subquery"),
    ],
)  # fmt: skip
def test_what_a_window_cannot_be_is_refused_where_it_stands(tables, text, place, words):
    found = error(tables["spark"], text)
    assert words in str(found)
    assert place in str(found)
