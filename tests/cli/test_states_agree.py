"""The page, the command line, EXPLAIN, the metrics and the sinks of one run agree."""

import io

import pytest

from pipeline_runs import put, written
from sfumato.cli.pipeline.environment import RedactingConsole
from sfumato.cli.pipeline.parse import parse_pipeline
from sfumato.cli.run import RunView, run
from sfumato.live.view import view
from sfumato.metrics.exporters import samples

PIPELINE = '''
[sources.readings]
format = "json"
path = "in"
schema = "id int, t timestamp, arrival timestamp, x double"

[queries.ordered]
sql = "SELECT * FROM readings [WATTR t ARRIVAL arrival SLACK 2 NAMED intake]"

[queries.means]
sql = """
SELECT window.end, COUNT(*) AS n FROM ordered [RANGE 1 minute SLIDE 2 minutes WATTR t NAMED means]
"""

[sinks.rows]
query = "ordered"
format = "parquet"
path = "rows"
late = "./late"

[sinks.means]
query = "means"
format = "parquet"
path = "means"
'''


def reading(number, second, arrival):
    t = None if second is None else f"2024-01-01T00:{second // 60:02}:{second % 60:02}Z"
    came = f"2024-01-01T01:{arrival // 60:02}:{arrival % 60:02}Z"
    return {"id": number, "t": t, "arrival": came, "x": 1.0}


# In order of arrival; every 10th is 100 seconds late, every 15th has no event time.
ROWS = [
    reading(i, None if i % 15 == 7 else 5 * i - 100 * (i % 10 == 9 and i > 20), i)
    for i in range(120)
]


@pytest.mark.spark
def test_page_command_line_metrics_explain_and_sinks_agree(spark, tmp_path):
    put(tmp_path / "in", "a.json", ROWS)
    console, seen = RedactingConsole(file=io.StringIO(), width=250), RunView()
    pipeline = parse_pipeline(PIPELINE, tmp_path / "p.toml")
    assert run(spark, pipeline, console, once=True, view=seen) == 0
    said = console.file.getvalue()
    late, on_time = (written(tmp_path / name).to_pylist() for name in ("late", "rows"))
    invalid = [row for row in late if row["t"] is None]
    held = len(ROWS) - len(late) - len(on_time)
    too_late = len(late) - len(invalid)  # rows without a time are not too late
    share = too_late / (len(ROWS) - len(invalid))
    assert (len(late), len(invalid), held) == (18, 8, 2)
    assert all(row["late"] for row in late)
    assert all(row["punctuation"] is None for row in invalid)

    # The command line.
    counted = f"reorder_intake: 120 rows, {len(late)} marked late, {len(invalid)} invalid"
    assert said.count(counted) == 2  # for the sinks of `ordered` together, and for the windows
    assert f"{too_late} rows came too late ({share:.2%} of 112)" in said
    assert f"{held} rows held until" in said

    # The page.
    queries = {query["name"]: query for query in view(seen.metrics, seen.about)["queries"]}
    queries = {name: query for name, query in queries.items() if query["operators"]}
    assert len(queries) == 2
    for query in queries.values():
        assert (query["late"], query["held"]) == (too_late, held)
        assert query["late_share"] == pytest.approx(share)
        (intake,) = (of for of in query["operators"] if of["name"] == "reorder_intake")
        assert intake["late_share"] == pytest.approx(share)
        assert query["points"][-1]["late"] == pytest.approx(share)

    # Metrics, for every query under the user's name for it.
    found = {(s.metric.name, *s.labels[:2]): s.value for s in samples(seen.metrics)}
    for query in queries:
        of = (query, "reorder_intake")
        assert found["sfumato_operator_rows", *of] == 120
        assert found["sfumato_operator_late", *of] == len(late)
        assert found["sfumato_operator_invalid", *of] == len(invalid)
        assert found["sfumato_reorder_held_rows", *of] == held
        assert found["sfumato_late_share", *of] == pytest.approx(share)

    # The window: rows between extents are outside; none is late for it.
    means = "means", "window_means"
    assert found["sfumato_operator_outside", *means] > 0
    taken = sum(row["n"] for row in written(tmp_path / "means").to_pylist())
    assert (
        taken <= found["sfumato_operator_rows", *means] - found["sfumato_operator_outside", *means]
    )

    # EXPLAIN.
    plan = seen.about["rows"].plan
    assert "rows without valid times are emitted with late = true" in plan
