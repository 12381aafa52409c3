"""IMPUTE ... FROM ... BY: the fused join in a similarity join, elsewhere sf.impute."""

import warnings

import numpy as np
import pytest

import sfumato as sf
from sfumato.language import explain, sql
from sfumato.language.planner import parse_script
from sfumato.language.refusals import has_constructs
from sfumato.language.syntax import SqlError
from sql_readings import differing, error

pytestmark = pytest.mark.spark

BY = "'humidity -> temperature : 0.1 -> 0.3', 'humidity -> light : 0.1 -> 0.3'"
IMPUTE = f"IMPUTE (temperature, light) FROM repository BY {BY}"
SCHEMA = "arrival long, room string, humidity double, temperature double, light double"


def readings(n, seed, gaps):
    rng = np.random.default_rng(seed)
    humidity = rng.random(n)
    values = np.round(
        np.column_stack([humidity, 2 * humidity, 1 - humidity]) + rng.normal(0, 0.05, (n, 3)), 2
    )
    lost = rng.random((n, 3)) < (0.3 if gaps else 0.0)
    return [
        (i, "ab"[i % 2], *(None if out else float(x) for x, out in zip(row, none, strict=True)))
        for i, (row, none) in enumerate(zip(values, lost, strict=True))
    ]


@pytest.fixture(scope="module")
def tables(spark):
    frames = {
        "s": spark.createDataFrame(readings(60, 1, True), SCHEMA),
        "u": spark.createDataFrame(readings(60, 2, True), SCHEMA),
        "repository": spark.createDataFrame(readings(50, 3, False), SCHEMA),
    }
    for name, df in frames.items():
        df.createOrReplaceTempView(name)
    yield frames
    for name in frames:
        spark.catalog.dropTempView(name)


def imputed(tables, name, by=BY, **how):
    return sf.impute(
        tables[name],
        repository=tables["repository"],
        dependencies=[text.strip().strip("'") for text in by.split("',")],
        attributes=["temperature", "light"],
        **how,
    )


OPTIONS = (
    "[JOINT MAX_ALTERNATIVES 4 FALLBACK reject SCALING humidity -0.5 2 SCALING light 0 1 "
    "METHOD plain LEAST_DONORS 2]"
)
NEARER = BY.replace("0.1 ->", "0.02 ->")
KNOWN = "(SELECT * FROM {} [EARLIER light KEY room])"
OWN = ["earlier_light, age_light -> light : 0.1, 0.2 -> 0.3", "humidity -> light : 0.1 -> 0.3"]
BY_OWN = f"IMPUTE (light) FROM past BY {', '.join(map(repr, OWN))}"


def joined_by_earlier_values(tables):
    one, other = (
        sf.earlier_values(tables[name], "light", order="arrival", key="room") for name in "su"
    )
    pairs = sf.similarity_join(
        one, other, on="light", within=0.05, probability=0.3, order="arrival", window=sf.Rows(20),
        impute={"repository": other, "dependencies": OWN, "attributes": "light"},
    )  # fmt: skip
    return pairs.selectExpr("left.arrival AS x", "right.arrival AS y", "probability")


EQUAL = {
    f"SELECT * FROM s {IMPUTE}": lambda t: imputed(t, "s"),
    f"SELECT * FROM s {IMPUTE} [KEY room LEAST_ROWS 5]":
        lambda t: imputed(t, "s", key="room", least_rows=5),
    f"SELECT q.arrival, EXPECTED(light) AS mean FROM s AS q {IMPUTE} WHERE temperature > 1.0":
        lambda t: sf.where(imputed(t, "s"), "temperature > 1.0").select(
            "arrival", sf.expected("light").alias("mean")
        ),
    f"SELECT * FROM s {IMPUTE.replace(BY, NEARER)} {OPTIONS}": lambda t: imputed(
        t, "s", NEARER, joint=True, max_alternatives=4, fallback="reject",
        scaling={"humidity": (-0.5, 2.0), "light": (0.0, 1.0)}, method="plain", least_donors=2,
    ),
    f"SELECT arrival, AVG(light) AS m FROM s [ROWS 5] {IMPUTE} GROUP BY room":
        lambda t: sf.window_aggregate(
            imputed(t, "s"), {"m": "avg(light)"}, window=sf.Rows(5), order="arrival", key="room"
        ).select("arrival", "m"),
    f"WITH past AS {KNOWN.format('u')} SELECT x.arrival AS x, y.arrival AS y, probability "
    f"FROM {KNOWN.format('s')} x [ROWS 20] {BY_OWN} SIMILARITY JOIN {KNOWN.format('u')} y "
    "ON (light) WITHIN 0.05 PROBABILITY 0.3": joined_by_earlier_values,
}  # fmt: skip


def test_queries_give_the_rows_of_the_functions(spark, tables):
    assert differing(spark, {text: build(tables) for text, build in EQUAL.items()}) == []


def test_a_join_has_no_repository_per_key(spark, tables):
    clause = f"{IMPUTE} [KEY room] SIMILARITY JOIN u b {IMPUTE} [KEY room] ON (temperature, light)"
    with pytest.raises(SqlError, match=r"of a join must not have a `?key"):
        sql(spark, f"SELECT * FROM s a [ROWS 10] {clause} WITHIN 0.2 PROBABILITY 0.4")


def test_explain_shows_the_options_in_brackets(spark, tables):
    plan = explain(spark, f"SELECT * FROM s {IMPUTE.replace(BY, NEARER)} {OPTIONS}")
    for part in (
        "fallback          reject",
        "joint             True",
        "max_alternatives  4",
        "humidity: -0.5, 2",
        "least_donors      2",
        "impute temperature, light",
        "humidity -> light : 0.02 -> 0.3",
        "static table s",
    ):
        assert part in plan


@pytest.fixture(scope="module")
def in_two_steps(tables):
    """Return {(left, right): probability} after imputing both tables, then joining them."""
    joined = sf.similarity_join(
        imputed(tables, "s"), imputed(tables, "u"), on=["temperature", "light"], within=0.2,
        probability=0.4, window=sf.Rows(10), order="arrival", key="room",
    )  # fmt: skip
    return {(r.left.arrival, r.right.arrival): r.probability for r in joined.collect()}


@pytest.mark.parametrize("sides", [(IMPUTE, ""), ("", IMPUTE), (IMPUTE, IMPUTE)])
def test_beside_a_similarity_join_the_join_is_the_fused_one(spark, tables, in_two_steps, sides):
    text = (
        f"SELECT a.arrival AS one, b.arrival AS other, probability FROM s a [ROWS 10] {sides[0]} "
        f"SIMILARITY JOIN u b {sides[1]} ON (temperature, light) WITHIN 0.2 PROBABILITY 0.4 "
        "AND a.room = b.room"
    )
    plan = explain(spark, text)
    assert "imputed during the join" in plan
    assert "repository, read when" in plan
    got = {(r["one"], r["other"]): r["probability"] for r in sql(spark, text).collect()}
    assert got == pytest.approx(in_two_steps, abs=1e-12)
    assert len(got) > 20


def test_a_common_table_can_be_the_repository_and_several_tables_follow(spark, tables):
    text = (
        f"WITH r AS (SELECT * FROM repository) SELECT COUNT(*) AS n FROM s "
        f"{IMPUTE.replace('repository', 'r')}, u WHERE s.arrival = u.arrival"
    )
    assert sql(spark, text).first()["n"] == 60


@pytest.mark.parametrize(
    "text",
    [
        "SELECT DISTINCT impute(x) FROM s",
        "SELECT CASE WHEN impute (x) THEN 1 END FROM s WHERE a AND impute(x) > 1",
        "SELECT x FROM s LATERAL VIEW impute(x) t AS y",
        "SELECT * FROM impute(3), b",
        "SELECT impute, by FROM s impute GROUP BY by",
    ],
)
def test_a_function_or_table_called_impute_stays_sparks(text):
    assert not has_constructs(parse_script(text).statements[0].body)


WRONG = [
    (IMPUTE.replace("light)", "ligth)"), "ligth", "no column"),
    (IMPUTE.replace("repository", "repositry"), "repositry", "no stream, table or view"),
    (IMPUTE.replace("0.1 -> 0.3'", "0.1 > 0.3'", 1), ">", "after an epsilon"),
    (
        "IMPUTE (light) FROM repository BY 'humidity -> temperature : 0.1 -> 1'",
        None,
        "must infer only",
    ),
    ("IMPUTE (light) FROM repository BY 'damp -> light : 0.1 -> 1'", None, "`damp` that is not in"),
    (
        "IMPUTE (room) FROM repository BY 'light -> room : 0.1 -> 1' [METHOD plain]",
        "METHOD plain",
        "`room`, which is text",
    ),
    ("IMPUTE () FROM repository BY 'light -> room : 0.1 -> 1'", ")", "not expected"),
    (f"{IMPUTE} [FALLBACK mean]", "mean", "mean is not a known value of FALLBACK"),
    (f"{IMPUTE} [METHOD best]", "best", "best is not a known value of METHOD"),
    (f"{IMPUTE} [MAX_ALTERNATIVES 2.5]", "2.5", "integer"),
    (f"{IMPUTE} [JOINT JOINT]", "JOINT", "given twice"),
    (f"{IMPUTE} [JOINED]", "JOINED", "options of IMPUTE"),
    (f"{IMPUTE} [SCALING light 0 0]", "SCALING light 0 0", "span above 0"),
    ("IMPUTE (light) BY 'humidity -> light : 0.1 -> 1'", "IMPUTE", "IMPUTE must be written"),
]


@pytest.mark.parametrize(("clause", "word", "reason"), WRONG)
def test_what_is_wrong_in_it_is_pointed_at(spark, tables, clause, word, reason):
    found = error(spark, f"SELECT * FROM s {clause}")
    assert (found.word, reason in str(found)) == (word or clause, True)


def test_a_gap_is_not_a_missing_value_of_the_attribute(spark, tables):
    found = error(spark, f"SELECT room FROM s {IMPUTE} WHERE light IS NULL")
    assert (found.word, "write imputed_by IS NOT NULL" in found.reason) == ("light", True)
    gaps = sql(spark, f"SELECT room FROM s {IMPUTE} WHERE imputed_by IS NOT NULL")
    known = sql(spark, "SELECT room FROM s WHERE light IS NULL OR temperature IS NULL")
    assert 0 < gaps.count() == known.count()


def test_two_imputations_of_one_join_must_agree(spark, tables):
    for other in (IMPUTE.replace("0.3'", "0.4'", 1), f"{IMPUTE} [JOINT]"):
        with pytest.raises(SqlError, match="must have the same"):
            sql(
                spark,
                f"SELECT * FROM s a [ROWS 10] {IMPUTE} SIMILARITY JOIN u b {other} "
                "ON (temperature, light) WITHIN 0.2 PROBABILITY 0.4",
            )


def test_earlier_values_stand_before_an_imputation_of_the_same_table(tables):
    spark = tables["s"].sparkSession
    forgetful = "SELECT * FROM s [EARLIER light KEY room FORGET 1 day]"
    assert "forget_after  24 h" in explain(spark, forgetful)
    assert "earlier values of light" in explain(spark, forgetful)
    at_once = f"WITH past AS {KNOWN.format('u')} SELECT * FROM s [EARLIER light KEY room] {BY_OWN}"
    columns = [*sql(spark, forgetful).columns, "alternatives", "imputed_by"]
    assert sql(spark, at_once).columns == columns


@pytest.mark.parametrize(
    ("bracket", "word", "reason"),
    [
        ("EARLIER lihgt", "lihgt", "no column lihgt"),
        ("EARLIER room", "EARLIER room", "must name numeric columns"),
        ("EARLIER light ORDER room", "ORDER room", "ORDER must be a timestamp or a number"),
        ("EARLIER light FORGET 1 day", "1 day", "FORGET needs a KEY"),
    ],
)
def test_what_is_wrong_with_earlier_values_is_pointed_at(tables, bracket, word, reason):
    found = error(tables["s"].sparkSession, f"SELECT * FROM s [{bracket}]")
    assert found.word.startswith(word)
    assert reason in str(found)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM s IMPUTE (temperature) FROM unreadable "
        "BY 'humidity -> temperature : 1 -> 1'",
        "SELECT * FROM s [ROWS 5] IMPUTE (temperature) FROM unreadable BY "
        "'humidity -> temperature : 1 -> 1' SIMILARITY JOIN s r ON (temperature) "
        "WITHIN 1 PROBABILITY 0.5",
    ],
)
def test_a_plan_is_explained_without_reading_the_repository(spark, tables, text):
    columns = "CAST(raise_error('read') AS double)"
    frames = {
        "s": tables["s"],
        "unreadable": spark.range(3).selectExpr(
            f"{columns} AS humidity", f"{columns} AS temperature"
        ),
    }
    assert "impute" in explain(spark, text, **frames).lower()
    assert "impute" in sql(spark, f"EXPLAIN {text}", **frames).collect()[0].plan.lower()
    with pytest.raises(Exception, match="read"):
        sql(spark, text, **frames)


def test_a_plan_says_that_values_of_one_gap_are_treated_as_independent(tables):
    filled = imputed_in_order(tables)
    text = "SELECT AVG(light) FROM filled [RANGE 20 MICROSECONDS WATTR arrival]"
    with pytest.warns(UserWarning, match="combines several values of one gap"):
        plan = explain(tables["s"].sparkSession, text, filled=filled)
    assert "values imputed from the same last value are treated as independent" in plan
    assumed = sf.assume_independent(filled)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        explain(tables["s"].sparkSession, text, filled=assumed)
        coupled = imputed_in_order(tables, gap_values=5)
        shared = text.replace("arrival]", "arrival SHARED gap_light]")
        plan = explain(tables["s"].sparkSession, shared, filled=coupled)
        assert sql(tables["s"].sparkSession, shared, filled=coupled).count() > 0
    assert "independent" not in plan
    assert "rows with the same gap_light take the same alternative" in plan


def imputed_in_order(tables, **more):
    """Return the rows of `s` imputed by each attribute's last value."""
    names, repository = ["humidity", "light"], tables["repository"]
    return sf.impute(tables["s"], repository=repository, attributes=names, order="arrival", **more)
