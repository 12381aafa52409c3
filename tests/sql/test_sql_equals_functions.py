"""SQL gives the rows of the functions that it stands for, and EXPLAIN says what they are given."""

from types import SimpleNamespace

import pytest
from pyspark.sql import functions as F  # noqa: N812

import sfumato as sf
from sfumato.language import explain
from spark_tables import in_groups
from sql_readings import JOIN, differing, traffic

pytestmark = pytest.mark.spark


def ordered(df, **how):
    return sf.reorder(df, event_time="ts", arrival="arrival", **how)


def joined(t, **more):
    how = {"within": 0.5, "window": sf.Rows(10), "order": "arrival", **more}
    return sf.similarity_join(t.s, t.r, on=["x", "y"], probability=0.25, **how)


def windows(df, aggregates, window, **more):
    return sf.window_aggregate(df, aggregates, window=window, order="ts", **more)


def early(t, **level):
    asked = {"count(*)": "count(*)", "avg(speed)": "avg(speed)"}
    window = sf.Range("300 seconds", slide="100 seconds")
    rows = ordered(t.Disordered, slack=8, early=True)
    found = windows(rows, asked, window, key="vehID", early="50 seconds", **level)
    return found.select("vehID", "window", "final", "revision", "completeness", "interval", *asked)


def some(t):
    asked = {
        "n": "count_if(x > 4)", "s": "sum(x) FILTER (WHERE sensor = 'a')",
        "t": "sum(CASE WHEN x < 9 THEN x END)",
    }  # fmt: skip
    rows = sf.window_aggregate(t.u, asked, window=sf.Rows(3), order="id", distribution=99)
    likely = "aggregate({0}.distribution, 0D, (s, o) -> s + IF(o.value {1}, o.prob, 0D))"
    found = rows.where("n.mean > 0.1").where(likely.format("t", "> 5") + " < 0.99")
    p = likely.format("n", ">= 2") + " AS p"
    return found.selectExpr("id", "n.mean AS n", p, "s.distribution AS d")


EARLY = (
    "SELECT vehID, window, final, revision, completeness, interval, count(*), avg(speed) "
    "FROM Disordered [RANGE 300 s SLIDE 100 s WATTR ts SLACK 8 EARLY 50 SECONDS{}] GROUP BY vehID"
)
EMPTY = "SELECT vehID, window, COUNT(*) AS n FROM Sensors [RANGE 50 s WATTR ts{}] GROUP BY vehID"
CORRECTED = (
    "SELECT vehID, window, COUNT(*) AS n, AVG(speed) AS v "
    "FROM Disordered [RANGE 300 s WATTR ts SLACK 8 UNIQUE vehID VERSION ts] GROUP BY vehID"
)
REMEMBER = (
    "SELECT vehID, late, duplicate FROM Disordered [WATTR ts SLACK 1 UNIQUE vehID REMEMBER 1 DAY]"
)
SHARED = "SELECT window, SUM(x) AS s FROM u [RANGE 300 s WATTR ts ARRIVAL ts SLACK 8 SHARED sensor]"
OFFSET = "SELECT window, COUNT(*) AS n FROM Sensors [RANGE 2 min OFFSET 30 s WATTR ts]"
DELAY = "SELECT * FROM s [WATTR ts SOURCE sensor MAX_DELAY 1 min]"
RADII = "SELECT * FROM s a [ROWS 5] SIMILARITY JOIN r b ON (x, y) WITHIN `ID` PROBABILITY 0.1"
WORLDS = (
    "SELECT * FROM merge_worlds(draw_worlds(scored, n => 40, source => 's', id => id), key => id)"
)
RESCALED = "SELECT TOP 4 id FROM s [RANGE 1 HOUR WATTR ts] RANK BY x RULES sensor RESCALE"
CALL = "SELECT * FROM window_aggregate(Sensors, map('n', 'count(*)'), window => {}, order => ts)"
COUNT = {"n": "count(*)"}
EQUAL = {
    # controllers
    "SELECT * FROM s [RANGE 300 seconds SLIDE 30 seconds WATTR ts SLACK 10]":
        lambda t: ordered(t.s, slack=10),
    "SELECT * FROM s [RANGE 300 seconds SLIDE 30 seconds WATTR ts DRATIO 1%]":
        lambda t: ordered(t.s, drop_ratio=0.01),
    "SELECT * FROM s [RANGE 300 seconds SLIDE 30 seconds WATTR ts DRATIO 1% BSIZE 3]":
        lambda t: ordered(t.s, drop_ratio=0.01, max_buffer=3),
    "SELECT * FROM s [WATTR TS MAX ARRIVAL Arrival]": lambda t: ordered(t.s, estimator="max"),
    "SELECT * FROM s [WATTR ts BSIZE 7]": lambda t: ordered(t.s, max_buffer=7),
    "SELECT * FROM s [WATTR ts BSIZE_TOTAL 7 KEY sensor]":
        lambda t: ordered(t.s, max_buffer_total=7, key="sensor"),
    "SELECT * FROM s [WATTR ts PUNCTUATION ts KEY (sensor, id)]":
        lambda t: ordered(t.s, punctuation="ts", key=["sensor", "id"]),
    "SELECT * FROM s [WATTR ts DRATIO 10% ESTIMATOR CONFORMAL KEY sensor IDLE 10 seconds]":
        lambda t: ordered(
            t.s, drop_ratio=0.1, estimator="conformal", key="sensor", idle_timeout="10 seconds"
        ),
    DELAY: lambda t: ordered(t.s, source="sensor", max_delay="1 min"),
    REMEMBER: lambda t: ordered(
        t.Disordered, slack=1, unique="vehID", remember="1 day"
    ).select("vehID", "late", "duplicate"),
    # filters of alternatives
    "SELECT * FROM s WHERE x > 3": lambda t: sf.where(t.s, "x > 3"),
    "SELECT * FROM s AS t WHERE t.x > 3 AND t.sensor = 'a' -- done":
        lambda t: sf.where(t.s, "x > 3 AND sensor = 'a'"),
    "FROM s SELECT * WHERE `X` BETWEEN y AND 4 OR id = 1":
        lambda t: sf.where(t.s, "x BETWEEN y AND 4 OR id = 1"),
    "SELECT * FROM s WHERE sensor = '{x}' OR x = 1": lambda t: sf.where(t.s, "x = 1"),
    "SELECT * FROM s WHERE id < 3": lambda t: t.s.where("id < 3"),
    "SELECT id, EXPECTED(x) AS e FROM s WHERE x > 3 AND EXPECTED(x) > 1.5":
        lambda t: sf.where(t.s.where(sf.expected("x") > 1.5), "x > 3").select(
            "id", sf.expected("x").alias("e")
        ),
    # joins
    f"SELECT * FROM s AS a [ROWS 10 CONFIDENCE 95%] {JOIN} USING NESTED": joined,
    f"SELECT * FROM s a [ROWS 4 CONFIDENCE 0.8 ORDER ts, id] {JOIN} USING INDEX "
    "AND b.sensor = a.sensor": lambda t: joined(
        t, window=sf.Rows(4, 0.8), order=["ts", "id"], key="sensor"
    ),
    f"SELECT * FROM s a [ROWS 3] {JOIN} OUTPUT CHANGES":
        lambda t: joined(t, window=sf.Rows(3), output="changes"),
    f"SELECT * FROM s a [SPAN 40 seconds ORDER ts] {JOIN}":
        lambda t: joined(t, window=sf.Range("40 seconds"), order="ts"),
    "SELECT * FROM s a [ROWS 4 SPAN 1 minute ORDER ts] SIMILARITY JOIN r [SPAN 20 s] AS b "
    "ON (x, y) WITHIN (0.5, 2) PROBABILITY 25%": lambda t: joined(
        t, window=(sf.Rows(4, within="1 minute"), sf.Range("20 s")), within={"x": 0.5, "y": 2},
        order="ts",
    ),
    f"SELECT * FROM s a [ROWS 2 LOCKSTEP ORDER ts] {JOIN}":
        lambda t: joined(t, window=sf.Rows(2, lockstep=True), order="ts"),
    f"SELECT * FROM s a [DELTA 0.4 ON x THRESHOLD 80%] {JOIN}":
        lambda t: joined(t, window=sf.Delta(0.4, on="x", threshold=0.8)),
    f"SELECT * FROM s a [SPAN 20 seconds ORDER ts] {JOIN} HOW full":
        lambda t: joined(t, window=sf.Range("20 seconds"), order="ts", how="full"),
    "SELECT * FROM s a [ROWS 9] SIMILARITY JOIN r AS b ON (x, y) WITHIN 100000 PROBABILITY 25% "
    "METRIC haversine":
        lambda t: joined(t, window=sf.Rows(9), within=100_000, metric="haversine"),
    RADII: lambda t: sf.similarity_join(
        t.s, t.r, on=["x", "y"], within="id", probability=0.1, window=sf.Rows(5), order="arrival"
    ),
    "SELECT a.id, b.id AS other, left.sensor, probability, EXPECTED(a.x) AS e, b.x, "
    f"EXISTENCE() AS p FROM s a [ROWS 10] {JOIN} WHERE a.id < 30 ORDER BY probability":
        lambda t: joined(t).where("left.id < 30").select(
            "left.id", F.col("right.id").alias("other"), "left.sensor", "probability",
            sf.expected("left_x").alias("e"),
            F.expr(
                "transform(alternatives, q -> named_struct('prob', q.prob, 'right_x', q.right_x))"
            ).alias("x"),
            sf.existence().alias("p"),
        ),
    f"SELECT a.id, probability, alternatives FROM s a [ROWS 10] {JOIN} "
    "WHERE a.x > 2 AND right_y = 1 AND b.sensor = 'a'": lambda t: sf.where(
        joined(t), "left_x > 2 AND right_y = 1 AND right.sensor = 'a'"
    ).select("left.id", "probability", "alternatives"),
    "SELECT * FROM (SELECT * FROM s [WATTR ts SLACK 3] WHERE NOT late) a [ROWS 10 ORDER ts] "
    f"{JOIN}": lambda t: sf.similarity_join(
        ordered(t.s, slack=3).where("NOT late"), t.r, on=["x", "y"], within=0.5, probability=0.25,
        window=sf.Rows(10), order="ts",
    ),
    # aggregates
    "SELECT id, EXPECTED(COUNT(*)) AS n FROM u [ROWS 3 CONFIDENCE 90% ORDER id] WHERE x > 4":
        lambda t: sf.window_aggregate(
            sf.where(t.u, "x > 4"), COUNT, window=sf.Rows(3, confidence=0.9), order="id"
        ).selectExpr("id", "n.mean AS n"),
    "SELECT id, held, EXPECTED(MIN(x)) m FROM u [DELTA 3 ON x THRESHOLD 90% ORDER id]":
        lambda t: sf.window_aggregate(
            t.u, {"m": "min(x)"}, window=sf.Delta(3, on="x", threshold=0.9), order="id"
        ).selectExpr("id", "held", "m.mean AS m"),
    "SELECT id, EXPECTED(COUNT(*) FILTER (WHERE t.x > 4)) AS n, PROB(COUNT_IF(x > 4) >= 2) AS p, "
    "DISTRIBUTION(SUM(x) FILTER (WHERE t.sensor = 'a'), 99) AS d FROM u t [ROWS 3 ORDER id] "
    "HAVING n > 0.1 AND PROB(SUM(x) FILTER (WHERE x < 9) > 5) < 0.99": some,
    EARLY.format(""): early,
    EARLY.format(" LEVEL 80%"): lambda t: early(t, level=0.8),
    EMPTY.format(" EMPTY 2"): lambda t: windows(
        t.Sensors, COUNT, sf.Range("50 seconds", empty=2), key="vehID"
    ).select("vehID", "window", "n"),
    CORRECTED: lambda t: windows(
        ordered(t.Disordered, slack=8), COUNT | {"v": "avg(speed)"}, sf.Range("300 seconds"),
        key="vehID", unique="vehID", version="ts",
    ).select("vehID", "window", "n", "v"),
    SHARED: lambda t: windows(
        sf.reorder(t.u, event_time="ts", arrival="ts", slack=8), {"s": "sum(x)"},
        sf.Range("300 seconds"), shared="sensor",
    ).select("window", "s"),
    OFFSET: lambda t: windows(
        t.Sensors, COUNT, sf.Range("2 minutes", offset="30 seconds")
    ).select("window", "n"),
    CALL.format("session('12 seconds')"):
        lambda t: windows(t.Sensors, COUNT, sf.Session("12 seconds")),
    CALL.format("range('1 day', zone => 'Asia/Kolkata', offset => '6 hours')"): lambda t: windows(
        t.Sensors, COUNT, sf.Range("1 day", zone="Asia/Kolkata", offset="6 hours")
    ),
    # rankings
    "SELECT query, id, sensor, time, rank, score, probability FROM (SELECT TOP 2 * "
    "FROM u [RANGE 5 s WATTR ts ARRIVAL ts SLACK 1] WHERE x < 15 GROUP BY sensor "
    "RANK BY abs(x - 6) ASC USING PT_K(0.1) FREQUENCY 2 s)": lambda t: sf.top_k(
        sf.where(sf.reorder(t.u, event_time="ts", arrival="ts", slack=1), "x < 15"),
        sf.Top(2, every="2 s"), by="abs(x - 6)", window=sf.Range("5 s"), order="ts", key="sensor",
        semantics="pt_k", probability=0.1, ascending=True,
    ).selectExpr("query", "row.id", "sensor", "time", "rank", "score", "probability"),
    RESCALED: lambda t: sf.top_k(
        t.s, 4, by="x", window=sf.Range("1 hour"), order="ts",
        exclusive="sensor", rescale=True,
    ).select("row.id"),
    # functions in FROM
    "SELECT * FROM reorder(Disordered, event_time => ts, arrival => arrival, slack => 1)":
        lambda t: ordered(t.Disordered, slack=1),
    "SELECT m, n, window.end AS end FROM window_aggregate(reorder(Disordered, event_time => ts, "
    "arrival => 'arrival', slack => 1), map('m', 'avg(speed)', 'n', 'count(*)'), "
    "window => range(20 SECONDS), order => ts)": lambda t: windows(
        ordered(t.Disordered, slack=1), {"m": "avg(speed)", "n": "count(*)"}, sf.Range("20 s")
    ).selectExpr("m", "n", "window.end AS end"),
    "SELECT id FROM where(r, 'x > 3')": lambda t: sf.where(t.r, "x > 3").select("id"),
    "SELECT rank, score FROM top_k(r, array(top(1, name => 'best')), by => x, window => '1 hour', "
    "order => ts)": lambda t: sf.top_k(
        t.r, [sf.Top(1, name="best")], by="x", window="1 hour", order="ts"
    ).select("rank", "score"),
    "SELECT * FROM resample(reorder(Disordered, event_time => ts, arrival => arrival, slack => 1), "
    "every => '1 second', order => ts, columns => speed, fill => 'mean')": lambda t: sf.resample(
        ordered(t.Disordered, slack=1), every="1 second", order="ts", columns="speed", fill="mean"
    ),
    "SELECT left.id FROM self_join(r, on => x, within => 1, probability => 50%, "
    "window => rows(5, confidence => 0.9), order => ts)": lambda t: sf.self_join(
        t.r, on="x", within=1, probability=0.5, window=sf.Rows(5, confidence=0.9), order="ts"
    ).select("left.id"),
    WORLDS: lambda t: sf.merge_worlds(
        sf.draw_worlds(t.scored, 40, source="s", id="id"), key="id"
    ),
    "SELECT window, SUM(x) AS s FROM union(s, r) [RANGE 10 s WATTR ts]": lambda t: windows(
        sf.union(t.s, t.r), {"s": "sum(x)"}, sf.Range("10 seconds")
    ).select("window", "s"),
    **{
        f"SELECT id, alternatives FROM {call}": lambda t, column=column: t.plain.select(
            "id", column().alias("alternatives")
        )
        for call, column in {
            "samples(plain, id, 0.5, 4, attributes => 'x')":
                lambda: sf.samples("id", 0.5, 4, attributes="x"),
            "samples((SELECT id, 2 * id AS v FROM plain), array(v, id), 1, 3, "
            "attributes => array('x', 'y'))":
                lambda: sf.samples([2 * F.col("id"), "id"], 1, 3, attributes=["x", "y"]),
            "between(plain, id, 9, 3, distribution => 'triangular')":
                lambda: sf.between("id", 9, 3, "triangular"),
            "below(plain, id, 2, 4)": lambda: sf.below("id", 2, 4),
            "above(plain, id, 3, 4)": lambda: sf.above("id", 3, 4),
            "circular(plain, id, 5, 4)": lambda: sf.circular("id", 5, 4),
            "alternatives((SELECT id, array(id, 2) AS x, array(1, 3) AS p FROM plain), x, p, 'y', "
            "normalize => true)": lambda: sf.alternatives(
                F.array("id", F.lit(2)), F.array(F.lit(1), F.lit(3)), "y", normalize=True
            ),
        }.items()
    },
}  # fmt: skip
GROUPS = [*dict.fromkeys(in_groups(EQUAL, 4).values())]


@pytest.fixture(scope="module")
def frames(tables):
    """Return all tables of the session by their names."""
    views = traffic(tables)
    for name, df in views.items():
        df.createOrReplaceTempView(name)
    yield SimpleNamespace(**views, **{n: tables.table(n) for n in ("s", "r", "plain", "scored")})
    for name in views:
        tables.catalog.dropTempView(name)


@pytest.mark.parametrize("texts", GROUPS, ids=range(len(GROUPS)))
def test_queries_give_the_rows_of_the_functions(tables, frames, texts):
    assert differing(tables, {text: EQUAL[text](frames) for text in texts}) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (DELAY, "source      sensor"),
        (DELAY, "max_delay   1 min"),
        (RADII, "within"),
        (REMEMBER, "; the vehID of these rows, for at least 24 h\n"),
        (EARLY.format(""), "at level 90%"),
        (EARLY.format(""), "early       each row is also emitted on arrival, for early answers"),
        (EARLY.format(" LEVEL 80%"), "at level 80%"),
        (EARLY.format(""), "whenever the punctuation passes a multiple of 50 s"),
        (EMPTY.format(" EMPTY 2 ARRIVAL ts SLACK 3"), "RANGE 50 s SLIDE 50 s EMPTY 2"),
        (CORRECTED, "per vehID, the row with the largest ts"),
        (SHARED, "rows with the same sensor take the same alternative"),
        (OFFSET, "every 2 min, offset by 30 s"),
        (WORLDS, "draw_worlds"),
        (RESCALED, "exclusive  sensor"),
        (RESCALED, "rescale    True"),
    ],
)
def test_explain_says_what_the_function_is_given(tables, frames, text, words):
    assert words in explain(tables, text)


@pytest.mark.parametrize(
    ("text", "word"),
    [(EMPTY.format(" ARRIVAL ts SLACK 3"), "early"), (CORRECTED, "unique")],
)
def test_explain_does_not_name_what_is_not_given(tables, frames, text, word):
    assert word not in explain(tables, text)
