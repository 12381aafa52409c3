"""How a run ends or restarts after a failure, and how errors are reported."""

import errno
import io
import os
import signal
import time
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import StreamingQueryException

from sfumato.cli.failures import find_unwritable, first_cause
from sfumato.cli.output import MAX_CELL, MAX_ELEMENTS, Log, format_cell
from sfumato.cli.pipeline.environment import RedactingConsole
from sfumato.cli.pipeline.model import Sink
from sfumato.cli.run import follow, run
from sfumato.cli.session import _interrupts
from sfumato.cli.sink_query import SinkQuery
from sfumato.metrics.session_metrics import SessionMetrics

# ---- second attempts -----------------------------------------------------------------------------


class EndedQuery:
    """A streaming query that ended, perhaps with an error."""

    isActive, recentProgress, lastProgress = False, (), None  # noqa: N815

    def __init__(self, error):
        self.error, self.over = error, False

    def exception(self):
        return self.error

    def awaitTermination(self):  # noqa: N802
        self.over = True
        if self.error is not None:
            raise StreamingQueryException(str(self.error))

    def stop(self):
        pass


def sink_query(starter, frames=1, **more):
    sink = Sink(name="out", query="q", **more)
    return SinkQuery(sink, "out", [SimpleNamespace(columns=[])] * frames, starter)


def followed(*queries):
    """Return the exit code of a run of these queries, and its output."""
    console = RedactingConsole(file=io.StringIO(), width=400)
    return follow(queries, Log(console)), console.file.getvalue()


KILLED = RuntimeError("Job aborted: Python worker exited unexpectedly (crashed)")
OWN = RuntimeError("Traceback (most recent call last):\nValueError: no such sensor")


def attempted(errors, monkeypatch):
    """Return exit code, starts and output of a sink whose queries end with these errors."""
    monkeypatch.setattr("sfumato.cli.sink_query.FIRST_RETRY_SECONDS", 0.001)
    monkeypatch.setattr("sfumato.cli.run.POLL_INTERVAL_SECONDS", 0.002)
    left = list(errors)
    code, said = followed(sink_query(lambda _: EndedQuery(left.pop(0))))
    return code, len(errors) - len(left), said


def test_a_sink_that_lost_a_worker_starts_again_and_says_so(monkeypatch):
    code, starts, said = attempted([KILLED, KILLED, None], monkeypatch)
    assert (code, starts) == (0, 3)
    assert "worker exited unexpectedly (crashed); attempt 2 of 5 in 0.001 s" in said
    assert "attempt 3 of 5 in 0.002 s" in said


def test_a_sink_starts_again_only_when_its_query_is_over(monkeypatch):
    """Spark reports a query as inactive slightly before its name is free."""
    monkeypatch.setattr("sfumato.cli.sink_query.FIRST_RETRY_SECONDS", 0.001)
    for error, frames in ((None, 2), (KILLED, 1)):
        queries = [EndedQuery(error), EndedQuery(None)]
        over = []

        def starter(_, queries=queries, over=over):
            over.append(queries[0].over)
            return queries[len(over) - 1]

        assert followed(sink_query(starter, frames))[0] == 0
        assert over == [False, True]


def test_a_failure_of_the_query_or_one_that_stays_ends_the_run(monkeypatch):
    code, starts, said = attempted([OWN, None], monkeypatch)
    assert (code, starts) == (1, 1)
    assert "Failed: sink out: no such sensor" in said
    code, starts, _ = attempted([KILLED] * 9, monkeypatch)
    assert (code, starts) == (1, 5)


def test_who_watches_sees_a_failure_and_an_end(monkeypatch):
    for error, cause in ((None, None), (OWN, "no such sensor")):
        metrics = SessionMetrics()
        sink = sink_query(lambda _, error=error: EndedQuery(error))
        sink.metrics = metrics
        followed(sink)
        (query,) = metrics.queries()
        assert (query.active, query.error) == (False, cause)


def test_an_interrupt_in_a_finalizer_which_python_ignores_is_sent_again():
    class Proxy:
        def __del__(self):
            signal.raise_signal(signal.SIGINT)

    def wait():
        with _interrupts():
            proxy = Proxy()
            del proxy
            time.sleep(60)

    before = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        wait()
    assert time.monotonic() - before < 50


def test_an_interrupt_is_remembered_and_no_failure(monkeypatch):
    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("sfumato.cli.run.time.sleep", interrupt)
    sink = sink_query(lambda _: EndedQuery(None))
    assert followed(sink)[0] == 0
    assert sink.interrupted


def test_an_interrupt_that_also_ends_java_is_no_failure(monkeypatch):
    """A service manager may send SIGTERM to all processes of a service."""

    class Lost(EndedQuery):
        def stop(self):
            raise Py4JError("no answer")

    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("sfumato.cli.run._queries", lambda *_: [sink_query(lambda _: Lost(None))])
    console = RedactingConsole(file=io.StringIO())
    pipeline = SimpleNamespace(checkpoint="state")
    with pytest.raises(Py4JError):
        run(None, pipeline, console)
    monkeypatch.setattr("sfumato.cli.run.time.sleep", interrupt)
    assert run(None, pipeline, console) == 0


# ---- errors and cells ----------------------------------------------------------------------------


CAUSES = {
    "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted\n"
    "org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0\n"
    "Traceback (most recent call last):\n"
    '  File "worker.py", line 10, in main\n'
    "    process()\n"
    "ValueError: the file has no column `arival`; did you mean `arrival`?\n\n"
    "\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:1)\n": (
        "the file has no column `arival`; did you mean `arrival`?"
    ),
    "Job aborted due to stage failure\n"
    "Caused by: java.lang.ArithmeticException: [DIVIDE_BY_ZERO] Division by zero. "
    "SQLSTATE: 22012\n\tat org.apache.spark.Some.method(Some.scala:1)": "Division by zero.",
    "Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times, most recent failure:"
    " Lost task 0.3 in stage 1.0 (TID 4) (localhost executor driver): java.io.IOException: "
    "Mkdirs failed to create file:/data/out (exists=false, cwd=file:/)\nDriver stacktrace:\n"
    "=== Streaming Query ===\nIdentifier: o [id = 1, runId = 2]\n"
    "Current Committed Offsets: {}\nThread State: RUNNABLE": (
        "Mkdirs failed to create file:/data/out (exists=false, cwd=file:/)"
    ),
    "": "RuntimeError",
}


def test_an_error_is_told_by_its_cause_without_java_or_python_traces():
    for text, cause in CAUSES.items():
        assert first_cause(RuntimeError(text)) == cause


def test_cells_are_short():
    assert format_cell(None) == "NULL"
    assert format_cell(0.1 + 0.2) == "0.3"
    assert len(format_cell("x" * 100)) == MAX_CELL
    assert format_cell(list(range(MAX_ELEMENTS + 1))).endswith("4 in all]")


# ---- folders -------------------------------------------------------------------------------------


def test_the_folder_that_cannot_be_written_to_is_named_with_the_reason(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    folders = {"the sink's folder": str(tmp_path), "the checkpoint folder": str(tmp_path / "a/b")}
    assert find_unwritable(folders) is None
    below = {**folders, "the sink's folder": str(tmp_path / "file" / "out")}
    assert find_unwritable(below) == (
        f"the sink's folder {tmp_path}/file/out cannot be written to "
        f"({tmp_path}/file is not a folder)"
    )
    for number in (errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT):

        def refuse(*_, number=number, **__):
            raise OSError(number, os.strerror(number))

        with monkeypatch.context() as patch:
            patch.setattr("sfumato.cli.failures.tempfile.TemporaryFile", refuse)
            said = find_unwritable({"the checkpoint folder": str(tmp_path / "a")})
            assert said == (
                f"the checkpoint folder {tmp_path}/a cannot be written to ({os.strerror(number)})"
            )
            assert find_unwritable({"the checkpoint folder": "s3://bucket/state"}) is None
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


def test_a_run_that_fails_names_the_folder(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    error = RuntimeError("Task failed while writing rows")
    sink = sink_query(lambda _: EndedQuery(error), format="parquet", path=f"{tmp_path}/file/out")
    sink.checkpoint = str(tmp_path / "state")
    code, said = followed(sink)
    assert code == 1
    assert "Failed: sink out: Task failed while writing rows: the sink's folder" in said
    assert "file is not a folder" in said


def test_a_checkpoint_that_is_deleted_while_the_query_runs_ends_the_run(tmp_path):
    mark = tmp_path / "state" / "out" / "metadata"
    mark.parent.mkdir(parents=True)
    mark.write_text("{}")
    looks = []

    class Alive(EndedQuery):
        lastProgress = object()  # noqa: N815

        @property
        def isActive(self):  # noqa: N802
            looks.append(1)
            if len(looks) == 5:
                mark.unlink()
            return not self.over

        def stop(self):
            self.over = True

    sink = sink_query(lambda _: Alive(None))
    sink.required_files["the checkpoint folder"] = mark
    code, said = followed(sink)
    assert code == 1
    assert f"the checkpoint folder {mark.parent} was deleted" in said
    assert "start with a new checkpoint" in said


# ---- the plan of a run ---------------------------------------------------------------------------


def test_a_query_starts_once_those_that_it_reads_have_ended_for_good(monkeypatch):
    monkeypatch.setattr("sfumato.cli.sink_query.FIRST_RETRY_SECONDS", 0.001)
    monkeypatch.setattr("sfumato.cli.run.POLL_INTERVAL_SECONDS", 0.002)
    started, errors = [], [KILLED, None, None]

    def starter(query):
        started.append(query.name)
        return EndedQuery(errors.pop(0) if query.name == "shared" else None)

    shared, reader = sink_query(starter, 2), sink_query(starter)
    shared.name, reader.after = "shared", [shared]
    assert followed(shared, reader)[0] == 0
    assert started == ["shared", "shared", "shared", "out"]  # killed, restarted, ended


def test_a_query_whose_shared_query_fails_is_never_started():
    shared, reader = sink_query(lambda _: EndedQuery(OWN)), sink_query(None)
    reader.after = [shared]
    assert followed(shared, reader)[0] == 1
    assert reader.query is None
