"""What is wrong is said with the line, the column, the word and the likely word."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.sql import SqlError
from sfumato.sql.plan.options import join_plan, window_plan
from sfumato.sql.plan.refusals import refuse_later_work, refuse_near_misses
from sfumato.sql.text.errors import listed, near
from sfumato.sql.text.parse import parse
from sfumato.sql.text.scan import check_is_query, relations
from sfumato.sql.text.syntax import Clause, FromClause, SimilarityJoin


def understand(text):
    """All that is done with a script before any table is looked at."""
    for statement in parse(text).statements:
        body = statement.body
        check_is_query(body, text)
        clauses = tuple(c for c in body.clauses if isinstance(c, Clause))
        from_clause = next((c for c in body.clauses if isinstance(c, FromClause)), None)
        refuse_later_work(clauses, from_clause, text)
        for relation in relations(body):
            refuse_near_misses(relation, text)
            if relation.window is not None:
                window_plan(relation.window, text)
        for source in from_clause.sources if from_clause else ():
            if isinstance(source, SimilarityJoin):
                join_plan(source, text)


def error(text):
    with pytest.raises(SqlError) as caught:
        understand(text)
    return caught.value


def in_window(options):
    return error(f"SELECT * FROM s [{options}]")


def after_join(options, on="x"):
    return error(f"SELECT * FROM a [ROWS 5] SIMILARITY JOIN b ON ({on}) {options}")


def test_an_error_underlines_the_word_and_names_the_likely_one():
    found = error("SELECT *\n\tFROM s [ROWS 500 CONFIDNCE 95%]\nWHERE x")
    assert (found.line, found.column, found.word) == (2, 19, "CONFIDNCE")
    assert found.suggestion == "CONFIDENCE"
    assert found.text_line == "\tFROM s [ROWS 500 CONFIDNCE 95%]"
    assert str(found).splitlines() == [
        "line 2, column 19: CONFIDNCE is not expected in a window",
        "    \tFROM s [ROWS 500 CONFIDNCE 95%]",
        "    \t                 ^^^^^^^^^",
        "expected RANGE, SLIDE, ROWS, CONFIDENCE, MAX_TUPLES, ORDER, WATTR, ARRIVAL or one of "
        "11 more",
        "did you mean CONFIDENCE?",
    ]


def test_sf_sql_is_callable_and_sf_explain_a_function_whatever_was_imported_before():
    for first in (
        "sf.SqlError",
        "sf.sql",
        "import sfumato.sql.plan.planner, sfumato.sql.explain.describe",
    ):
        code = f"import sfumato as sf; {first}; assert callable(sf.sql) and callable(sf.explain)"
        subprocess.run([sys.executable, "-c", code], check=True)


def test_looking_for_a_mistake_needs_no_spark():
    code = (
        "import sys, sfumato.sql.text.parse, sfumato.sql.plan.nodes; "
        "assert 'pyspark' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_sql_error_is_a_value_error():
    assert issubclass(SqlError, ValueError)


# (options of the window, the word underlined, a part of the reason)
WINDOWS = [
    ("RANGE 1 s WATTR ts SLACK 10 DRATIO 1%", "DRATIO 1%", "DRATIO and SLACK exclude each other"),
    ("RANGE 1 s WATTR ts DRATIO 1% SLACK 10", "SLACK 10", "SLACK and DRATIO exclude each other"),
    ("RANGE 1 s WATTR ts MAX SLACK 10", "SLACK 10", "SLACK and MAX exclude each other"),
    ("RANGE 1 s ROWS 5 WATTR ts", "ROWS 5", "RANGE and ROWS exclude each other"),
    ("ROWS 5 RANGE 1 s", "RANGE 1 s", "RANGE and ROWS exclude each other"),
    ("ROWS 5 CONFIDENCE 0", "0", "above 0 and at most 1"),
    ("ROWS 5 CONFIDENCE 101%", "101%", "above 0 and at most 1"),
    ("ROWS 5 CONFIDENCE 95", "95", "above 0 and at most 1"),
    ("ROWS 5 CONFIDENCE -0.5", "-0.5", "above 0 and at most 1"),
    ("ROWS 0", "0", "1 or more"),
    ("ROWS 2.5", "2.5", "whole number"),
    ("ROWS 5 MAX_TUPLES 4", "4", "leave room for the 5 ROWS"),
    ("ROWS 5 ROWS 6", "ROWS 6", "given twice"),
    ("ROWS 5 SLACK 3", "SLACK 3", "no meaning in a ROWS window"),
    ("ROWS 5 WATTR ts", "WATTR ts", "reorder in a subquery first"),
    ("CONFIDENCE 95%", "CONFIDENCE 95%", "belongs to a ROWS window"),
    ("WATTR ts ORDER a", "ORDER a", "belongs to a ROWS window"),
    ("DELTA 5 ON temperature SLIDE 1 s", "SLIDE 1 s", "no meaning in a DELTA window"),
    ("DELTA -5 ON temperature", "-5", "0 or more"),
    ("DELTA 5 ON temperature THRESHOLD 0", "0", "above 0"),
    ("DELTA 5 ON temperature ROWS 4", "ROWS 4", "exclude each other"),
    ("EARLIER temperature ROWS 4", "ROWS 4", "EARLIER is no window: take it in a subquery first"),
    ("EARLIER temperature SLIDE 4 s", "SLIDE 4 s", "take EARLIER in a subquery first"),
    ("EARLIER temperature ORDER ts, id", "id", "EARLIER goes by one column"),
    ("ROWS 4 THRESHOLD 5%", "THRESHOLD 5%", "belongs to a DELTA window"),
    ("RANGE 300 SECONDS", "[RANGE 300 SECONDS]", "lacks its event time"),
    ("RANGE 0 s WATTR ts", "0 s", "longer than nothing"),
    ("RANGE -5 s WATTR ts", "-5 s", "longer than nothing"),
    ("RANGE 1 s SLIDE 0 s WATTR ts", "0 s", "longer than nothing"),
    ("WATTR ts MAX SLIDE 1 s", "SLIDE 1 s", "needs the RANGE"),
    ("RANGE 300 WATTR ts", "300", "lacks its unit of time"),
    ("RANGE 1 hour 30 WATTR ts", "1 hour 30", "lacks its unit of time"),
    ("WATTR ts DRATIO 0", "0", "at most 0.5"),
    ("WATTR ts DRATIO 60%", "60%", "at most 0.5"),
    ("WATTR ts SLACK -1", "-1", "0 or more"),
    ("WATTR ts SLACK 1 BSIZE 0", "0", "1 or more"),
    ("WATTR ts SLACK 1 IDLE 0 s", "0 s", "longer than nothing"),
    ("WATTR ts ESTIMATOR normal", "ESTIMATOR normal", "there is none"),
    ("WATTR ts DRATIO 1% ESTIMATOR max", "ESTIMATOR max", "keeps no drop ratio"),
]


@pytest.mark.parametrize(("options", "word", "reason"), WINDOWS)
def test_a_window_that_cannot_be_says_which_option_and_why(options, word, reason):
    found = in_window(options)
    assert found.word == word
    assert reason in found.reason
    assert (
        found.column == 17 + options.rindex(word) + 1 - (word[0] == "[") if word in options else 17
    )


@pytest.mark.parametrize(
    ("options", "word", "suggestion"),
    [
        ("ROWS 500 CONFIDNCE 95%", "CONFIDNCE", "CONFIDENCE"),
        ("RAGNE 300 SECONDS", "RAGNE", "RANGE"),
        ("RANGE 300 SECOND WATR ts", "WATR", "WATTR"),
        ("RANGE 300 secnds WATTR ts", "secnds", "seconds"),
        ("RANGE 300 SLIED 30 s WATTR ts", "SLIED", "SLIDE"),
        ("WATTR ts DRATIO 1% ESTIMATOR conformel", "ESTIMATOR conformel", "CONFORMAL"),
        ("WATTR ts DRTIO 1%", "DRTIO", "DRATIO"),
    ],
)
def test_misspelt_words_of_a_window_suggest_the_likely_one(options, word, suggestion):
    found = in_window(options)
    assert found.word == word or found.reason.startswith("the estimator")
    assert found.suggestion == suggestion


def test_an_unknown_unit_lists_the_units():
    found = in_window("RANGE 300 fortnights WATTR ts")
    assert (found.word, found.suggestion) == ("fortnights", None)
    assert "seconds" in found.expected
    assert "no unit of time" in found.reason


JOINS = [
    ("WITHIN 0 PROBABILITY 0.5", "0", "above 0"),
    ("WITHIN -1 PROBABILITY 0.5", "-1", "above 0"),
    ("WITHIN 5% PROBABILITY 0.5", "5%", "not a percentage"),
    ("WITHIN 1 PROBABILITY 0", "0", "at most 1"),
    ("WITHIN 1 PROBABILITY 1.5", "1.5", "at most 1"),
    ("WITHIN 1 PROBABILITY 0.5 USING hash", "hash", "unknown"),
    ("WITHIN 1 PROBABILITY 0.5 OUTPUT all", "all", "unknown"),
    ("WITHIN 1 PROBABILITY 0.5 WITHIN 2", "2", "given twice"),
]


@pytest.mark.parametrize(("options", "word", "reason"), JOINS)
def test_a_join_that_cannot_be_says_which_option_and_why(options, word, reason):
    found = after_join(options)
    assert (found.word, reason in found.reason) == (word, True)


def test_sort_with_several_attributes_names_index():
    found = after_join("WITHIN 1 PROBABILITY 0.5 USING SORT", on="x, y")
    assert found.word == "SORT"
    assert "take INDEX" in found.reason
    understand("SELECT * FROM a SIMILARITY JOIN b ON (x) WITHIN 1 PROBABILITY 1 USING SORT")


@pytest.mark.parametrize(
    ("options", "missing"), [("WITHIN 1", "PROBABILITY"), ("PROBABILITY 1", "WITHIN")]
)
def test_a_join_without_its_distance_or_probability_says_so(options, missing):
    found = after_join(options)
    assert f"lacks {missing}" in found.reason
    assert found.expected == (f"{missing} number",)


@pytest.mark.parametrize(
    ("options", "suggestion"),
    [
        ("WITHIN 1 PROBABILTY 0.5", "PROBABILITY"),
        ("WITHN 1 PROBABILITY 0.5", "WITHIN"),
        ("WITHIN 1 PROBABILITY 0.5 USING indx", "INDEX"),
        ("WITHIN 1 PROBABILITY 0.5 OUTPUT change", "CHANGES"),
    ],
)
def test_misspelt_words_of_a_join_suggest_the_likely_one(options, suggestion):
    assert after_join(options).suggestion == suggestion


@pytest.mark.parametrize(
    ("text", "word", "reason", "expected"),
    [
        ("SELECT * FROM s [ROWS 500", "[", "this [ is not closed", "]"),
        ("SELECT * FROM s [ROWS 500 WHERE x > 3", "WHERE", "its ] is missing", "CONFIDENCE"),
        ("SELECT * FROM s ROWS 500", "ROWS", "written in brackets", "[ROWS"),
        ("SELECT * FROM s ROWS 500]", "]", "this ] closes nothing", None),
        ("SELECT * FROM s [RANGE]", "]", "not expected", "a number"),
        ("SELECT * FROM s [WATTR 3]", "3", "not expected", "a name"),
        ("SELECT f(a, b FROM s", "(", "this ( is not closed", ")"),
        ("SELECT f(a]) FROM s", "(", "this ( is not closed", ")"),
        ("SELECT 'abc FROM s", "'", "never closed", None),
        ("SELECT `abc FROM s", "`", "never closed", None),
        ("SELECT * FROM a SIMILARITY JOIN b c WITHIN 1", "WITHIN", "not expected", "ON"),
        ("SELECT * FROM a SIMILARITY JOIN b WITHIN 1", "1", "not expected", "ON"),
        ("SELECT * FROM a SIMILARITY JOIN b ON (x) WITHIN", "", "ends too early", "a number"),
        ("SELECT * FROM a SIMILARTY JOIN b ON (x) WITHIN 1", "WITHIN", "none", "SIMILARITY JOIN"),
        ("SELECT * FROM a FREQUENCY 2 MINUTES", "FREQUENCY", "there is no TOP", "SELECT TOP k"),
        ("SELECT * FROM a RANK BY x DESC", "RANK BY", "there is no TOP", "SELECT TOP k"),
        ("SELECT TOP 3 * FROM a RANK BY x USING U_TPK", "U_TPK", "unknown", "U_TOPK"),
        ("SELECT TOP-3 * FROM a RANK BY x, y", ",", "one score", None),
        ("SELECT * FROM a IMPUTE (x) BY 'd'", "IMPUTE", "FROM repository BY", "IMPUTE ("),
        ("SELECT * FROM a s IMPUTE x FROM r BY 'd'", "IMPUTE", "FROM repository", "IMPUTE ("),
        (" ;; -- nothing", "", "no query here", "SELECT"),
    ],
)
def test_what_is_missing_or_misplaced_is_pointed_at(text, word, reason, expected):
    found = error(text)
    assert (found.word, reason in found.reason) == (word, True)
    assert expected is None or expected in found.expected


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("DROP TABLE t", "DROP"),
        ("SET a = 1", "SET"),
        ("CREATE TABLE t AS SELECT 1", "CREATE"),
        ("INSERT INTO t SELECT 1", "INSERT"),
        ("SELECT 1; DELETE FROM t", "DELETE"),
        ("EXPLAIN DROP TABLE t", "DROP"),
        ("BEGIN SELECT 1; END", "BEGIN"),
        ("((DROP TABLE t))", "DROP"),
        ("WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a", "INSERT"),
        ("WITH a AS (SELECT 1) insert /* */ overwrite t SELECT * FROM a", "insert"),
        ("FROM s INSERT INTO t SELECT *", "INTO"),
        ("FROM s x INSERT OVERWRITE t SELECT *", "OVERWRITE"),
        ("SELECT TRANSFORM (a) USING 'rm' FROM t", "'rm'"),
        ("FROM t MAP a USING 'cat' AS b", "'cat'"),
    ],
)
def test_nothing_but_a_query_may_run(text, word):
    found = error(text)
    assert found.word == word


@pytest.mark.parametrize(
    "text",
    [
        "WITH a AS (SELECT 1) UPDATE t SET x = 1",
        "WITH a AS (SELECT 1) DELETE FROM t",
        "WITH a AS (SELECT 1) MERGE INTO t USING a ON TRUE WHEN MATCHED THEN DELETE",
    ],
)
def test_statements_behind_a_with_are_no_queries_either(text):
    assert "only queries run here" in error(text).reason


def test_a_misspelt_select_is_recognised():
    assert error("SELCT * FROM t").suggestion == "SELECT"


@given(st.text(alphabet="aB \n\t[]()'`;,.*%-1[ROWS]", max_size=40))
def test_any_text_either_parses_or_gives_an_error_with_a_place_in_it(text):
    try:
        understand(text)
    except SqlError as error:
        found = error
    else:
        return
    lines = text.split("\n")
    assert 1 <= found.line <= len(lines)
    assert 1 <= found.column <= len(lines[found.line - 1]) + 1
    assert found.text_line == lines[found.line - 1]


def test_deep_nesting_is_an_error_and_not_a_crash():
    text = "SELECT " + "(" * 5000 + "1" + ")" * 5000
    with pytest.raises(SqlError, match="nested too deeply"):
        understand(text)


def test_near_words_and_lists():
    assert near("confidnce", ["ROWS", "CONFIDENCE"]) == "CONFIDENCE"
    assert near("xyz", ["ROWS", "CONFIDENCE"]) is None
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b or c"
    assert listed("abcdefghij") == "a, b, c, d, e, f, g, h or one of 2 more"
