"""The grammar: the papers' queries as printed, and Spark's own text, passed on to Spark."""

import logging
import time
from datetime import timedelta
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lark import Lark, logger

from sfumato.duration import spelled
from sfumato.language import explain, sql
from sfumato.language.blocks import Rewriting
from sfumato.language.brackets import bracket_of
from sfumato.language.parse import GRAMMAR, Word, fragment, parse
from sfumato.language.planner import VOCABULARY, parse_script
from sfumato.language.refusals import has_constructs
from sfumato.language.steps import format_bytes
from sfumato.language.syntax import Node, SqlError, references, stars
from sfumato.language.table_functions import tables_read
from sfumato.operators.windows.uncertain_window import expected_tuples
from sfumato.windows import Rows
from sql.plain_frame import plain_frame

SECOND = 1_000_000
WORDS = sorted({word.word for words in VOCABULARY.values() for word in words})
Q1 = (
    "SELECT vehID, speed FROM Sensors [RANGE 300 seconds SLIDE 30 seconds WATTR ts{}] "
    "GROUP BY vehID HAVING AVG(speed) > 80"
)


def body(text):
    (statement,) = parse_script(text).statements
    return statement.body


def relations(text):
    """Return the relations in the FROM clause of a single query."""
    return tuple(body(text).relations)


def asked(options, *columns):
    """Return the words of `SELECT * FROM s [options]`, over a stream."""
    text = f"SELECT * FROM s [{options}]"
    (relation,) = relations(text)
    stream = plain_frame("ts", "arrival", *columns)
    return bracket_of(relation, stream)


def windowed(options, *columns):
    """Return the window and order of a bracket."""
    return asked(options, *columns).window()


def arguments(options, *columns):
    """Return the arguments of a bracket's function."""
    return asked(options, *columns).arguments()


# ---- windows -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        "RANGE 300 SECONDS SLIDE 30 SECONDS WATTR ts DRATIO 1% BSIZE 100 IDLE 10 SECONDS",
        "range 5 minutes slide 0.5 min wattr ts dratio 0.01 bsize 100 idle 10 s",
        "Wattr ts Range 300 sec Slide 30 secs Idle 10000 ms Bsize 100 Dratio 1 %",
        "RANGE 4 mins 60 s SLIDE 30SECONDS WATTR `ts` DRATIO 1e-2 BSIZE 100 IDLE 10 second",
        "RANGE /* five minutes */ 300 SECONDS -- and\n SLIDE 30 SECONDS WATTR ts DRATIO 1% "
        "BSIZE 100 IDLE 10 SECONDS",
    ],
)
def test_keywords_are_case_free_options_in_any_order_and_units_as_people_write_them(options):
    assert arguments(options) == {
        "length": timedelta(minutes=5),
        "slide": timedelta(seconds=30),
        "event_time": "ts",
        "drop_ratio": 0.01,
        "max_buffer": 100,
        "idle_timeout": timedelta(seconds=10),
    }
    window, order = windowed(options)
    assert (window.length_us, window.slide_us, window.idle_timeout_us) == (
        300 * SECOND,
        30 * SECOND,
        10 * SECOND,
    )
    assert order == ["ts"]


def test_rows_windows_have_the_defaults_of_the_function():
    assert windowed("ROWS 500") == (Rows(500), ["arrival"])
    assert windowed("ROWS 500 CONFIDENCE 95%") == (Rows(500, 0.95), ["arrival"])
    assert windowed("rows 5 confidence 1 max_tuples 50 order by a, `b`", "a", "b") == (
        Rows(5, 1.0, 50),
        ["a", "b"],
    )
    assert windowed("ROWS 100 SLIDE 100")[0] == Rows(100, slide=100)


def test_the_alias_may_stand_before_or_after_the_window():
    for text in (
        "FROM s [ROWS 5] AS a",
        "FROM s [ROWS 5] a",
        "FROM s AS a [ROWS 5]",
        "FROM s a [ROWS 5]",
        "FROM (SELECT * FROM s) a [ROWS 5]",
        "FROM db.s a [ROWS 5] JOIN t ON a.x[0] = t.x[1] WHERE TRUE",
    ):
        first = relations(text)[0]
        assert first.alias == "a", text
        assert first.bracket.options[0].measures[0].value == 5, text


def test_names_in_a_window_may_be_words_of_constructs():
    options = "RANGE 1 s WATTR range ARRIVAL arrival KEY `slack` SLACK 3"
    found = arguments(options, "range", "slack")
    assert (found["event_time"], found["arrival"], found["key"]) == ("range", "arrival", "slack")


# ---- similarity join -----------------------------------------------------------------------------


def test_a_similarity_join_may_have_several_keys_whose_sides_stand_in_any_order():
    text = "SELECT * FROM a [ROWS 5] SIMILARITY JOIN b ON (x) WITHIN 1 AND a.k = b.k AND b.r = a.r"
    (join,) = (relation.join for relation in relations(text) if relation.join is not None)
    keys = [option.names for option in join.options if option.word == "AND"]
    assert [[str(name) for name in pair] for pair in keys] == [["a.k", "b.k"], ["b.r", "a.r"]]


# ---- Spark's own text ----------------------------------------------------------------------------

SPARKS_OWN = [
    "SELECT 1",
    "SELECT a[0], m['k'], a[b[1]], s.rows[2] FROM t",
    "SELECT '[ROWS 5]', \"FROM s [ROWS 5]\", r'\\', 'it''s', 'a\\'b [', `x[RANGE` FROM t",
    "SELECT a /* [ROWS 5] ] */ FROM t -- [RANGE ( '\nWHERE b",
    "SELECT CASE WHEN x > 1 THEN 'a' ELSE arr[0] END, x::int, CAST(y AS array<int>) FROM t",
    "SELECT extract(year FROM ts), trim(BOTH 'x' FROM b), substring(s FROM 2 FOR 3) FROM t",
    "SELECT a IS NOT DISTINCT FROM arr[0], b IS DISTINCT FROM c FROM t",
    "SELECT range, rows, slack, max, top, rank, group, confidence, probability, within FROM t",
    "SELECT sum(x) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN 5 PRECEDING AND CURRENT ROW) "
    "FROM t",
    "SELECT * EXCEPT (a, b) FROM t EXCEPT SELECT * FROM u EXCEPT (SELECT 1)",
    "SELECT transform(xs, x -> x + 1), filter(m, (k, v) -> k > v) FROM t",
    "WITH a AS (SELECT 1), b (x, y) AS (SELECT 2, 3) SELECT * FROM a, b",
    "WITH RECURSIVE t(n) MAX RECURSION LEVEL 9 AS (VALUES (1) UNION ALL SELECT n + 1 FROM t) "
    "SELECT n FROM t",
    "WITH recursive AS (SELECT 1) SELECT * FROM recursive",
    "FROM t SELECT a WHERE b GROUP BY a",
    "FROM t |> WHERE x > 3 |> AGGREGATE count(*) GROUP BY y |> SELECT *",
    "VALUES (1, 2), (3, 4)",
    "TABLE t",
    "(SELECT 1) UNION ALL ((SELECT 2) INTERSECT (SELECT 3)) ORDER BY 1 LIMIT 1",
    "SELECT * FROM a LEFT OUTER JOIN b USING (k) CROSS JOIN c NATURAL JOIN d, e "
    "LEFT SEMI JOIN f ON f.x[0] = e.y",
    "SELECT * FROM t LATERAL VIEW explode(m) kv AS k, v WHERE v[0] = 1",
    "SELECT * FROM t TABLESAMPLE (5 ROWS), range(10) AS r, LATERAL explode(t.x), VALUES (1) AS v",
    "SELECT * FROM t PIVOT (sum(x) FOR y IN ('a', 'b'))",
    "SELECT * FROM t VERSION AS OF 3 AS old JOIN parquet.`/a/b.parquet` p ON old.a = p.a",
    "SELECT x FROM a WHERE x IN (SELECT max(y) FROM b WHERE b.k = a.k)",
    "SELECT a, count(*) FILTER (WHERE b > 1) FROM t GROUP BY GROUPING SETS ((a), ()) HAVING c "
    "WINDOW w AS (ORDER BY a) QUALIFY rank() OVER w = 1 ORDER BY ALL LIMIT ALL OFFSET 3",
    "SELECT TOP - 3 FROM (SELECT 5 AS top)",
    "SELECT 1e5, .5, 1.5E-3, 10L, 2.0BD, -x % 2, a <=> b, a || b, !a, ~b FROM t",
    "SELECT ünïcode, `$x` FROM 数据",
]


@pytest.mark.parametrize("text", SPARKS_OWN)
def test_whatever_is_sparks_own_parses_and_shows_nothing_of_ours(text):
    (statement,) = parse_script(text).statements
    assert not has_constructs(statement.body)
    assert text[statement.start : statement.end] == text.strip()


@pytest.mark.parametrize("word", [*WORDS, "TOP", "RANK", "FREQUENCY", "SIMILARITY", "IMPUTE"])
def test_the_words_of_our_constructs_stay_identifiers_everywhere_else(word):
    if word == "AND":
        return  # this clause is Spark's, anywhere
    text = (
        f"SELECT {word}, t.{word}, f({word}) AS {word}, {word}[0] + {word} FROM t x "
        f"JOIN u ON x.{word} = u.{word} AND {word}[1] > 1 WHERE x.{word} = 1 OR {word} AND b "
        f"GROUP BY {word} ORDER BY f({word}) DESC, m['a'] ASC, ({word}) {word}"
    )
    assert not has_constructs(body(text))


@given(st.lists(st.sampled_from([*SPARKS_OWN, Q1.format(" SLACK 10")]), min_size=1, max_size=6))
def test_a_script_is_split_at_its_semicolons_only(texts):
    script = " ;\n".join(texts) + " ;; "
    parts = [script[s.start : s.end] for s in parse_script(script).statements]
    assert parts == texts


def test_semicolons_in_strings_names_and_comments_end_nothing():
    text = "SELECT ';', `;` /* ; */ -- ;\n FROM t"
    assert len(parse_script(text).statements) == 1


@pytest.mark.parametrize(
    ("text", "tables"),
    [
        ("SELECT * FROM a, db.b AS x LEFT JOIN c ON a.d = c.e", ["a", "db.b", "c"]),
        ("WITH a AS (SELECT * FROM b) SELECT * FROM a JOIN c", ["c", "b"]),
        ("SELECT extract(year FROM ts), (SELECT max(x) FROM s) FROM t", ["t", "s"]),
        ("SELECT * FROM range(5), t WHERE x IN (SELECT y FROM (SELECT y FROM u))", ["t", "u"]),
    ],
)
def test_the_tables_of_a_query_are_those_spark_would_read(text, tables):
    assert [str(name) for name in tables_read(body(text))] == tables


def select_items(text):
    return body(text).clauses[0].items


def test_references_are_names_with_their_qualifier_but_not_strings_aliases_or_fields():
    items = select_items("SELECT a.x, f(y) + m['k'], 'z' AS q, g(s).x, `a b`.c, (SELECT n FROM t)")
    found = [".".join(r.parts) for r in references(items)]
    assert found == ["a.x", "f", "y", "m", "g", "s", "a b.c"]


def test_stars_stand_for_columns_unless_they_multiply_or_count():
    items = select_items("SELECT *, a.* EXCEPT (x), 2 * 3, count(*), struct(*), x * y FROM t")
    assert [(star.qualifier, star.except_list is not None) for star in stars(items)] == [
        (None, False),
        ("a", True),
        (None, False),
    ]


def test_explain_is_a_word_only_at_the_beginning():
    assert parse_script("EXPLAIN SELECT 1").statements[0].explain
    assert not parse_script("SELECT explain FROM explain").statements[0].explain


# ---- the parser itself ---------------------------------------------------------------------------


def test_the_grammar_has_no_conflicts(caplog):
    logger.propagate, before = True, logger.level
    logger.setLevel(logging.DEBUG)
    try:
        with caplog.at_level(logging.DEBUG, logger=logger.name):
            words = fragment(VOCABULARY)
            Lark(f"{GRAMMAR.read_text()}\n{words}", parser="lalr", start="script", debug=True)
    finally:
        logger.setLevel(before)
    assert "conflict" not in caplog.text.lower()


def test_a_word_means_one_thing_wherever_it_stands():
    words = {"bracket": [Word("ROWS", "number"), Word("ROWS", "names")]}
    with pytest.raises(ValueError, match="ROWS is followed by 'number' in one construct and by"):
        fragment(words)


def test_words_that_are_not_registered_are_no_words():
    with pytest.raises(SqlError, match="ROWS is not expected"):
        parse("SELECT * FROM s [ROWS 5]", {"bracket": [Word("DELTA", "number")]})


def test_parsing_takes_milliseconds():
    text = ";\n".join(SPARKS_OWN)
    parse_script(text)

    def timed():
        start = time.perf_counter()
        parse_script(text)
        return time.perf_counter() - start

    per_query = median(timed() for _ in range(3)) / len(SPARKS_OWN)
    assert per_query < 0.02  # about 1 ms on a quiet machine


# ---- rewriting -----------------------------------------------------------------------------------


@given(st.text(alphabet="ab{}[ ", max_size=30), st.data())
def test_edits_replace_their_spans_and_nothing_else(text, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6, unique=True)))
    spans = list(zip(cuts[::2], cuts[1::2], strict=False))
    edits, expected, place = Rewriting(text), "", 0
    for start, end in data.draw(st.permutations(spans)):
        edits.replace(Node(start, end), "{d0}")
    for start, end in spans:
        expected += text[place:start] + "\0"
        place = end
    expected += text[place:]
    whole = Node(0, len(text))
    assert edits.render(whole) == expected.replace("\0", "{d0}")
    # After Spark's formatting, the user's braces are unchanged.
    assert edits.render(whole, braces=True).format(d0="\0") == expected


def test_removing_a_span_removes_the_edits_within_it():
    edits = Rewriting("SELECT a WHERE b LIMIT 1")
    edits.replace(Node(15, 16), "c")
    edits.remove(9, 17)
    assert edits.render(Node(0, 24)) == "SELECT a LIMIT 1"


# ---- numbers shown by explain --------------------------------------------------------------------


def exact_tuples(rows, p, confidence):
    """Return the least n with Pr(Binomial(n, p) ≥ rows) ≥ confidence, by recursion."""
    law, n = [1.0], 0
    while 1 - sum(law[:rows]) < confidence:
        law = [
            (law[k] if k < len(law) else 0.0) * (1 - p) + (law[k - 1] * p if k else 0.0)
            for k in range(min(len(law), rows) + 1)
        ]
        n += 1
    return n


@pytest.mark.parametrize("rows", [1, 10, 100])
@pytest.mark.parametrize("p", [1.0, 0.9, 0.5])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_the_expected_window_size_is_close_to_the_exact_one(rows, p, confidence):
    exact = exact_tuples(rows, p, confidence)
    tolerance = 0 if p == 1 else max(2, 0.02 * exact) if rows > 1 else 4
    assert abs(expected_tuples(rows, p, confidence) - exact) <= tolerance


def test_no_number_of_uncertain_tuples_gives_certainty():
    given = [(5, 0.9, 1.0), (5, 1.0, 1.0), (5, 0.9, 0.0)]
    assert [expected_tuples(*each) for each in given] == [None, 5, 5]


def test_spans_and_sizes_read_well():
    spans = [spelled(x) for x in (300 * SECOND, 30 * SECOND, 1500, 1000)]
    assert spans == ["5 min", "30 s", "1500 us", "1 ms"]
    sizes = [format_bytes(x) for x in (999, 1500, 2.5e6, 3e12)]
    assert sizes == ["999 bytes", "1.5 kB", "2.5 MB", "3e+03 GB"]


@pytest.mark.parametrize("word", ["LEFT", "FULL OUTER", "NATURAL", "CROSS"])
def test_the_word_of_a_join_after_a_window_is_no_alias(word):
    script = parse_script(f"SELECT * FROM s [WATTR ts MAX] {word} JOIN r ON s.id = r.id")
    first = next(script.statements[0].body.relations)
    assert first.alias is None
    assert [str(item) for item in first.rest] == word.split()


@pytest.mark.parametrize("call", [sql, explain])
def test_a_call_without_a_session_says_what_to_write(call):
    with pytest.raises(TypeError, match=rf"sf.{call.__name__} needs `text`.*\(spark, \"SELECT"):
        call("SELECT * FROM s", s=None)
    with pytest.raises(TypeError, match="`spark` must be a SparkSession"):
        call("s", "SELECT * FROM s")
