"""Sinks of a query with early answers: append gets final answers, update gets every revision."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from pipeline_runs import put, ran, written
from sfumato.cli.check import check_pipeline
from sfumato.cli.pipeline.model import PipelineError
from sfumato.cli.pipeline.parse import parse_pipeline
from sfumato.cli.plan import build_plan

pytestmark = pytest.mark.spark
START = datetime(2026, 1, 1, 9, tzinfo=UTC)
ROWS = 40  # rows, one per second
PIPELINE = """
checkpoint = "state"
flush = true

[sources.readings]
format = "json"
path = "in"
schema = "at timestamp, x double"

[queries.totals]
sql = "SELECT window, final, revision, COUNT(*) AS n FROM readings [RANGE 10 s WATTR at SLACK 4 EARLY 2 s]"

[sinks.finals]
query = "totals"
format = "parquet"
path = "finals"
"""  # noqa: E501


def test_an_append_sink_gets_only_final_answers(spark, tmp_path):
    pipeline = parse_pipeline(PIPELINE, tmp_path / "p.toml")
    times = [(START + timedelta(seconds=i)).isoformat() for i in range(ROWS)]
    put(tmp_path / "in", "a.json", [{"at": at, "x": 1.0} for at in times])
    code, _ = ran(spark, tmp_path, PIPELINE)
    assert code == 0
    found = written(tmp_path / "finals").sort_by("revision")
    assert found.column("final").to_pylist() == [True] * (ROWS // 10)
    assert found.column("n").to_pylist() == [10] * (ROWS // 10)
    assert min(found.column("revision").to_pylist()) > 1, "earlier revisions were left out"
    assert "parquet" in (said := "\n".join(check_pipeline(spark, pipeline)))
    assert "gets the final answers of totals" in said

    for chosen in ("window.end, final, COUNT(*)", "COUNT(*)", "1 + COUNT(*)"):
        unmarked = PIPELINE.replace("window, final, revision, COUNT(*)", chosen)
        with pytest.raises(PipelineError, match="do not have both `final` and `revision`"):
            list(check_pipeline(spark, parse_pipeline(unmarked, tmp_path / "p.toml")))

    plan = build_plan(spark, pipeline)
    finals = pipeline.sinks[0]
    for every in (replace(finals, mode="update"), replace(finals, format="console")):
        assert not plan.keeps_finals(every)
        assert plan.rows_of(every).sameSemantics(plan.frames["totals"])
