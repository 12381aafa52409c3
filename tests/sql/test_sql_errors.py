"""Errors have the line, the column, the word and the likely word."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.language.brackets import bracket_of
from sfumato.language.joins import join_words
from sfumato.language.planner import parse_script
from sfumato.language.refusals import check_query, check_words
from sfumato.language.syntax import SqlError, errors_in, format_choices
from sfumato.near_misses import near
from sql.plain_frame import plain_frame

STREAM = plain_frame("id", "ts", "arrival", "temperature", "a")


def understand(text, stream=STREAM):
    """Process a script up to the call of a function."""
    with errors_in(text):
        script = parse_script(text)
        for statement in script.statements:
            body = statement.body
            check_query(script, body)
            check_words(body.clauses, list(body.relations))
            for relation in body.relations:
                given = bracket_of(relation, stream)
                if given is not None:
                    given.window()
                    given.arguments()
                if relation.join is not None:
                    join_words(relation.join)


def error(text):
    with pytest.raises(SqlError) as caught:
        understand(text)
    return caught.value


def in_window(options):
    return error(f"SELECT * FROM s [{options}]")


JOIN = "SELECT * FROM a [ROWS 5] SIMILARITY JOIN b ON (x) "


@pytest.mark.parametrize(
    ("options", "instead"),
    [
        ("RANGE 5 MINUTES WATTR t MISSED", "missed => true"),
        ("Tumble 5 MINUTES", "write RANGE 5 MINUTES"),
        ("TUMBLING (SIZE 90 seconds)", "write RANGE 90 seconds"),
        ("TUMBLE WATTR t", "write RANGE 10 MINUTES"),
        ("HOPPING 5 MINUTES", "RANGE 10 MINUTES SLIDE 5 MINUTES"),
        ("RANGE 5 MINUTES WATTR Made At", "in backquotes, `Made At`"),
        ("RANGE '5 MINUTES' WATTR ts", "write 5 MINUTES, without quotes"),
    ],
)
def test_a_word_for_windows_elsewhere_is_told_what_to_write(options, instead):
    assert instead in str(in_window(options)).splitlines()[0]


def test_an_error_underlines_the_word_and_names_the_likely_one():
    found = error("SELECT *\n\tFROM s [ROWS 500 CONFIDNCE 95%]\nWHERE x")
    assert (found.line, found.column, found.word) == (2, 19, "CONFIDNCE")
    assert found.suggestion == "CONFIDENCE"
    assert found.text_line == "\tFROM s [ROWS 500 CONFIDNCE 95%]"
    told = str(found).splitlines()
    assert told[:3] == [
        "line 2, column 19: CONFIDNCE is not expected in a window",
        "    \tFROM s [ROWS 500 CONFIDNCE 95%]",
        "    \t                 ^^^^^^^^^",
    ]
    assert told[3].startswith("expected RANGE, SLIDE, OFFSET, ZONE, EMPTY, WATTR, ")
    assert told[3].endswith(" more")
    assert told[4:] == ["did you mean CONFIDENCE?"]


def test_looking_for_a_mistake_needs_no_spark():
    code = "import sys, sfumato.language.parse; assert 'pyspark' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


# (options of the window, the underlined word, a part of the reason)
WINDOWS = [
    ("RANGE 1 s WATTR ts MAX DRATIO 1% ESTIMATOR normal", "ESTIMATOR normal", "MAX and ESTIMATOR"),
    ("RANGE 1 s ROWS 5 WATTR ts", "ROWS 5", "ROWS is a word of [ROWS ...]"),
    ("ROWS 5 RANGE 1 s", "RANGE 1 s", "ROWS is a word of [ROWS ...]"),
    ("ROWS 5 CONFIDENCE 0", "0", "CONFIDENCE must lie in (0, 1], for example 0.95; got 0"),
    ("ROWS 5 CONFIDENCE 101%", "101%", "(0, 1], for example 0.95; got 101%"),
    ("ROWS 5 CONFIDENCE 95", "95", "must lie in (0, 1]"),
    ("ROWS 5 CONFIDENCE -0.5", "-0.5", "must lie in (0, 1]"),
    ("ROWS 0", "0", "ROWS must be an integer of at least 1; got 0"),
    ("ROWS 2.5", "2.5", "integer"),
    ("ROWS 5 MAX_TUPLES 4", "4", "MAX_TUPLES must be None or at least ROWS = 5; got 4"),
    ("ROWS 5 SLIDE 2 s", "2 s", "SLIDE in [ROWS ...] must be a number of rows"),
    ("ROWS 5 SLIDE 2.5", "2.5", "SLIDE must be None or an integer of at least 1; got 2.5"),
    ("ROWS 5 SLIDE 0", "0", "SLIDE must be None or an integer of at least 1; got 0"),
    ("ROWS 5 ROWS 6", "6", "given twice"),
    ("ROWS 5 SLACK 3", "SLACK 3", "not allowed in [ROWS ...]"),
    ("ROWS 5 WATTR ts", "WATTR ts", "FROM (SELECT * FROM s [WATTR ...]) [ROWS ...]"),
    ("ROWS 5 ORDER arival", "arival", "no column arival"),
    ("CONFIDENCE 95%", "CONFIDENCE 95%", "is a word of [ROWS ...]"),
    ("WATTR ts ORDER a", "ORDER a", "is a word of [ROWS ...]"),
    ("DELTA 5 ON temperature SLIDE 1 s", "SLIDE 1 s", "not allowed in [DELTA ...]"),
    ("DELTA 5 ON temprature", "temprature", "no column temprature"),
    ("DELTA -5 ON temperature", "-5", "DELTA must be a finite distance of at least 0; got -5"),
    ("DELTA 5 ON temperature THRESHOLD 0", "0", "THRESHOLD must lie in (0, 1]"),
    ("DELTA 5 ON temperature ROWS 4", "ROWS 4", "not allowed"),
    ("EARLIER temperature ROWS 4", "ROWS 4", "FROM (SELECT * FROM s [EARLIER ...]) [ROWS ...]"),
    ("EARLIER temperature SLIDE 4 s", "SLIDE 4 s", "FROM s [EARLIER ...]) [WATTR ...]"),
    ("ROWS 4 THRESHOLD 5%", "THRESHOLD 5%", "is a word of [DELTA ...]"),
    ("RANGE 0 s WATTR ts", "0 s", "RANGE must be positive; got 0 s"),
    ("RANGE -5 s WATTR ts", "-5 s", "RANGE must be positive; got -5 s"),
    ("RANGE 1 s SLIDE 0 s WATTR ts", "0 s", "SLIDE must be positive"),
    ("WATTR ts MAX SLIDE 1 s", "SLIDE 1 s", "needs a RANGE"),
    ("WATTR ts EMPTY 3", "EMPTY 3", "EMPTY needs a RANGE"),
    ("RANGE 300 WATTR ts", "300", "needs a unit of time"),
    ("RANGE 1 hour 30 WATTR ts", "1 hour 30", "needs a unit of time"),
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
    ("text", "word", "suggestion"),
    [
        ("SELECT * FROM s [ROWS 500 CONFIDNCE 95%]", "CONFIDNCE", "CONFIDENCE"),
        ("SELECT * FROM s [RAGNE 300 SECONDS]", "RAGNE", "RANGE"),
        ("SELECT * FROM s [RANGE 300 SECOND WATR ts]", "WATR", "WATTR"),
        ("SELECT * FROM s [RANGE 300 secnds WATTR ts]", "secnds", "seconds"),
        ("SELECT * FROM s [RANGE 300 SLIED 30 s WATTR ts]", "SLIED", "SLIDE"),
        ("SELECT * FROM s [WATTR ts DRTIO 1%]", "DRTIO", "DRATIO"),
        ("SELECT * FROM s [RANGE 1 s WATTR tss]", "tss", "ts"),
        (f"{JOIN} WITHIN 1 PROBABILTY 0.5", "PROBABILTY", "PROBABILITY"),
        (f"{JOIN} WITHN 1 PROBABILITY 0.5", "WITHN", "WITHIN"),
        (f"{JOIN} WITHIN 1 PROBABILITY 0.5 OUTPT changes", "OUTPT", "OUTPUT"),
        ("SELCT * FROM t", "SELCT", "SELECT"),
    ],
)
def test_misspelt_words_suggest_the_likely_one(text, word, suggestion):
    found = error(text)
    assert (found.word, found.suggestion) == (word, suggestion)


def test_an_unknown_unit_lists_the_units():
    found = in_window("RANGE 300 fortnights WATTR ts")
    assert (found.word, found.suggestion) == ("fortnights", None)
    assert "seconds" in found.expected
    assert "not a unit of time" in found.reason


@pytest.mark.parametrize(
    ("text", "word", "reason", "expected"),
    [
        (f"{JOIN} WITHIN 5% PROBABILITY 0.5", "%", "not expected", None),
        (f"{JOIN} WITHIN 1 PROBABILITY 0.5 WITHIN 2", "2", "given twice", None),
        (f"{JOIN} WITHIN 1 PROBABILITY 0.5 USING 'nested'", "'nested'", "not expected", None),
        (f"{JOIN} WITHIN 1", None, "PROBABILITY is missing", "PROBABILITY number"),
        (f"{JOIN} PROBABILITY 1", None, "WITHIN is missing", "WITHIN number"),
        ("SELECT * FROM s [ROWS 500", "[", "this [ is not closed", "]"),
        (
            "SELECT * FROM s [ROWS 500 WHERE x > 3",
            "WHERE",
            "the ] of the window is missing",
            "CONFIDENCE",
        ),
        ("SELECT * FROM s ROWS 500", "ROWS", "written in brackets", "[ROWS"),
        ("SELECT * FROM s ROWS 500]", "]", "unmatched ]", None),
        ("SELECT * FROM s [RANGE]", "]", "not expected", "a number"),
        ("SELECT * FROM s [WATTR 3]", "3", "not expected", "a name"),
        ("SELECT f(a, b FROM s", "(", "this ( is not closed", ")"),
        ("SELECT f(a]) FROM s", "(", "this ( is not closed", ")"),
        ("SELECT 'abc FROM s", "'", "not closed", None),
        ("SELECT `abc FROM s", "`", "not closed", None),
        ("SELECT * FROM a SIMILARITY JOIN b c WITHIN 1", "WITHIN", "not expected", "ON"),
        ("SELECT * FROM a SIMILARITY JOIN b WITHIN 1", "1", "not expected", "ON"),
        ("SELECT * FROM a SIMILARITY JOIN b ON (x) WITHIN", "", "ends too early", "a number"),
        (
            "SELECT * FROM a SIMILARTY JOIN b ON (x) WITHIN 1",
            "WITHIN",
            "only in a SIMILARITY JOIN",
            "SIMILARITY JOIN",
        ),
        (
            "SELECT * FROM a FREQUENCY 2 MINUTES",
            "FREQUENCY",
            "the query has no TOP",
            "SELECT TOP k",
        ),
        ("SELECT * FROM a RANK BY x DESC", "RANK BY", "the query has no TOP", "SELECT TOP k"),
        ("SELECT TOP-3 * FROM a RANK BY x, y", ",", "one score", None),
        ("SELECT * FROM a IMPUTE (x) BY 'd'", "IMPUTE", "FROM repository BY", "IMPUTE ("),
        ("SELECT * FROM a s IMPUTE x FROM r BY 'd'", "IMPUTE", "FROM repository", "IMPUTE ("),
        (" ;; -- nothing", "", "the text contains no query", "SELECT"),
    ],
)
def test_what_is_missing_or_misplaced_is_pointed_at(text, word, reason, expected):
    found = error(text)
    assert reason in found.reason
    assert word is None or found.word == word
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
    "statement", ["UPDATE t SET x = 1", "DELETE FROM t", "MERGE INTO t USING a ON TRUE"]
)
def test_statements_behind_a_with_are_no_queries_either(statement):
    assert "sfumato runs only queries" in error(f"WITH a AS (SELECT 1) {statement}").reason


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
    assert format_choices(["a"]) == "a"
    assert format_choices(["a", "b", "c"]) == "a, b or c"
    assert format_choices("abcdefghij") == "a, b, c, d, e, f, g, h or one of 2 more"
