"""`sf.ops.watch` with real queries, and a pipeline run with its page and metrics."""

import io
import json
import time

import httpx
import pytest

import sfumato as sf
from pipeline_runs import put
from sfumato.cli.pipeline.environment import RedactingConsole
from sfumato.cli.pipeline.parse import parse_pipeline
from sfumato.cli.run import run, serve_run
from sfumato.metrics.history import QUANTILES, quantile

ROWS = [
    {"id": i, "t": f"2024-01-01T00:{i * 7 % 60:02}:00Z", "arrival": f"2024-01-01T01:{i:02}:00Z"}
    for i in range(60)
]
SCHEMA = "id int, t timestamp, arrival timestamp"
FILE = f"""
flush = true
[sources.readings]
format = "json"
path = "in"
schema = "{SCHEMA}"
[queries.ordered]
sql = "SELECT id, late, 0.25D AS probability FROM readings [WATTR t ARRIVAL arrival DRATIO 10%]"
[queries.all]
sql = "SELECT * FROM ordered"
[sinks.screen]
query = "all"
rows = 3
"""


def metrics_of(url):
    address, token = url.split("/?token=")
    headers = {"authorization": f"Bearer {token}"}
    return httpx.get(f"{address}/state", headers=headers, timeout=60.0).json()["queries"]


def awaited(url, name, rows):
    """Return a query's metrics once it has read `rows` rows; reports arrive a moment later."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        for query in metrics_of(url):
            if query["name"] == name and query["rows_in"] >= rows and not query["active"]:
                return query
        time.sleep(0.2)
    raise AssertionError(metrics_of(url))


def test_watch_shows_what_a_query_of_the_session_reports(spark, tmp_path):
    put(tmp_path / "in", "a.json", ROWS)
    with sf.ops.watch(spark) as page:
        readings = spark.readStream.schema(SCHEMA).json(str(tmp_path / "in"))
        readings = readings.withColumn("half", readings.id < 30)
        how = {"slack": 5, "key": "half", "name": "watched"}
        rows = sf.reorder(readings, event_time="t", arrival="arrival", **how)
        writer = rows.writeStream.format("memory").queryName("watched").trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(tmp_path / "state")).start()
        query.awaitTermination()
        found = awaited(page.url, "watched", len(ROWS))
        observed = query.recentProgress[-1].observedMetrics["sfumato_reorder_watched"].asDict()
    (operator,) = found["operators"]
    assert operator["name"] == "reorder_watched"
    assert (observed["kind"], observed["operator"]) == ("reorder", "reorder_watched")
    assert operator["counts"] == {name: observed[name] for name in operator["counts"]}
    assert found["late"] == observed["late"]
    assert found["held"] == operator["counts"]["held"] == 10
    waits = list(map(int, observed["waits"].split(",")))
    assert sum(waits) == observed["rows"] - observed["late"] - observed["held"] > 0
    assert found["waits"] == operator["waits"] == [quantile(waits, q) for q in QUANTILES]
    assert 60 <= found["waits"][0] <= found["waits"][1]  # one row per minute
    assert found["waited"] == observed["waited"] / 1e6 > 60
    assert operator["keys"] == observed["keys"] == observed["new_keys"] == 2
    assert found["state"]["memory"] > 0
    with pytest.raises(httpx.ConnectError):
        metrics_of(page.url)


@pytest.mark.parametrize("port", [-1, 70_000, True, "80"])
def test_a_port_that_is_none_is_refused(port):
    with pytest.raises(ValueError, match="`port` must be an integer"):
        sf.ops.watch(None, port)


def test_a_run_shows_its_text_plan_target_and_newest_answers(spark, tmp_path):
    put(tmp_path / "in", "a.json", ROWS)
    console = RedactingConsole(file=io.StringIO(), width=200)
    file = tmp_path / "metrics.jsonl"
    with serve_run(console, 0, metrics_file=file) as seen:
        pipeline = parse_pipeline(FILE, tmp_path / "p.toml")
        assert run(spark, pipeline, console, once=True, view=seen) == 0
        url = console.file.getvalue().split("Watch: ")[1].split()[0]
        (query,) = metrics_of(url)
    assert query["name"] == "screen"
    assert query["rows_in"] == 60
    assert query["sql"] == "SELECT * FROM ordered"
    assert query["target"] == 0.1
    assert query["plan"]
    assert query["answers"]["columns"] == ["id", "late", "probability"]
    assert len(query["answers"]["rows"]) == 3
    assert query["answers"]["rows"][0][2] == ["0.25", 0.25]
    samples = [json.loads(line) for line in file.read_text().splitlines()]
    rows = [one["value"] for one in samples if one["name"] == "sfumato_rows_in_total"]
    assert rows[-1] == 60
