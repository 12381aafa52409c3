"""NAMED: the names of operators in metrics, independent of the rest of a query or file."""

import io
from contextlib import redirect_stdout

import pytest

from sfumato.language import SqlError, explain, sql
from sfumato.language.planner import NamedQueries

pytestmark = pytest.mark.spark

ROWS = "id int, t timestamp, arrival timestamp, x double, humidity double"
BY = "BY 'humidity -> x : 0.1 -> 0.1'"
# A query, and the names that Spark observes for it.
NAMED = {
    "SELECT * FROM s [WATTR t SLACK 3 NAMED intake]": {"reorder_intake"},
    "SELECT AVG(x) FROM s [RANGE 1 minute WATTR t SLACK 3 NAMED Means] GROUP BY id": {
        "reorder_means", "window_means",
    },
    "SELECT AVG(x) FROM s [ROWS 5 CONFIDENCE 90% NAMED newest]": {"window_newest"},
    "SELECT AVG(x) FROM s [DELTA 5 ON x NAMED near]": {"window_near"},
    "SELECT * FROM s [EARLIER x KEY id NAMED earlier]": {"earlier_values_earlier"},
    "SELECT * FROM s a [ROWS 5] SIMILARITY JOIN u b ON (x) WITHIN 1 PROBABILITY 0.5 NAMED both": {
        "join_both",
    },
    f"SELECT * FROM s IMPUTE (x) FROM u {BY} [NAMED filled]": {"impute_filled"},
    "SELECT TOP 3 id FROM s [RANGE 1 minute WATTR t NAMED best] RANK BY x": {"top_k_best"},
    "SELECT * FROM s [RANGE 1 minute WATTR t NAMED one] a "
    "JOIN u [RANGE 1 minute WATTR t NAMED other] b ON a.id = b.id": {
        "window_one", "window_other", "extents_one",
    },
}  # fmt: skip
WRONG = {
    "SELECT * FROM s [WATTR t NAMED one NAMED two]": ("NAMED is given twice", "NAMED two"),
    "SELECT * FROM s [WATTR t NAMED 'one']": ("", "'one'"),
    "SELECT * FROM s a [ROWS 5 NAMED one] SIMILARITY JOIN u b ON (x) WITHIN 1 PROBABILITY 0.5": (
        "NAMED applies to the join, not to a side", "NAMED one",
    ),
    "SELECT * FROM s [WATTR t NAMD one]": ("NAMED", "NAMD"),
    "SELECT * FROM (SELECT id, t FROM s [WATTR t NAMED a] WHERE NOT late) [WATTR t NAMED a]": (
        "are called 'a' in metrics: give each of them a different NAMED",
        "NAMED a]",
    ),
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def tables(spark):
    for name in "su":
        spark.createDataFrame([(1, None, None, 0.5, 0.5)], ROWS).createOrReplaceTempView(name)
    yield
    for name in "su":
        spark.catalog.dropTempView(name)


def observed(df):
    """Return the names of a frame's metrics, without those of its inputs."""
    with redirect_stdout(io.StringIO()) as said:
        df.explain(extended=True)
    plan = said.getvalue().partition("== Analyzed Logical Plan ==")[2]
    plan = plan.partition("== Optimized Logical Plan ==")[0]
    found = {part.split(",")[0].strip() for part in plan.split("CollectMetrics ")[1:]}
    return {name.removeprefix("sfumato_").partition("_in_")[0] for name in found} - {""}


@pytest.mark.parametrize("text", NAMED)
def test_operators_are_called_in_metrics_as_the_text_says(spark, text):
    names = {n for n in observed(sql(spark, text)) if not n.endswith(("_input", "_left", "_right"))}
    assert {n for n in names if not n.endswith("_answers")} == NAMED[text]
    plan = explain(spark, text)
    names = {n.rsplit("_", 1)[1] for n in NAMED[text] if not n.endswith("_other")}
    for name in names:  # windows are not a step of a join of windows
        assert f"{name}, in metrics" in plan


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_with_a_name_is_said_where_it_stands(spark, text):
    reason, place = WRONG[text]
    with pytest.raises(SqlError) as caught:
        sql(spark, text)
    assert reason in str(caught.value)
    assert f"column {text.rindex(place) + 1}:" in str(caught.value)


def test_operators_of_a_file_are_named_by_their_queries_whatever_stands_before_them(spark):
    ordered = "SELECT * FROM s [WATTR t SLACK 3]"
    both = f"SELECT a.id FROM ({ordered}) a JOIN (SELECT * FROM u [WATTR t SLACK 3]) b ON TRUE"
    texts = {"first": ordered, "left": ordered, "two-of-them": both}
    queries = NamedQueries(spark, texts, texts)
    for _ in range(2):  # for example, again after a failure
        found = [observed(queries.frames(name)[0].df) for name in texts]
        assert found[:2] == [{"reorder_first"}, {"reorder_left_"}]
        assert found[2] == {"reorder_two_of_them", "reorder_two_of_them__2"}
    alone = NamedQueries(spark, {"left": ordered}, ["left"])
    assert observed(alone.frames("left")[0].df) == {"reorder_left_"}
