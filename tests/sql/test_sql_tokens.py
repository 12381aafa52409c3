"""Our lexer knows every token exactly, and Spark reads the same tokens."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.language.parse import fragment, parser
from sfumato.language.planner import VOCABULARY
from sfumato.sql_tokens import (
    DEEPEST_NESTING,
    LONGEST_TEXT,
    NUMBER,
    QUOTED,
    STRING,
    TokenError,
    render,
    tokenize,
)


def values(text):
    return [(token.kind, token.value) for token in tokenize(text)]


@pytest.mark.parametrize(
    ("text", "rendered"),
    [
        ("a.b", "a . b"),
        ("'it''s'", r"'it\'s'"),
        ('"a""b"', "'a\"b'"),
        (r"'a\n\'\\\u0041\101\%\_\q'", r"'a\u000a\'\\AA\\%\\_q'"),
        (r"r'\n' R\"\d\"".replace("\\\"", '"'), r"'\\n' '\\d'"),
        ("'costs $5'", r"'costs \u00245'"),
        ("`a``b` größe", "`a``b` `größe`"),
        ("1e5 .5 1.5E-3 10L 2.0BD 1. 7d", "1e5 .5 1.5E-3 10L 2.0BD 1. 7d"),
        ("a<=>b<>c!=d>=e<=f==g", "a <=> b <> c != d >= e <= f == g"),
        ("g||h->i=>j::k|>l", "g || h -> i => j :: k |> l"),
        ("a-- comment ' /*\n-/* b -- c */- d", "a - - d"),
        ("CAST(a AS map<int,array<int>>)", "CAST ( a AS map < int , array < int > > )"),
        ("\u4e2d\u6587.x", "`\u4e2d\u6587` . x"),
    ],
)  # fmt: skip
def test_a_text_is_written_anew_from_its_tokens(text, rendered):
    assert render(tokenize(text)) == rendered
    assert values(rendered) == [
        (QUOTED if kind == "name" and not value.isascii() else kind, value)
        for kind, value in values(text)
    ]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a --\\\n b", 4),
        ("a /* /* */ */", 5),
        ("SELECT /*+ X(a) */ a", 7),
        ("a */ b", 2),
        ("a /* b", 2),
        ("1r''", 0),
        ("1_000", 0),
        ("0x1F", 0),
        ("1.5L", 1),
        ("1\u00e9", 0),
        ("t.1a", 1),
        ("a >> 2", 2),
        ("a << 2", 2),
        ("a !> 2", 2),
        ("a !< 2", 2),
        ("v:path", 1),
        ("f(?)", 2),
        ("@x", 0),
        ("{d0}", 0),
        ("a\\b", 1),
        ("a\u00a0b", 1),
        ("a\u2028b", 1),
        ("a\x0cb", 1),
        ("a\x00b", 1),
        ("\u017fELECT", 0),
        ("l\u0131mit", 0),
        ("e\u0301", 1),
        ("\u0663", 0),
        ("'${env:HOME}'", 1),
        ("`${x}`", 1),
        ("${x}", 0),
        ("``", 0),
        ("'a", 0),
        ("'a\\'", 0),
        ("'\\", 0),
        ("r'a", 0),
        ("`a", 0),
        ("(a", 0),
        ("a]", 1),
        ("(a]", 0),
        ("'\\uD800'", 1),
    ],
)
def test_what_is_not_known_exactly_is_refused_at_its_place(text, place):
    with pytest.raises(TokenError) as caught:
        tokenize(text)
    assert caught.value.start == place


def test_length_and_depth_are_bounded():
    tokenize("a" * LONGEST_TEXT)
    tokenize("(" * DEEPEST_NESTING + ")" * DEEPEST_NESTING)
    for text in ("a" * (LONGEST_TEXT + 1), "(" * 50_000, "[" * (DEEPEST_NESTING + 1)):
        with pytest.raises(TokenError, match="at most"):
            tokenize(text)


PIECES = (
    *("'", '"', "`", "\\", "''", '""', "``", "--", "/*", "*/", "\n", "\r", "\t", " ", "r", "R"),
    *("a", "x", "1", "1.", ".5", "e", "\\'", '\\"', "\\\n", "+", ",", ";", "#"),
    *("\u00e9", "\u4e2d", "\u017f", "\u2028", "$", "{", "}", "${", "\\u0041", "\\101"),
    *("\\%", "\U0001f600", "'a'", "'b'"),
)  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_what_is_rendered_has_the_same_tokens_and_no_comment(text):
    try:
        found = tokenize(text)
    except TokenError:
        return
    again = tokenize(render(found))
    assert [token.value for token in again] == [token.value for token in found]
    # A string may contain a comment sign; other tokens may not.
    bare = " ".join(t.value for t in found if t.kind not in (STRING, QUOTED))
    assert "--" not in bare
    assert "/*" not in bare


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_the_parser_reads_the_words_that_the_lexer_reads(text):
    try:
        found = tokenize(text)
    except TokenError:
        return
    ours = {token.start for token in found if token.kind in (STRING, QUOTED)}
    theirs = {
        t.start_pos
        for t in parser(fragment(VOCABULARY)).lex(text)
        if t.type in ("STRING", "BACKQUOTED")
    }
    assert ours <= theirs  # 'a''b' is one string here, and two for the parser


# ---- Spark's own lexer ---------------------------------------------------------------------------

# A batch is one SELECT of strings, numbers and aliases. Its column names show how Spark read them,
# and nothing runs.
BATCH = 2_000
INSIDE = (
    *("'", '"', "`", "\\", "''", '""', "``", "--", "/*", "*/", "\n", "\r", "\t", " ", "a", "1"),
    *("\\'", '\\"', "\\\\", "\\n", "\\u0041", "\\U0001F600", "\\101", "\\%", "\\_", "\\0", "\\q"),
    *("\u00e9", "\u4e2d", "\u2028", "\x00", "\x0b", "\u00a0", "\U0001f600", "{", "}", "$", ";"),
    ")",
)  # fmt: skip
GAPS = (
    " ",
    "\n",
    "\r",
    "\t",
    "--\n",
    "-- ' \n",
    "--a\\b\r",
    "/**/",
    "/* ' */",
    '/*"*/',
    "/*`*/",
    "",
)
GAPS = (*GAPS, "--\\\n", "/* /* */", "\u00a0", "\x0b", "/*+ a */", "*/", "\u2028", "")


def fuzzed(draw):
    """Draw text like `'a' 'b' AS `c``, with anything inside its quotes and between its tokens."""
    parts = []
    for _ in range(draw.randint(1, 3)):
        opens = draw.choice(("'", '"', "r'", 'R"', "'", '"'))
        inside = "".join(draw.choices(INSIDE, k=draw.randint(0, 5)))
        parts += [opens, inside, opens[-1], *draw.choices(GAPS, k=draw.randint(0, 2))]
    if draw.random() < 0.3:
        name = "".join(draw.choices(INSIDE, k=draw.randint(1, 4)))
        parts += ["AS", *draw.choices(GAPS, k=1), "`", name, "`"]
    return "".join(parts)


def expected(tokens):
    """Return the name of the single column that the tokens define, or None if there is none."""
    texts = []
    for place, token in enumerate(tokens):
        if token.kind == STRING:
            texts.append(token.value)
        elif token.is_word("as") and texts and place == len(tokens) - 2:
            last = tokens[-1]
            return last.value if last.kind == QUOTED else None
        else:
            return None
    return "".join(texts) if texts else None


def compare(spark, texts):
    """Raise AssertionError, with the text, if Spark reads one of the texts differently."""
    if not texts:
        return
    select = "SELECT " + ",".join(f"{text}\n" for text, _ in texts)
    anew = "SELECT " + ", ".join(render(tokenize(text)) for text, _ in texts)
    wanted = [name for _, name in texts]
    try:
        same = spark.sql(select).columns == wanted and spark.sql(anew).columns == wanted
    except Exception:
        same = False
    if same:
        return
    assert len(texts) > 1, f"Spark reads {texts[0][0]!r} in another way"
    compare(spark, texts[: len(texts) // 2])
    compare(spark, texts[len(texts) // 2 :])


def lexers_agree(spark, seed, count):
    draw, batch, kept = random.Random(seed), [], 0
    for _ in range(count):
        text = fuzzed(draw)
        try:
            name = expected(tokenize(text))
        except TokenError:
            continue
        # Column names that are empty or contain a backquote are written differently.
        if name:
            batch.append((text, name))
        if len(batch) == BATCH:
            compare(spark, batch)
            kept += len(batch)
            batch = []
    compare(spark, batch)
    return kept + len(batch)


@pytest.mark.spark
def test_spark_reads_the_same_tokens(spark):
    assert lexers_agree(spark, 1, 20_000) > 4_000


@pytest.mark.spark
@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_spark_reads_the_same_tokens_of_a_million_texts(spark):
    assert lexers_agree(spark, 2, 1_000_000) > 200_000


@pytest.mark.spark
def test_numbers_and_signs_mean_the_same(spark):
    text = (
        "1e5, .5, 1.5E-3, 10L, 2.0BD, 1., 7D, 5F, 3S, 1Y, "
        "1<=>1, 1<>2, 1!=2, 'a'||'b', -1, ~1, !true"
    )
    assert (
        spark.sql(f"SELECT {text}").columns == spark.sql(f"SELECT {render(tokenize(text))}").columns
    )
    assert sum(token.kind == NUMBER for token in tokenize(text)) == 18
