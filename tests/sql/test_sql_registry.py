"""A function from frames to a frame is allowed in FROM, with the arguments of its signature."""

import pytest
from pyspark.sql import functions as F  # noqa: N812

from sfumato.api.calls import public_functions
from sfumato.language import SqlError, explain, sql
from sfumato.language.planner import parse_script
from sfumato.language.table_functions import function_of, tables_read
from sql_readings import readings


def above(df, least, *, of="arrival"):
    if least < 0:
        raise ValueError(f"`least` must be at least 0; got {least}")
    return df.where(F.col(of) > least)


def test_every_public_function_from_frames_to_a_frame_is_one():
    known = []
    for name in public_functions():
        (relation,) = parse_script(f"SELECT * FROM {name}(s)").statements[0].body.relations
        of_api = public_functions()[name].__module__.startswith("sfumato.api.")
        if of_api and function_of(relation.head) is not None:
            known.append(name)
    assert " ".join(sorted(known)) == (
        "asof_join assume_independent checked declared draw_worlds earlier_values extent_join "
        "fuse impute join_streams merge_worlds neighbours newest_revisions prune rejected reorder "
        "resample self_join similarity_join top_k union where window_aggregate"
    )


@pytest.mark.parametrize(
    ("text", "tables"),
    [
        ("SELECT * FROM reorder(s, event_time => ts, arrival => at)", ["s"]),
        ("SELECT * FROM where(df => where(s, 'x > 1'), condition => 'x > 3')", ["s"]),
        ("SELECT * FROM similarity_join(a, (SELECT * FROM b), on => x)", ["a", "b"]),
        ("SELECT * FROM impute(a, repository => db.r, attributes => x)", ["a", "db.r"]),
        ("SELECT * FROM explode(a)", []),
        ("WITH a AS (SELECT 1) SELECT * FROM where(a, 'x > 3')", []),
    ],
)
def test_the_tables_among_the_arguments_are_read(text, tables):
    (statement,) = parse_script(text).statements
    assert [str(name) for name in tables_read(statement.body)] == tables


@pytest.fixture(scope="module")
def tables(spark):
    df = spark.range(5).selectExpr("id", "id AS arrival", "timestamp_seconds(id) AS ts", "id AS v")
    df.createOrReplaceTempView("s")
    readings(spark).createOrReplaceTempView("r")
    yield spark
    spark.catalog.dropTempView("s")
    spark.catalog.dropTempView("r")


def ids(df):
    return sorted(row.id for row in df.collect())


@pytest.mark.spark
def test_a_function_is_passed_like_a_table(tables):
    assert ids(sql(tables, "SELECT id FROM above(s, 2)", above=above)) == [3, 4]
    text = "SELECT t.id FROM above((SELECT * FROM s WHERE id < 4), of => id, least => 1) AS t"
    assert ids(sql(tables, text, above=above)) == [2, 3]
    nested = "SELECT a.id FROM above(above(s, 1), 2) a JOIN s ON a.id = s.id WHERE s.v < 4"
    assert ids(sql(tables, nested, above=above)) == [3]
    common = "WITH t AS (SELECT id, arrival FROM s WHERE id > 0) SELECT id FROM above(t, 2)"
    assert ids(sql(tables, common, above=above)) == [3, 4]


@pytest.mark.spark
def test_explain_shows_the_call(tables):
    plan = explain(tables, "SELECT id FROM above(s, least => 2, of => v)", above=above)
    lines = plan.splitlines()
    assert lines[2].strip() == "above"
    assert lines[3].split() == ["least", "2"]
    assert lines[5].strip().startswith("static table s (")


@pytest.mark.spark
@pytest.mark.parametrize(
    ("call", "word", "reason", "suggestion"),
    [
        ("above(s, -1)", "-1", "`least` must be at least 0; got -1", None),
        ("above(s, 1, of => idd)", "idd", "there is no column idd", "id"),
        ("above(s, 1, off => id)", "off", "above has no argument off", "of"),
        ("above(s, 1, least => 2)", "least => 2", "least is given twice", None),
        ("above(s, 1, 2)", "2", "this argument of above must be given by name", None),
        ("above(s, least => 1, 2)", "2", "without a name must come before named ones", None),
        ("above(s)", "above", "above needs the argument least", None),
        ("above(ss, 1)", "ss", "there is no stream, table or view ss", "s"),
        ("above('s', 1)", "'s'", "a table is expected here", None),
        ("above(abov(s, 1), 1)", "abov", "there is no table function abov", "above"),
        ("above(s, 1 + 1)", "1 + 1", "1 + 1 is not a valid argument", None),
        ("above(s, ary(1))", "ary", "ary is not a valid argument", "array"),
        ("above(s, 1, of => )", "of =>", "an argument of above is empty", None),
        ("reorder(s, event_time => tts, arrival => arrival, slack => 1)", "tts", "tts", None),
        (
            "window_aggregate(s, map('m', 'avg(v)'), window => rows(0), order => id)",
            "0",
            "rows",
            None,
        ),
        ("split_late(s)", "split_late", "returns two tables; write SELECT ... FROM reorder", None),
        ("reordr(s)", "reordr", "there is no function reordr", "reorder"),
        ("below(s, v, 1, 4, unit => 1)", "unit", "below has no argument unit", None),
        ("samples(s, v, 1, 0)", "0", "`n` must be an integer of at least 1", None),
        ("samples(samples(s, v, 1, 2), v, 1, 2)", "samples", "has a column `alternatives`", None),
    ],
)
def test_what_is_wrong_is_reported_at_its_place(tables, call, word, reason, suggestion):
    with pytest.raises(SqlError) as caught:
        sql(tables, f"SELECT id FROM {call}", above=above)
    found = caught.value
    assert (found.word, found.suggestion) == (word, suggestion)
    assert reason in found.reason


@pytest.mark.spark
@pytest.mark.parametrize(
    "call",
    [
        "impute(s, repository => '/etc', dependencies => 'id -> v : 1 -> 1', attributes => v)",
        "self_join(r, on => x, within => 1, probability => 0.5, window => rows(5), order => ts, "
        "impute => map('repository', '/etc', 'dependencies', 'arrival -> x : 1 -> 1'))",
        "self_join(r, on => x, within => 1, probability => 0.5, window => rows(5), order => ts, "
        "impute => imputation('/etc', 'arrival -> x : 1 -> 1'))",
        "where(csv.`/etc`, 'x > 3')",
        "where(r, 'reflect(x) > 3')",
        "where((SELECT reflect('java.lang.System', 'exit') FROM s), 'x > 3')",
        "above(s, reflect('java.lang.System', 'exit'))",
    ],
)
def test_no_argument_reads_a_file_or_runs_code(tables, call):
    with pytest.raises(SqlError):
        sql(tables, f"SELECT * FROM {call}", above=above)
