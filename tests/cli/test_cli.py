"""The command line: whole pipelines on real Spark, their ends and their errors."""

import re
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from threading import Timer

import pytest
from typer.testing import CliRunner

from pipeline_runs import put, ran, written
from sfumato.cli import main
from sfumato.cli import run as cli_run
from sfumato.cli.check import check_pipeline
from sfumato.cli.main import app
from sfumato.cli.pipeline.model import PipelineError
from sfumato.cli.pipeline.parse import parse_pipeline
from sfumato.cli.plan import build_plan

PIPELINE = """
checkpoint = "state"

[sources.readings]
format = "json"
path = "in"
schema = "id int, t timestamp, arrival timestamp"

[queries.ordered]
sql = "SELECT * FROM readings [WATTR t ARRIVAL arrival SLACK 2]"

[queries.answers]
sql = "SELECT id, late FROM ordered"

[sinks.out]
query = "answers"
format = "parquet"
path = "out"
"""


def rows(*minutes: tuple[int, int]) -> list[dict]:
    """Build rows of (id, event time in minutes); a row arrives at minute `id` of the next hour."""
    return [
        {
            "id": number,
            "t": f"2024-01-01T00:{minute:02}:00Z",
            "arrival": f"2024-01-01T01:{number:02}:00Z",
        }
        for number, minute in minutes
    ]


# In order of arrival: with SLACK 2, the event time 4 is late, and the last two stay held.
FIRST = rows((1, 1), (2, 5), (3, 3), (4, 8), (5, 7), (6, 4))
THEN = rows((7, 9), (8, 12), (9, 10))


def by_id(folder: Path) -> list[tuple[int, bool]]:
    """Return the rows of a Parquet sink, by id."""
    table = written(folder)
    return sorted(zip(table["id"].to_pylist(), table["late"].to_pylist(), strict=True))


# ---- usage ---------------------------------------------------------------------------------------


def test_without_arguments_the_commands_are_listed():
    answer = CliRunner().invoke(app, [])
    for command in ("run", "watch", "explain"):
        assert command in answer.output


@pytest.mark.parametrize("command", ["run", "explain"])
def test_a_wrong_file_ends_with_2_before_spark_starts(command, tmp_path):
    answer = CliRunner().invoke(app, [command, str(tmp_path / "none.toml")])
    assert answer.exit_code == 2
    assert "no such file" in answer.output
    (tmp_path / "p.toml").write_text("sink = 1")
    answer = CliRunner().invoke(app, [command, str(tmp_path / "p.toml")])
    assert answer.exit_code == 2
    assert "did you mean `sinks`?" in answer.output


@pytest.mark.parametrize("arguments", [["run"], ["run", "--onec", "x"], ["fly"]])
def test_unknown_commands_and_options_end_with_2(arguments):
    assert CliRunner().invoke(app, arguments).exit_code == 2


def test_watch_is_run_with_a_page(monkeypatch, tmp_path):
    asked = {}
    monkeypatch.setattr(main, "run", lambda file, **options: asked.update(options, file=file))
    file = tmp_path / "p.toml"
    assert CliRunner().invoke(app, ["watch", str(file), "--port", "8000"]).exit_code == 0
    wanted = {"watch": True, "watch_port": 8000, "cores": None, "verbose": False}
    assert asked == {**wanted, "file": file}


# ---- pipelines -----------------------------------------------------------------------------------


def test_once_ends_although_a_query_has_an_idle_timeout(spark, tmp_path):
    put(tmp_path / "in", "a.json", FIRST)
    limit = Timer(300, lambda: [query.stop() for query in spark.streams.active])
    limit.start()
    code, said = ran(spark, tmp_path, PIPELINE.replace("SLACK 2", "SLACK 2 IDLE 1 HOUR"))
    assert limit.is_alive()
    limit.cancel()
    assert code == 0
    assert "micro-batch 0" in said
    assert "micro-batch 1" not in said


@pytest.mark.parametrize(
    ("idle", "given", "trigger"),
    [("", "", None), (" IDLE 1 HOUR", "", "1 second"), (" IDLE 1 HOUR", "5 seconds", "5 seconds")],
)
def test_a_query_with_an_idle_timeout_pauses_between_micro_batches(
    spark, tmp_path, monkeypatch, idle, given, trigger
):
    followed = []
    monkeypatch.setattr(cli_run, "follow", lambda queries, log: followed.extend(queries) or 0)
    put(tmp_path / "in", "a.json", FIRST)
    text = PIPELINE.replace("SLACK 2", f"SLACK 2{idle}")
    ran(spark, tmp_path, f'{text}trigger = "{given}"' if given else text)
    assert [query.sink.trigger for query in followed] == [trigger]


def test_once_processes_what_is_there_says_what_is_held_and_a_restart_goes_on(spark, tmp_path):
    put(tmp_path / "in", "a.json", FIRST)
    code, said = ran(spark, tmp_path, PIPELINE)
    assert code == 0
    assert by_id(tmp_path / "out") == [(1, False), (2, False), (3, False), (6, True)]
    assert "2 rows held until" in said
    assert "1 row came too late" in said
    put(tmp_path / "in", "b.json", THEN)
    code, said = ran(spark, tmp_path, PIPELINE)
    assert code == 0
    assert [row for row, late in by_id(tmp_path / "out") if not late] == [1, 2, 3, 4, 5, 7]
    assert "2 rows held until" in said


def test_once_with_flush_lets_out_what_is_held_and_the_next_run_goes_on(spark, tmp_path):
    text = f"flush = true\n{PIPELINE}"
    put(tmp_path / "in", "a.json", FIRST)
    code, said = ran(spark, tmp_path, text)
    assert code == 0
    out = [(1, False), (2, False), (3, False), (4, False), (5, False), (6, True)]
    assert by_id(tmp_path / "out") == out
    assert "held until" not in said
    put(tmp_path / "in", "b.json", [*THEN, *rows((10, 6))])
    code, said = ran(spark, tmp_path, text)
    assert code == 0
    out += [(7, False), (8, False), (9, False), (10, True)]
    assert by_id(tmp_path / "out") == out
    assert "held until" not in said
    assert "reorder_ordered: 4 rows, 1 marked late" in said  # with the query's name
    assert re.search(r"out +2 +4 +\d+ +4 ", said)  # micro-batches, rows in, per second, rows out
    code, said = ran(spark, tmp_path, PIPELINE)  # a stream that never ends is a different query
    assert code == 1
    assert "the checkpoint has a different number of sources: `flush`" in said


def test_a_console_sink_shows_the_newest_rows_and_keeps_the_state_of_all_partitions(
    spark, tmp_path
):
    put(tmp_path / "in", "a.json", FIRST)
    text = PIPELINE.replace('format = "parquet"\npath = "out"', "rows = 2")
    code, said = ran(spark, tmp_path, text)
    assert code == 0
    assert "out: the newest 2 rows" in said
    put(tmp_path / "in", "b.json", THEN)
    code, said = ran(spark, tmp_path, text)
    assert code == 0
    rows = [line.split("│")[1].strip() for line in said.splitlines() if line.startswith("│")]
    assert rows == ["4", "7"]  # in event-time order: 7 minutes (id 5), 8 (4), 9 (7)


def test_a_played_file_and_a_static_table_meet_in_one_query(spark, tmp_path):
    (tmp_path / "trips.csv").write_text("arrival,room\n3,a\n1,b\n2,a\n")
    (tmp_path / "rooms.csv").write_text("room,floor\na,1\nb,2\n")
    text = """
        [sources.trips]
        replay = "trips.csv"
        order = "arrival"
        rows_per_batch = 2
        [sources.rooms]
        format = "csv"
        path = "rooms.csv"
        static = true
        options = { header = true }
        [queries.floors]
        sql = "SELECT arrival, floor FROM trips JOIN rooms USING (room)"
        [sinks.streamed]
        query = "floors"
        [sinks.tables]
        query = "rooms"
    """
    code, said = ran(spark, tmp_path, text)
    assert code == 0
    assert "streamed: the newest 3 rows" in said
    assert "tables: the first 2 rows" in said
    assert "No checkpoint folder" in said


def test_a_query_that_fails_ends_with_1_and_one_line_of_cause(spark, tmp_path):
    put(tmp_path / "in", "a.json", FIRST)
    text = PIPELINE.replace(
        "SELECT id, late", "SELECT id, IF(id = 3, raise_error('no such sensor'), late) AS late"
    )
    code, said = ran(spark, tmp_path, text)
    assert code == 1
    assert "Failed: sink out:" in said
    assert "no such sensor" in said
    for noise in ("Traceback", "\tat ", "org.apache", "SQLSTATE"):
        assert noise not in said


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("FROM ordered", "FROM orderd", "`queries.answers.sql`: line 1, column 22"),
        ("id int, t timestamp", "id itn", "`sources.readings.schema`: "),
        ("ARRIVAL arrival", "ARRIVAL arival", "did you mean arrival?"),
        (
            "SELECT id, late",
            "SELECT id, late, id + 1 AS ID",
            "`sinks.out` writes the rows of answers",
        ),
        ('format = "json"', 'format = "jsn"', "`sources.readings`:"),
        ('format = "parquet"', 'format = "parquett"', "`sinks.out`:"),
        ('path = "out"', 'path = "out"\nmode = "complete"', "`sinks.out`:"),
    ],
)
def test_what_spark_or_our_sql_refuse_is_told_with_its_place(spark, tmp_path, old, new, said):
    put(tmp_path / "in", "a.json", FIRST)
    assert old in PIPELINE
    with pytest.raises(PipelineError) as caught:
        ran(spark, tmp_path, PIPELINE.replace(old, new))
    assert said in str(caught.value)
    assert "\tat " not in str(caught.value)
    pipeline = parse_pipeline(PIPELINE.replace(old, new), tmp_path / "p.toml")
    with pytest.raises(PipelineError) as refused:
        list(check_pipeline(spark, pipeline))
    assert str(refused.value) == str(caught.value)
    assert not spark.streams.active


def test_check_refuses_late_rows_that_no_file_can_have_and_leaves_nothing(spark, tmp_path):
    put(tmp_path / "in", "a.json", FIRST)
    text = PIPELINE.replace("SELECT id, late", "SELECT id, late, INTERVAL '1' DAY AS day")
    text = text.replace('path = "out"', 'path = "out"\nlate = "./late"')
    for attempt in (ran, list_checked):
        with pytest.raises(PipelineError, match="which files cannot store"):
            attempt(spark, tmp_path, text)
    assert "No problems found." in list_checked(spark, tmp_path, PIPELINE)
    assert not spark.streams.active
    assert {each.name for each in tmp_path.iterdir()} <= {"in", "state"}


def list_checked(spark, folder, text):
    return list(check_pipeline(spark, parse_pipeline(text, folder / "p.toml")))


def test_a_sink_that_would_write_static_rows_is_refused(spark, tmp_path):
    put(tmp_path / "in", "a.json", FIRST)
    text = PIPELINE.replace('schema = "id', 'static = true\nschema = "id')
    with pytest.raises(PipelineError, match="only static sources"):
        ran(spark, tmp_path, text)


def test_explain_tells_what_each_query_does(spark, tmp_path):
    put(tmp_path / "in", "a.json", FIRST)
    pipeline = parse_pipeline(PIPELINE, tmp_path / "p.toml")
    plans = build_plan(spark, pipeline).explanations
    assert list(plans) == ["ordered", "answers"]
    assert ["slack", "2"] in [line.split() for line in plans["ordered"].splitlines()]
    assert not spark.streams.active


@pytest.mark.nightly
def test_an_interrupt_stops_the_command_cleanly_and_once_goes_on_from_there(
    spark, tmp_path, monkeypatch
):
    put(tmp_path / "in", "a.json", FIRST)
    (tmp_path / "p.toml").write_text(PIPELINE)
    running = subprocess.Popen(
        [sys.executable, "-m", "sfumato.cli.main", "run", str(tmp_path / "p.toml")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 200
    while not (tmp_path / "state" / "out" / "commits" / "0").exists():
        assert running.poll() is None, running.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.1)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert (running.returncode, err) == (0, "")
    assert "Stopping" in out
    put(tmp_path / "in", "b.json", THEN)
    started = nullcontext(spark)
    monkeypatch.setattr("sfumato.cli.session.command_session", lambda *_, **__: started)
    done = CliRunner().invoke(app, ["run", str(tmp_path / "p.toml"), "--once"])
    assert done.exit_code == 0, done.output
    assert [row for row, late in by_id(tmp_path / "out") if not late] == [1, 2, 3, 4, 5, 7]
