"""The pipeline file: what it may say, and how it is told what is wrong."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from sfumato.cli.failures import first_cause
from sfumato.cli.follow import Running, follow
from sfumato.cli.log import Log
from sfumato.cli.pipeline.checks import check_paths
from sfumato.cli.pipeline.model import Query, Sink, Source
from sfumato.cli.pipeline.parse import parse_pipeline, read_pipeline
from sfumato.cli.pipeline.section import PipelineError
from sfumato.cli.tables import LONGEST, WIDEST, cell
from sfumato.metrics.figures import Figures
from sfumato.metrics.held_back import HeldBack
from sfumato.metrics.progress import GAUGES, QueryProgress, by_operator
from sfumato.reproduce.disorder.waiting import fixed_watermark, least_slack, waiting
from sfumato.tables.disorder.reorder import ReorderTableConfig

SOURCE = '[sources.s]\nformat = "json"\npath = "in"\n'
SINK = '[sinks.out]\nquery = "s"\n'


def parse(text):
    return parse_pipeline(text, Path("/data/pipes/pipeline.toml"))


def complaint(text):
    with pytest.raises(PipelineError) as caught:
        parse(text)
    return str(caught.value)


def test_a_file_that_uses_everything_is_read_as_written():
    pipeline = parse(
        """
        checkpoint = "state"

        [sources.sensors]
        format = "json"
        path = "s3://bucket/in"
        schema = "id string, t timestamp"
        options = { maxFilesPerTrigger = 1, multiLine = true }

        [sources.trips]
        replay = "trips.parquet"
        order = "arrival"
        speed = 60
        rows_per_batch = 500
        options = { file_format = "parquet" }

        [sources.rooms]
        format = "csv"
        path = "/rooms.csv"
        static = true

        [queries.near]
        sql = "SELECT * FROM sensors"

        [sinks.out]
        query = "near"
        format = "parquet"
        path = "../out"
        mode = "complete"
        trigger = "1 second"
        options = { compression = "zstd" }

        [sinks.screen]
        query = "trips"
        rows = 3
        """
    )
    played = {
        "file_format": "parquet",
        "order": "arrival",
        "speed": "60",
        "rows_per_batch": "500",
    }
    assert pipeline.checkpoint == "/data/pipes/state"
    assert pipeline.sources == (
        Source(
            "sensors",
            "json",
            {"maxFilesPerTrigger": "1", "multiLine": "true"},
            "id string, t timestamp",
            "s3://bucket/in",
        ),
        Source("trips", "replay", played, path="/data/pipes/trips.parquet"),
        Source("rooms", "csv", path="/rooms.csv", static=True),
    )
    assert pipeline.queries == (Query("near", "SELECT * FROM sensors"),)
    assert pipeline.sinks == (
        Sink(
            "out",
            "near",
            "parquet",
            "/data/pipes/../out",
            "complete",
            {"compression": "zstd"},
            "1 second",
        ),
        Sink("screen", "trips", rows=3),
    )


def test_little_is_needed():
    pipeline = parse(SOURCE + SINK)
    assert pipeline.checkpoint is None
    assert pipeline.sinks == (Sink("out", "s", "console", None, "append", {}, None, 10),)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sinks = 1", "`sinks` must be tables [sinks.NAME]; got 1"),
        ("querys = {}\n" + SOURCE + SINK, "`querys` is not known; a pipeline may have checkpoint,"),
        ("querys = {}\n" + SOURCE + SINK, "did you mean `queries`?"),
        (SOURCE + "shema = 'a int'\n" + SINK, "`sources.s.shema` is not known"),
        (SOURCE + "shema = 'a int'\n" + SINK, "did you mean `schema`?"),
        (SOURCE + "speed = 2\n" + SINK, "may have format, path, schema, options, static"),
        (SOURCE + SINK + "modus = 'append'", "did you mean `mode`?"),
        (SOURCE + "[queries.q]\nquery = 'x'\n" + SINK, "this table may have sql"),
        (SOURCE + "[queries.q]\n" + SINK, "`queries.q.sql` is missing, for example sql ="),
        (SOURCE + "[queries.q]\nsql = ' '\n" + SINK, "`queries.q.sql` must not be empty"),
        (SOURCE + "[queries]\nq = 'SELECT 1'\n" + SINK, "must be a table [queries.q]"),
        (SOURCE + "[queries.S]\nsql = 'x'\n" + SINK, "has the name of `sources.s`"),
        (SOURCE + "[queries.2q]\nsql = 'x'\n" + SINK, "does not begin with a digit"),
        (SOURCE + "[queries.'q; x']\nsql = 'x'\n" + SINK, "letters, digits and _"),
        ("[sources.s]\npath = 'in'\n" + SINK, "needs a format of Spark's and its options"),
        ("[sources.s]\nformat = 3\n" + SINK, "`sources.s.format` must be a text; got 3"),
        ("[sources.s]\nreplay = 'f'\nformat = 'csv'\n" + SINK, "`sources.s.format` is not known"),
        ("[sources.s]\nreplay = 'f'\nspeed = 2\n" + SINK, "needs `sources.s.order`"),
        ("[sources.s]\nreplay = 'f'\norder = 'a'\nspeed = 0\n" + SINK, "a number above 0"),
        ("[sources.s]\nreplay = 'f'\norder = 'a'\nspeed = inf\n" + SINK, "a number above 0"),
        ("[sources.s]\nreplay = 'f'\nspeed = true\n" + SINK, "must be a number"),
        ("[sources.s]\nreplay = 'f'\nrows_per_batch = 0\n" + SINK, "must be at least 1; got 0"),
        ("[sources.s]\nreplay = 'f'\nrows_per_batch = 0.5\n" + SINK, "a whole number of rows"),
        ("[sources.s]\nreplay = 'f'\nrows_per_batch = 5\nstatic = true\n" + SINK, "read at once"),
        (SOURCE + "static = 'yes'\n" + SINK, "`sources.s.static` must be true or false"),
        (SOURCE + "options = 'x'\n" + SINK, "must be a table of options"),
        (SOURCE + "options = { a = [1] }\n" + SINK, "`sources.s.options.a` must be a text"),
        (SOURCE + "options = { Path = '/' }\n" + SINK, "give the path as `sources.s.path`"),
        (SINK, "the file names no source"),
        (SOURCE, "the file names no sink"),
        (SOURCE + "[sinks.out]\n", "`sinks.out.query` is missing"),
        (SOURCE + "[queries.near]\nsql = 'x'\n[sinks.out]\nquery = 'nera'\n", "`near`?"),
        (SOURCE + SINK + "mode = 'apend'", "must be append, update, complete; got 'apend'"),
        (SOURCE + SINK + "trigger = 'often'", "sinks.out.trigger"),
        (SOURCE + SINK + "trigger = '0 seconds'", "longer than nothing"),
        (SOURCE + SINK + "path = 'x'", "a console has no path"),
        (SOURCE + SINK + "rows = 0", "must lie in 1 to 1000; got 0"),
        (SOURCE + SINK + "rows = 2\nformat = 'csv'", "this sink writes csv"),
        ("checkpoint = 1\n" + SOURCE + SINK, "`checkpoint` must be a text; got 1"),
        ("sources = [", "is no TOML file"),
    ],
)
def test_each_mistake_is_told_with_its_place_and_what_would_be_right(text, said):
    assert said in complaint(text)


def test_a_missing_or_unreadable_file_is_named(tmp_path):
    with pytest.raises(PipelineError, match="there is no file"):
        read_pipeline(tmp_path / "none.toml")
    (tmp_path / "latin.toml").write_bytes(b'checkpoint = "\xe9"')
    with pytest.raises(PipelineError, match="cannot be read"):
        read_pipeline(tmp_path / "latin.toml")


def test_a_source_that_is_not_there_is_told_with_its_key(tmp_path):
    (tmp_path / "in").mkdir()
    for source, key in (('format = "json"\npath = "no"', "path"), ('replay = "no.csv"', "replay")):
        text = f"[sources.s]\n{source}\n{SINK}"
        with pytest.raises(PipelineError, match=f"`sources.s.{key}`: there is no file or folder"):
            check_paths(parse_pipeline(text, tmp_path / "p.toml"))
    for path in ("in", "s3://bucket/x", "logs/*.json"):
        text = f'[sources.s]\nformat = "json"\npath = "{path}"\n{SINK}'
        check_paths(parse_pipeline(text, tmp_path / "p.toml"))


def test_a_sink_cannot_move_its_checkpoint_unseen():
    text = SOURCE + '[sinks.out]\nquery = "s"\noptions = { CheckpointLocation = "x" }\n'
    assert 'give that, checkpoint = "..." at the top' in complaint(text)


def test_the_examples_are_pipelines():
    for file in sorted((Path(__file__).parents[2] / "examples").glob("*.toml")):
        pipeline = read_pipeline(file)
        for source in pipeline.sources:
            assert Path(source.path).exists()


# ---- progress ------------------------------------------------------------------------------------


class Observed(dict):
    def asDict(self):  # noqa: N802
        return dict(self)


def report(batch, rows, *, ran=True, stamp="", **observed):
    return SimpleNamespace(
        batchId=batch,
        timestamp=stamp or f"t{batch}",
        durationMs={"addBatch": 1, "triggerExecution": 500} if ran else {"triggerExecution": 1},
        sources=[SimpleNamespace(numInputRows=rows, endOffset="7")],
        observedMetrics={name: Observed(values) for name, values in observed.items()},
    )


def test_reports_seen_again_count_once_and_idle_looks_are_no_batches():
    progress = QueryProgress()
    first = report(0, 10, sfumato_rows_out={"rows": 8})
    second = report(1, 5, sfumato_rows_out={"rows": 5})
    progress.take([first])
    progress.take([first, second, report(2, 0, ran=False)])
    assert (progress.batches, progress.rows_in, progress.rows_out) == (2, 15, 13)


def test_each_row_is_counted_once_whatever_operators_stand_behind_one_another():
    progress = QueryProgress()
    (batch,) = progress.take(
        [
            report(
                0,
                10,
                sfumato_reorder_1={"rows": 10, "late": 2, "invalid": 1},
                sfumato_reorder_berlin={"rows": 10, "late": 3, "invalid": 0, "out_of_order": 4},
                sfumato_join_2_left={"rows": 9, "invalid": 3},
                sfumato_join_2_right={"rows": 9, "invalid": 2},
                sfumato_window_3={"rows": 9, "late": 5, "out_of_order": 1},
                sfumato_top_k_4_answers={"late": 7},
                mine={"late": 100},
            )
        ]
    )
    for counted in (progress, batch):
        assert counted.total("late") == 5
        assert counted.total("invalid") == 5
        assert counted.total("out_of_order") == 4
    assert by_operator(progress.counters) == {
        "reorder_1": {"rows": 10, "late": 2, "invalid": 1},
        "reorder_berlin": {"rows": 10, "late": 3, "out_of_order": 4},
        "join_2": {"invalid": 5},
        "window_3": {"rows": 9, "late": 5, "out_of_order": 1},
    }


# ---- the log -------------------------------------------------------------------------------------


def logged(machines, **more):
    console = Console(file=io.StringIO(), width=40)
    log = Log(console, machines=machines)
    counts = {"rows": 10, "late": 2, **more}
    rows_out = {"rows": 8}
    (batch,) = QueryProgress().take(
        [report(3, 10, sfumato_reorder_1=counts, sfumato_rows_out=rows_out)]
    )
    log.batch("out", batch)
    log.said("out", "again in 1 s")
    return console.file.getvalue().splitlines()


def test_a_line_tells_a_micro_batch_and_what_was_counted():
    assert logged(machines=False) == [
        "t3 out: micro-batch 3, 10 rows in, 8 out, 2 late, 0 invalid, 0 out of order, 0.5 s",
        "out: again in 1 s",
    ]


def test_machines_get_json_lines():
    assert [json.loads(line) for line in logged(machines=True)] == [
        {
            "sink": "out",
            "batch": 3,
            "started": "t3",
            "rows_in": 10,
            "rows_out": 8,
            "seconds": 0.5,
            "metrics": {"sfumato_reorder_1": {"rows": 10, "late": 2}},
        },
        {"sink": "out", "event": "again in 1 s"},
    ]


SHOWN = {"oldest": 60_000_000, "punctuation": 30_500_000, "lag": 45_000_000, "slowest": None}


def test_what_a_reorder_holds_stands_in_the_line_and_is_not_added_up():
    line = logged(machines=False, held=3, **SHOWN)[0]
    assert line.endswith(
        "0.5 s; reorder_1 holds 3 from 1970-01-01 00:01:00 on, "
        "punctuation 1970-01-01 00:00:30.500000, 45 s behind"
    )
    metrics = json.loads(logged(machines=True, held=3, **SHOWN)[0])["metrics"]
    assert metrics == {"sfumato_reorder_1": {"rows": 10, "late": 2, "held": 3, **SHOWN}}
    progress = QueryProgress()
    for number in (0, 1):
        progress.take([report(number, 5, sfumato_reorder_1={"rows": 5, "held": 2, **SHOWN})])
    assert progress.counters == {"sfumato_reorder_1": {"rows": 10, "held": 4}}


def said(watch, now, *, number=0, **counts):
    batches = []
    if counts:
        batches = QueryProgress().take([report(number, 5, sfumato_reorder_in=counts)])
    return list(watch.look(batches, now))


def test_a_reorder_that_lets_nothing_out_for_long_says_so_and_for_whom():
    watch = HeldBack()
    stuck = {"rows": 9, "held": 7, "late": 2, **SHOWN, "slowest": "berlin"}
    assert said(watch, 0.0, **stuck) == []
    assert said(watch, 59.0, **stuck) == []
    assert said(watch, 61.0) == [
        "reorder_in has let no row out in order for 61 s and holds 14 rows, the oldest of "
        "1970-01-01 00:01:00; it waits for berlin (an idle timeout lets them out)"
    ]
    assert said(watch, 90.0, **stuck) == []  # it is not said again at once
    assert len(said(watch, 125.0)) == 1
    assert said(watch, 126.0, **{**stuck, "held": 6}) == []  # one came out
    assert said(watch, 185.0, **stuck) == []
    assert len(said(watch, 187.0)) == 1


def test_the_command_line_knows_what_a_reorder_shows():
    assert tuple(ReorderTableConfig.gauges) == GAUGES


def test_a_reorder_that_holds_nothing_may_be_silent():
    watch = HeldBack()
    assert said(watch, 0.0, rows=9, held=0, late=0, oldest=None, lag=0) == []
    assert said(watch, 999.0) == []


# ---- second attempts -----------------------------------------------------------------------------


class EndedQuery:
    """A streaming query that ended, perhaps with an error."""

    isActive, recentProgress, lastProgress = False, (), None  # noqa: N815

    def __init__(self, error):
        self.error = error

    def exception(self):
        return self.error

    def stop(self):
        pass


KILLED = RuntimeError("Job aborted: Python worker exited unexpectedly (crashed)")
OWN = RuntimeError("Traceback (most recent call last):\nValueError: no such sensor")


def attempted(errors, monkeypatch):
    """Exit code, how often a sink was started, and what was said, if it fails in these ways."""
    monkeypatch.setattr("sfumato.cli.follow.FIRST_WAIT", 0.001)
    monkeypatch.setattr("sfumato.cli.follow.LOOK_EVERY", 0.002)
    left, console = list(errors), Console(file=io.StringIO(), width=200)
    frame = SimpleNamespace(columns=[])
    sink = Running(Sink("out", "q"), "out", frame, lambda _: EndedQuery(left.pop(0)))
    code = follow([[sink]], console, Log(console))
    return code, len(errors) - len(left), console.file.getvalue()


def test_a_sink_that_lost_a_worker_starts_again_and_says_so(monkeypatch):
    code, starts, said = attempted([KILLED, KILLED, None], monkeypatch)
    assert (code, starts) == (0, 3)
    assert "worker exited unexpectedly (crashed); attempt 2 of 5 in 0.001 s" in said
    assert "attempt 3 of 5 in 0.002 s" in said


def test_a_failure_of_the_query_or_one_that_stays_ends_the_run(monkeypatch):
    code, starts, said = attempted([OWN, None], monkeypatch)
    assert (code, starts) == (1, 1)
    assert "Failed: sink out: no such sensor" in said
    code, starts, _ = attempted([KILLED] * 9, monkeypatch)
    assert (code, starts) == (1, 5)


def test_who_watches_sees_a_failure_and_an_end(monkeypatch):
    for error, cause in ((None, None), (OWN, "no such sensor")):
        figures = Figures()
        frame = SimpleNamespace(columns=[])
        sink = Running(Sink("out", "q"), "out", frame, lambda _, error=error: EndedQuery(error))
        sink.figures = figures
        console = Console(file=io.StringIO())
        follow([[sink]], console, Log(console))
        (query,) = figures.queries()
        assert (query.active, query.error) == (False, cause)
        assert not sink.interrupted


def test_an_interrupt_is_remembered(monkeypatch):
    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("sfumato.cli.follow.time.sleep", interrupt)
    sink = Running(Sink("out", "q"), "out", SimpleNamespace(columns=[]), lambda _: EndedQuery(None))
    console = Console(file=io.StringIO())
    assert follow([[sink]], console, Log(console)) == 0
    assert sink.interrupted


def test_rows_in_and_not_out_of_a_reorder_are_held():
    progress = QueryProgress()
    assert progress.held is None
    counted = {"rows": 10, "late": 0}
    progress.take([report(0, 10, sfumato_reorder_1=counted, sfumato_rows_out={"rows": 7})])
    assert progress.held == 3


def test_what_the_operators_count_as_held_is_believed():
    progress = QueryProgress()
    for batch, change in enumerate((4, -1)):
        progress.take([report(batch, 10, sfumato_reorder_1={"rows": 10, "held": change})])
    assert progress.held == 3


def test_behind_a_join_rows_out_say_nothing_of_what_is_held():
    progress = QueryProgress()
    progress.take([report(0, 9, sfumato_reorder_1={"rows": 9}, sfumato_join_1={"rows": 8})])
    assert progress.held is None


# ---- errors and cells ----------------------------------------------------------------------------


def test_an_error_is_told_by_its_cause_without_java_or_python_traces():
    text = (
        "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted\n"
        "org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0\n"
        "Traceback (most recent call last):\n"
        '  File "worker.py", line 10, in main\n'
        "    process()\n"
        "ValueError: the file has no column `arival`; did you mean `arrival`?\n"
        "\n"
        "\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:1)\n"
    )
    assert first_cause(RuntimeError(text)) == (
        "the file has no column `arival`; did you mean `arrival`?"
    )


def test_codes_and_class_names_are_left_out_of_java_errors():
    text = (
        "Job aborted due to stage failure\n"
        "Caused by: java.lang.ArithmeticException: [DIVIDE_BY_ZERO] Division by zero. "
        "SQLSTATE: 22012\n\tat org.apache.spark.Some.method(Some.scala:1)"
    )
    assert first_cause(RuntimeError(text)) == "Division by zero."


def test_an_error_without_words_is_told_by_its_kind():
    assert first_cause(KeyError()) == "KeyError"


def test_cells_are_short():
    assert cell(None) == "NULL"
    assert cell(0.1 + 0.2) == "0.3"
    assert len(cell("x" * 100)) == WIDEST
    assert cell(list(range(LONGEST + 1))).endswith("4 in all]")


# ---- waiting -------------------------------------------------------------------------------------


def test_waits_are_from_arrival_to_the_arrival_that_lets_the_row_out():
    import numpy as np

    #        event     1 4 2 9    a watermark 2 behind the newest: -1 2 2 7
    #        arrival   1 5 7 9    row 1 waits until 5, row 4 until 9; row 2 is late; row 9 waits
    event, arrival = np.array([1, 4, 2, 9]), np.array([1, 5, 7, 9])
    punctuation = fixed_watermark(event, 2)
    assert punctuation.tolist() == [-1, 2, 2, 7]
    result = waiting(event, arrival, punctuation)
    assert (result.rows, result.late, result.waiting) == (4, 1, 1)
    assert result.mean == (4 + 4) / 2


def test_the_least_slack_lets_just_so_many_rows_be_late():
    import numpy as np

    rng = np.random.default_rng(5)
    event = np.sort(rng.integers(0, 10_000, 500)) - rng.integers(0, 300, 500)
    arrival = np.arange(500)
    for late in (0, 1, 7, 50):
        slack = least_slack(event, late)
        assert waiting(event, arrival, fixed_watermark(event, slack)).late <= late
        if slack:
            assert waiting(event, arrival, fixed_watermark(event, slack - 1)).late > late
