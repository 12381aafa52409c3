"""TOP queries in SQL: the queries printed in Chen et al. (2013), shared plans, and errors."""

from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import pairwise, product
from math import prod

import pytest

import sfumato as sf
from engine_cases import rows_of
from sfumato.language import SqlError, explain, sql
from sfumato.language.planner import parse_script
from sfumato.language.ranking_answers import parse_ranking
from sfumato.language.syntax import errors_in
from spark_tables import tables_of
from sql.plain_frame import plain_frame
from sql_readings import differing, error

START = datetime(2026, 1, 1, 9, tzinfo=UTC)
SPEEDS = [
    ("R1", 5, 80.0, 0.3, None),
    ("R2", 10, 65.0, 0.4, "GR1"),
    ("R3", 10, 45.0, 0.5, "GR1"),
    ("R4", 15, 30.0, 1.0, None),
    ("R5", 20, 50.0, 0.8, "GR2"),
    ("R6", 20, 25.0, 0.2, "GR2"),
]
# Section 1 of Chen et al. (2013): (k, FREQUENCY in minutes) of Q1 to Q6.
PRINTED = [(3, 2), (2, 2), (4, 3), (3, 5), (5, 5), (2, 7)]


def words(text):
    return parse_ranking(parse_script(text).statements[0].body.clauses)


def arguments(text, *columns):
    """Return the arguments of `sf.top_k` from the words after the score."""
    given = words(text).rank_options
    given.frame = plain_frame(*columns)
    return {name: value for name, value in given.arguments().items() if value is not None}


def test_the_words_of_a_ranking_are_read():
    text = (
        "SELECT TOP 3 id FROM s RANK BY a.speed * 2 ASC USING PT_K(50%) RULES s.rule "
        "FREQUENCY 1 hour 30 mins"
    )
    found = words(text)
    query = found.query
    assert (query.k, query.interval, query.probability) == (3, 5_400_000_000, 0.5)
    assert found.rest
    assert [str(item) for item in found.by] == ["a", ".", "speed", "*", "2"]
    wanted = {"plan": "dp", "ascending": True, "exclusive": "rule", "semantics": "pk_topk"}
    assert arguments(text, "rule") == wanted
    plain = words("SELECT top-4 FROM s FREQUENCY 3 mins")
    query = plain.query
    assert (query.k, query.interval, query.probability) == (4, 180_000_000, None)
    assert (plain.by, plain.rest) == ((), False)
    assert words("SELECT top - 3 FROM s") is None
    assert words("SELECT top FROM s") is None


def test_existence_streams_and_plan_are_options_of_rank_by():
    text = (
        "SELECT TOP 2 * FROM s RANK BY x EXISTENCE s.p STREAMS truck PLAN greedy DESC RULES r "
        "RESCALE PROCESSING TIME FREQUENCY 2 minutes"
    )
    columns = {"existence": "p", "group": "truck", "exclusive": "r"}
    how = {"plan": "greedy", "semantics": "pk_topk", "ascending": False, "rescale": True}
    how |= {"processing_time": True}
    assert arguments(text, "p", "truck", "r") == columns | how
    assert [str(item) for item in words(text).by] == ["x"]


@pytest.mark.parametrize(
    "score",
    [
        "existence", "x * existence", "s.existence", "plan", "x + plan * 2", "streams - 1",
        "CASE WHEN x > 1 THEN existence ELSE plan END", "NOT existence", "existence DESC",
        "x BETWEEN plan AND streams", "EXISTENCE(x)", "x * EXISTENCE(x)", "plan AND x",
        "x IN (plan, streams)", "processing_time", "x + processing * time",
    ],
)  # fmt: skip
def test_columns_called_like_options_stay_columns(score):
    found = words(f"SELECT TOP 2 * FROM s RANK BY {score}")
    assert [option.word for option in found.rank_options.options] == ["DESC"] * score.endswith(
        "DESC"
    )
    plain = parse_script(f"SELECT {score} FROM s").statements[0].body.clauses[0].items
    assert len(found.by) == len(plain) - score.endswith("DESC")


@pytest.mark.parametrize(
    ("using", "expected"),
    [
        ("prf(0.9)", {"semantics": "prfe", "alpha": 0.9}),
        ("PRFE(90%)", {"semantics": "prfe", "alpha": 0.9}),
        ("PRF(3, 2, -1)", {"semantics": "prf", "weights": [3, 2, -1]}),
        ("GLOBAL_TOPK", {"semantics": "global_topk"}),
        ("u_kranks", {"semantics": "u_kranks"}),
        ("EXPECTED_RANK", {"semantics": "expected_rank"}),
    ],
)
def test_semantics_are_named_as_the_literature_names_them(using, expected):
    found = arguments(f"SELECT TOP 3 * FROM s RANK BY x USING {using}")
    assert found == {"plan": "dp", **expected}


@pytest.mark.parametrize(
    ("text", "word", "reason", "suggestion"),
    [
        ("SELECT TOP 0 * FROM s", "0", "at least 1", None),
        ("SELECT TOP 2.5 * FROM s", "2.5", "an integer k", None),
        ("SELECT TOP * FROM s RANK BY x", "TOP", "needs a number", None),
        ("SELECT TOP 3, x FROM s", ",", "column is missing", None),
        ("SELECT TOP 3 * FROM s RANK BY", "RANK BY", "needs a score", None),
        ("SELECT TOP 3 * FROM s RANK BY USING U_TOPK", "RANK BY", "needs a score", None),
        ("SELECT TOP 3 * FROM s RANK BY x, y", ",", "one score", None),
        ("SELECT TOP 3 * FROM s RANK BY x DSC", "DSC", "not expected", "DESC"),
        ("SELECT TOP 3 * FROM s RANK BY x DESC USNG U_TOPK", "USNG", "not expected", "USING"),
        ("SELECT TOP 3 * FROM s RANK BY x USING U_TPK", "U_TPK", "not a known value", "U_TOPK"),
        ("SELECT TOP 3 * FROM s RANK BY x USING", "", "ends too early", None),
        ("SELECT TOP 3 * FROM s RANK BY x USING PT_K", "USING PT_K", "(0, 1]", None),
        ("SELECT TOP 3 * FROM s RANK BY x USING PT_K(2)", "2", "(0, 1]", None),
        ("SELECT TOP 3 * FROM s RANK BY x USING PT_K('a')", "'a'", "not expected", None),
        ("SELECT TOP 3 * FROM s RANK BY x USING U_TOPK(1)", "1", "allowed only with", None),
        ("SELECT TOP 3 * FROM s RANK BY x USING PRFE(1, 2)", "USING PRFE(1, 2)", "(0, 1]", None),
        ("SELECT TOP 3 * FROM s RANK BY x USING U_TOPK USING U_TOPK", "USING U_TOPK", "twice",
         None),
        ("SELECT TOP 3 * FROM s RANK BY x RULES", "RULES", "needs a column", None),
        ("SELECT TOP 3 * FROM s RANK BY x EXISTENCE", "EXISTENCE", "needs a column", None),
        ("SELECT TOP 3 * FROM s RANK BY x DESC ASC", "DESC", "cannot be combined", None),
        ("SELECT TOP 3 * FROM s RANK BY x PLAN dp PLAN dp", "PLAN dp", "given twice", None),
        ("SELECT TOP 3 * FROM s RANK BY EXISTENCE p", "RANK BY", "needs a score", None),
        ("SELECT TOP 3 * FROM s RANK BY x EXISTNCE p", "EXISTNCE", "not expected", "EXISTENCE"),
        ("SELECT TOP 3 * FROM s RANK BY x FREQUENCY 2", "2", "unit of time", None),
        ("SELECT TOP 3 * FROM s RANK BY x FREQUENCY 2 mintes", "mintes", "not a unit", "minutes"),
        ("SELECT TOP 3 * FROM s RANK BY x FREQUENCY -2 s", "-2 s", "must be positive", None),
        ("SELECT TOP 3 * FROM s RANK BY x FREQUENCY 2 s s", "s", "not expected", None),
        ("SELECT TOP 3 * FROM s FREQUENCY 2 s RANK BY x FREQUENCY 3 s", "FREQUENCY", "twice", None),
    ],
)  # fmt: skip
def test_a_ranking_that_cannot_be_says_where_and_why(text, word, reason, suggestion):
    with pytest.raises(SqlError) as caught, errors_in(text):
        arguments(text)
    assert (caught.value.word, caught.value.suggestion) == (word, suggestion)
    assert reason in caught.value.reason


@pytest.fixture(scope="module")
def tables(spark):
    """Create SENSOR(id, event_time, score, ...) with declared event time and score, and `u`."""
    rows = [(i, START + timedelta(minutes=m), s, p, g, "A") for i, m, s, p, g in SPEEDS]
    rows.append(("far", START + timedelta(minutes=12), 99.0, 1.0, None, "B"))
    sensor = spark.createDataFrame(
        rows, "id string, event_time timestamp, score double, existence double, rule string, "
        "location string",
    )  # fmt: skip
    uncertain = spark.createDataFrame(
        [
            (i, "ab"[i % 2], START + timedelta(seconds=i), [(0.5, float(i)), (0.25, 20.0 - i)])
            for i in range(12)
        ],
        "id int, sensor string, ts timestamp, alternatives array<struct<prob: double, x: double>>",
    )
    views = {
        "SENSOR": sensor,
        "readings": sensor.selectExpr("id", "event_time AS at", "score AS speed", "existence",
                                      "rule", "location"),
        "u": uncertain,
    }  # fmt: skip
    for name, df in views.items():
        df.createOrReplaceTempView(name)
    spark.sql("DECLARE OR REPLACE VARIABLE X STRING DEFAULT 'A'")
    yield spark
    for name in views:
        spark.catalog.dropTempView(name)
    spark.sql("DROP TEMPORARY VARIABLE X")


def printed(k, minutes):
    return (
        f"SELECT top-{k} FROM SENSOR [Range 20 mins]\n"
        f"WHERE SENSOR.location=X FREQUENCY {minutes} mins"
    )


@pytest.mark.spark
def test_q1_to_q6_of_d_run_as_printed_and_are_planned_together(tables):
    script = ";\n".join(printed(k, minutes) for k, minutes in PRINTED)
    frames = sql(tables, script)
    assert frames[0].columns == [
        "query", "k", "time", "rank", "top_score", "probability", "answered", "id", "event_time",
        "score", "existence", "rule", "location",
    ]  # fmt: skip
    both = frames[0].union(frames[5]).collect()
    for name, (k, minutes) in {
        "top_3 every 2 min": PRINTED[0],
        "top_2 every 7 min": PRINTED[5],
    }.items():
        rows = [row for row in both if row["query"] == name]
        assert {row["k"] for row in rows} == {k}
        assert {row["location"] for row in rows} == {"A"}
        times = sorted({row["time"] for row in rows})
        gaps = [later - time for time, later in pairwise(times)]
        assert max(gaps) <= timedelta(minutes=minutes)
    text = explain(tables, script)
    assert text.count("top-k answers of") == 6
    assert "top_3 every 2 min (k = 3, every 2 min)" in text
    assert "at 2 min" in text
    assert "a cycle of 4 min" in text
    assert "cost       135 (sum of k) per hour" in text  # 9/4 per minute: Chen et al., section 7
    alone = 60 * (3 / 2 + 2 / 2 + 4 / 3 + 3 / 5 + 5 / 5 + 2 / 7)
    assert f"{alone:.6g} without sharing (NS)" in text


def by_worlds(rows, k):
    """Return Pr_k of each of (id, speed, probability), by worlds in which it is in the top k."""
    found = dict.fromkeys((row[0] for row in rows), Fraction(0))
    for kept in product((False, True), repeat=len(rows)):
        chance = prod(
            Fraction(r[2]) if k else 1 - Fraction(r[2]) for r, k in zip(rows, kept, strict=True)
        )
        there = [row for row, is_there in zip(rows, kept, strict=True) if is_there]
        for row in sorted(there, key=lambda row: -row[1])[:k]:
            found[row[0]] += chance
    return found


@pytest.mark.spark
def test_the_printed_queries_answer_over_table_1_with_its_column_prob(tables):
    """Table 1 of Chen et al. names the probability `Prob`; without a rule, rows are independent."""
    df = tables.table("SENSOR").withColumnRenamed("existence", "Prob")
    script = ";\n".join(printed(k, minutes) for k, minutes in PRINTED)
    found = tables_of(dict(zip(PRINTED, sql(tables, script, SENSOR=df), strict=True)))
    for (k, minutes), table in found.items():
        answers = {}
        for row in table.to_pylist():
            answers.setdefault(row["time"], []).append((row["id"], row["probability"]))
        for time, given in answers.items():
            passed = (time - START).total_seconds() / 60
            held = [(i, s, p) for i, m, s, p, _ in SPEEDS if passed - 20 <= m < passed]
            expected = by_worlds(held, k)
            assert dict(given) == pytest.approx({i: float(expected[i]) for i, _ in given})
            best = sorted(map(float, expected.values()), reverse=True)[:k]
            assert [probability for _, probability in given] == pytest.approx(best)
        times = sorted(answers)
        gaps = [later - time for time, later in pairwise(times)]
        assert max(gaps) <= timedelta(minutes=minutes)
    assert "with the probability in column Prob" in explain(tables, printed(3, 2), SENSOR=df)


@pytest.mark.spark
def test_table_3_from_sql_with_rules_and_its_own_columns(tables):
    out = sql(
        tables,
        "SELECT TOP 2 id, r.speed AS v, rank, probability AS p, time FROM readings AS r "
        "[RANGE 20 MINUTES WATTR at] WHERE location = 'A' AND r.speed > 0 "
        "RANK BY r.speed DESC USING PK_TOPK RULES rule FREQUENCY 2 MINUTES ORDER BY time, rank",
    )
    assert out.columns == ["id", "v", "rank", "p", "time"]
    rows = out.collect()
    assert [(r["id"], r["v"], r["rank"]) for r in rows[-2:]] == [("R5", 50.0, 1), ("R2", 65.0, 2)]
    assert [r["p"] for r in rows[-2:]] == pytest.approx([0.704, 0.4])


@pytest.mark.spark
def test_a_key_or_group_may_be_named_stream(tables):
    rows = [(i, "ab"[i % 2], "uv"[i // 2], float(i), 0.5) for i in range(4)]
    df = tables.createDataFrame(rows, "id int, stream string, g string, score double, prob double")
    df = df.selectExpr("*", "timestamp_seconds(id) AS ts")
    df.createOrReplaceTempView("streams")
    cases = {}
    for key, group in (("stream", None), ("stream", "g"), ("g", "stream")):
        columns = f"{key}, {group or 'id'}, rank, probability"
        text = f"SELECT TOP 1 {columns} FROM streams [RANGE 9 s WATTR ts] GROUP BY {key} "
        text += "RANK BY score" + ("" if group is None else f" STREAMS {group}")
        expected = sf.top_k(
            df, 1, by="score", window=sf.Range("9 s"), order="ts", key=key, group=group,
            existence="prob",
        )  # fmt: skip
        cases[text] = expected.selectExpr(key, group or "row.id", "rank", "probability")
    assert differing(tables, cases) == []


@pytest.mark.spark
def test_pk_topk_and_pt_k_over_one_ranking_are_planned_together(tables):
    base = "SELECT TOP 2 * FROM readings [RANGE 20 minutes WATTR at] "
    text = base + "RANK BY speed {} FREQUENCY 2 minutes"
    using = {"": None, "USING PT_K(40%)": 0.4, "USING PT_K(0.7)": 0.7, "USING PK_TOPK": None}
    using["USING PT_K(0.40000001)"] = 0.40000001
    statements = "; ".join(text.format(words) for words in using)
    plan = explain(tables, statements)
    assert "top_2 from 0.4 " in plan
    assert "with probability 70% or more" in plan
    frames = {words: sql(tables, text.format(words)) for words in using}
    found = tables_of(frames)
    window = {"window": sf.Range("20 minutes"), "order": "at", "by": "speed"}
    for words, probability in using.items():
        how = {} if probability is None else {"semantics": "pt_k", "probability": probability}
        query = sf.Top(2, every="2 minutes")
        expected = sf.top_k(tables.table("readings"), query, **window, **how)
        probabilities = [row.probability for row in expected.orderBy("time", "rank").collect()]
        got = found[words].sort_by([("time", "ascending"), ("rank", "ascending")])
        assert got.column("probability").to_pylist() == pytest.approx(probabilities), words


@pytest.mark.spark
def test_rows_windows_hold_the_newest_existing_tuples(tables):
    rows = sql(
        tables,
        "SELECT TOP 1 id, time, probability FROM readings [ROWS 1 CONFIDENCE 82% ORDER at] "
        "RANK BY speed FREQUENCY 1 hour",
    ).collect()
    assert [(row["id"], row["probability"]) for row in rows] == [("R5", 0.8)]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("text", "word", "reason"),
    [
        ("SELECT TOP 2 * FROM readings RANK BY speed", "readings", "needs a window"),
        ("SELECT TOP 2 * FROM nowhere [RANGE 1 s WATTR at] RANK BY x", "nowhere", "no stream"),
        ("SELECT TOP 2 * FROM readings [RANGE 1 s WATTR at]", "TOP", "needs RANK BY"),
        ("SELECT TOP 2 * FROM readings [RANGE 1 s] RANK BY speed", "[RANGE 1 s]", "event_time"),
        ("SELECT TOP 2 * FROM readings [RANGE 1 s SLIDE 1 s WATTR at] RANK BY speed "
         "FREQUENCY 1 s", "SLIDE 1 s", "keep one"),
        ("SELECT TOP 2 * FROM readings [ROWS 2 ORDER at] RANK BY speed", "TOP", "FREQUENCY"),
        ("SELECT TOP 2 * FROM readings [RANGE 9 s WATTR at] RANK BY speed PROCESSING TIME",
         "PROCESSING TIME", "needs a RANGE with IDLE"),
        ("SELECT TOP 2 * FROM readings [DELTA 2 ON speed ORDER at] RANK BY speed",
         "[DELTA 2 ON speed ORDER at]", "RANGE or a ROWS"),
        ("SELECT TOP 2 * FROM readings [RANGE 1 s WATTR at] RANK BY speed RULES ruel",
         "ruel", "no column ruel"),
        ("SELECT TOP 2 * FROM readings [RANGE 1 s WATTR at] RANK BY sped", "sped", ""),
        ("SELECT TOP 2 * FROM readings [RANGE 1 s WATTR at] RANK BY speed PLAN greedily",
         "greedily", "greedily is not a known value of PLAN"),
        ("SELECT TOP 2 * FROM u [RANGE 1 s WATTR ts] RANK BY EXPECTED(x)", "EXPECTED", "its own"),
        ("SELECT TOP 2 * FROM readings [RANGE 1 s WATTR at], u RANK BY speed", "TOP", "one table"),
        ("SELECT TOP 2 id, x FROM u [RANGE 1 s WATTR ts] RANK BY x", "x", "x is uncertain"),
        ("SELECT TOP 2 * FROM readings [RANGE 1 s WATTR at] GROUP BY id HAVING id = 1 "
         "RANK BY speed", "HAVING", "not allowed"),
        ("SELECT TOP 2 max(id) FROM readings [RANGE 1 s WATTR at] RANK BY speed", "max", "outer"),
        ("SELECT TOP 2 * FROM readings [RANGE 1 s WATTR at] RANK BY speed FREQUENCY 2 s "
         "LIMIT nonsense(", "LIMIT", "not expected"),
    ],
)  # fmt: skip
def test_a_ranking_of_what_cannot_be_ranked_says_why(tables, text, word, reason):
    found = error(tables, text)
    assert (found.word, reason in found.reason) == (word, True), str(found)


@pytest.mark.spark
def test_existence_streams_and_plan_of_rank_by_are_those_of_top_k(tables):
    base = "FROM readings [RANGE 20 minutes WATTR at]"
    named = base.replace(
        "readings", "(SELECT * EXCEPT (existence), existence AS p, 1D AS existence FROM readings)"
    )
    ranked = "RANK BY speed {} FREQUENCY 2 minutes"
    texts = {"": base, "EXISTENCE p": named, "PLAN GREEDY": base, "PLAN none": base}
    by = ["time", "rank", "id", "probability"]
    frames = {
        option: sql(tables, f"SELECT TOP 2 * {text} " + ranked.format(option)).select(by)
        for option, text in texts.items()
    }
    streams = sql(tables, f"SELECT TOP 1 * {base} " + ranked.format("STREAMS location"))
    assert streams.columns[-2:] == ["answered", "location"]
    found = tables_of({**frames, "streams": streams})
    assert set(found.pop("streams").column("location").to_pylist()) == {"A", "B"}
    expected = rows_of(found[""])
    assert {option: rows_of(table) == expected for option, table in found.items()} == dict.fromkeys(
        texts, True
    )
    with pytest.raises(SqlError, match="no column q"):
        sql(tables, f"SELECT TOP 2 * {base} " + ranked.format("EXISTENCE q"))


@pytest.mark.spark
def test_explain_says_by_which_column_rows_exist(tables):
    text = (
        "SELECT TOP 2 id FROM {} [RANGE 20 minutes WATTR at] RANK BY speed {} FREQUENCY 2 minutes"
    )
    plain = "(SELECT id, at, speed, existence AS p FROM readings)"
    assert "every row certainly exists: the table has no column existence" in explain(
        tables, text.format(plain, "")
    )
    assert "with the probability in column p" in explain(tables, text.format(plain, "EXISTENCE p"))
    assert "with the probability in column existence" in explain(
        tables, text.format("readings", "")
    )
    counted = explain(tables, f"SELECT COUNT(*) FROM {plain} [RANGE 20 minutes WATTR at]")
    assert "every row certainly exists" in counted
    worlds = f"(SELECT * FROM draw_worlds({plain}, 100, source => 's', id => id))"
    every = "[RANGE 20 minutes WATTR at] GROUP BY world"
    drawn = explain(tables, f"SELECT world, COUNT(*) FROM {worlds} {every}")
    assert "as drawn in each of 100 worlds, column world" in drawn
    assert "off by at most 0.163 with probability 99%" in drawn
