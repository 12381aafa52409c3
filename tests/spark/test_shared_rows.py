"""Spark's frames record whether rows may share readings: an error, or the assumption in EXPLAIN."""

import warnings

import pytest

import sfumato as sf

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def readings(spark):
    columns = ("id", "timestamp_seconds(id) AS at", "id % 2 / 1D AS x", "0.5D AS existence")
    return spark.range(6).selectExpr(*columns)


def test_explain_shows_that_rows_are_assumed_to_be_independent(spark, readings):
    joined = (
        "(SELECT a.at AS at, alternatives FROM s [ROWS 5 ORDER at] a SIMILARITY JOIN s b "
        "ON (x) WITHIN 0.5 PROBABILITY 0.1)"
    )
    for query in (
        "SELECT COUNT(*) FROM {} [RANGE 10 s WATTR at]",
        "SELECT TOP 2 * FROM {} [RANGE 10 s WATTR at] RANK BY left_x FREQUENCY 5 s",
    ):
        with pytest.raises(sf.errors.SqlError, match="pairs of a join may share readings"):
            sf.explain(spark, query.format(joined), s=readings)
        plan = sf.explain(spark, query.format(f"assume_independent({joined})"), s=readings)
        said = (
            "rows are treated as independent by assume_independent, but pairs of a join may share"
        )
        assert said in plan
    alone = sf.explain(spark, "SELECT COUNT(*) FROM s [RANGE 10 s WATTR at]", s=readings)
    assert "independent" not in alone


def test_a_join_of_a_table_with_itself_warns(spark, readings):
    text = (
        "SELECT * FROM s [ROWS 5 ORDER at] a SIMILARITY JOIN s b ON (x) WITHIN 0.5 PROBABILITY 0.1"
    )
    with pytest.warns(UserWarning, match="both frames contain the same uncertain readings"):
        sf.sql(spark, text, s=readings)
    assumption = "readings of the two sides are treated as independent"
    certain = readings.drop("existence")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert assumption in sf.explain(spark, text, s=readings)
        assert assumption not in sf.explain(spark, text, s=certain)


def test_answers_of_worlds_are_refused_where_they_are_not_one_per_world(spark, readings):
    drawn = "draw_worlds(s, n => 40, source => 's', id => id)"
    with pytest.raises(sf.errors.SqlError, match="`key` must contain `world`"):
        sf.sql(spark, f"SELECT * FROM window_aggregate({drawn}, map('n', 'count(*)'), "
               "window => rows(2), order => at)", s=readings)  # fmt: skip
    with pytest.raises(Exception, match="a world has several answers with the same"):
        sf.merge_worlds(sf.draw_worlds(readings, 40, source="s", id="id"), key=["x"]).collect()


def test_a_join_warns_of_windows_over_the_same_rows(spark, readings):
    def sums(rows):
        found = sf.window_aggregate(
            rows, {"s": "sum(x)"}, window=sf.Range("2 s"), order="at", distribution=8
        )
        return found.withColumn("alternatives", sf.alternatives("s.distribution"))

    def join(one, other):
        return sf.extent_join(one, other, on="value", within=1.0, probability=0.01)

    readings.createOrReplaceTempView("readings_again")
    even, odd = readings.where("id % 2 = 0"), readings.where("id % 2 = 1")
    for other in (readings, spark.table("readings_again")):
        with pytest.warns(UserWarning, match="both frames contain the same uncertain readings"):
            join(sums(readings), sums(other))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        join(sums(even), sums(odd))
        join(sf.assume_independent(sums(readings)), sums(readings))


def test_a_new_column_keeps_the_refusal_of_pairs(spark, readings):
    near = {"on": "x", "within": 0.5, "window": sf.Rows(5), "order": "at"}
    pairs = sf.self_join(readings, probability=0.1, **near)
    for existence in ("round(probability, 6)", "probability * 1.0", "coalesce(probability, 0)"):
        given = pairs.selectExpr("left.at", f"{existence} AS existence")
        with pytest.raises(ValueError, match="pairs of a join may share readings"):
            sf.window_aggregate(given, {"n": "count(*)"}, window=sf.Range("10 s"), order="at")


def test_a_join_of_selected_answers_of_the_same_readings_warns(readings):
    def answers(aggregate):
        found = sf.window_aggregate(
            readings, {"m": aggregate}, window=sf.Range("2 s"), order="at", distribution=9
        )
        return found.selectExpr("window.end AS done", "m.distribution AS alternatives")

    near = {"on": "value", "within": 0.5, "window": sf.Rows(5), "order": "done"}
    with pytest.warns(UserWarning, match="both frames contain the same uncertain readings"):
        sf.similarity_join(answers("sum(x)"), answers("max(x)"), probability=0.1, **near)


def test_a_repeated_column_of_probabilities_is_refused(spark):
    rows = spark.range(2).selectExpr("30 * id AS t", "(1 + id) / 2D AS conf")
    left = spark.range(31, 34).selectExpr("id AS t")
    window = {"window": sf.Range("1 s"), "order": "t", "existence": "conf"}
    matched = sf.asof_join(left, rows, order="t").selectExpr("left.t", "right.conf")
    resampled = sf.resample(rows, every="10 us", order="t")
    for found, said in ((matched, "pairs of an as-of join"), (resampled, "points of a resampling")):
        with pytest.raises(ValueError, match=f"{said} may share readings"):
            sf.window_aggregate(found, {"n": "count(*)"}, **window)
    sf.window_aggregate(sf.assume_independent(matched), {"n": "count(*)"}, **window)


def test_a_join_warns_of_two_filters_of_the_same_alternatives(spark):
    rows = spark.range(4).selectExpr(
        "id AS t",
        "array(named_struct('prob', 0.5D, 'x', 1D), named_struct('prob', 0.5D, 'x', 2D)) "
        "AS alternatives",
    )
    near = {"on": "x", "within": 5, "probability": 0.01, "window": sf.Rows(5), "order": "t"}
    low, high = sf.where(rows, "x < 2"), sf.where(rows, "x >= 2")
    for one, other in ((low, high), (rows, high), (rows, sf.prune(rows, top=1))):
        with pytest.warns(UserWarning, match="both frames contain the same uncertain readings"):
            sf.similarity_join(one, other, **near)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sf.similarity_join(low.where("t < 2"), low.where("t >= 2"), **near)
        halves = rows.where("t < 2"), rows.where("t >= 2")
        sf.similarity_join(sf.where(halves[0], "x < 2"), sf.where(halves[1], "x >= 2"), **near)
