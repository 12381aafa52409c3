"""Queries that only select, rename and compare columns, and queries that do more."""

import pytest

from sfumato.language.blocks import ResultField, Rewriting, plain_select
from sfumato.language.planner import parse_script
from sfumato.language.tables import Source
from sfumato.spark.runtime.fuse import Selection
from sfumato.tables.reading.chain import Condition, Place


def selection(text, fields=None):
    """Return the selection of a query over the table `s`; `fields` : replacements of calls."""
    script = parse_script(text)
    (statement,) = script.statements
    edits = Rewriting(text)
    for written, field in (fields or {}).items():
        start = text.index(written)
        edits.fields[start, start + len(written)] = field
    source = Source(0, 0, None, ("s",), "", statement)
    select = plain_select(statement.body, set(), [source], edits)
    return None if select is None else select.selection()


def test_columns_fields_counts_and_comparisons_are_plain():
    text = (
        "SELECT highway, s.window.end AS done, AVG(v) speed, COUNT(*) FROM s "
        "HAVING MAX(v) < 40 AND s.aggregate1.mean >= -2.5"
    )
    fields = {
        "AVG(v)": ResultField(("avg", "mean")),
        "COUNT(*)": ResultField(("count",), "COUNT(*)"),
        "MAX(v)": ResultField(("max", "mean")),
    }
    assert selection(text, fields) == Selection(
        {
            "highway": (("highway",), ""),
            "done": (("window", "end"), ""),
            "speed": (("avg", "mean"), ""),
            "COUNT(*)": (("count",), ""),
        },
        (Condition(("max", "mean"), "<", 40.0), Condition(("aggregate1", "mean"), ">=", -2.5)),
    )
    assert selection("SELECT * FROM s") == Selection(None)
    assert selection("SELECT a FROM s -- all of them") == Selection({"a": (("a",), "")})


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a + 1 AS b FROM s",
        "SELECT a, a FROM s",
        "SELECT upper(a) AS a FROM s",
        "SELECT *, a AS b FROM s",
        "SELECT * EXCEPT (a) FROM s",
        "SELECT DISTINCT a FROM s",
        "SELECT a[0] AS b FROM s",
        "SELECT 'a' AS b FROM s",
        "SELECT CAST(a AS BIGINT) FROM s",
        "SELECT CAST(a AS STRING) AS b FROM s",
        "SELECT a FROM s WHERE a < b",
        "SELECT a FROM s WHERE 3 < a",
        "SELECT a FROM s WHERE a.mean < 4 OR b.mean > 2",
        "SELECT a FROM s WHERE a.mean BETWEEN 2 AND 4",
        "SELECT a FROM s WHERE NOT a.mean < 4",
        "SELECT a FROM s WHERE a.mean <> 4",
        "SELECT a FROM s WHERE a < 4 > 2",
        "SELECT a FROM s LIMIT 3",
        "SELECT a FROM s ORDER BY a",
        "SELECT a FROM s JOIN r",
        "SELECT a FROM s UNION ALL SELECT a FROM r",
        "(SELECT a FROM s)",
    ],
)
def test_anything_else_is_not(text):
    assert selection(text) is None


def test_a_selection_has_the_columns_of_its_operator(spark):
    from sfumato.spark.runtime.fuse import FrameLineage, select_lineage

    how = FrameLineage(None, "m", {"a": Place(("key0",))})
    frame = spark.range(1).selectExpr("id AS a")
    plain = selection("SELECT a AS b FROM s")
    assert plain is not None
    found = select_lineage(how, frame, plain)
    assert found is not None
    assert found.columns == {"b": Place(("key0",))}
    unknown = selection("SELECT NULL AS b FROM s")
    assert unknown is not None
    assert select_lineage(how, frame, unknown) is None
