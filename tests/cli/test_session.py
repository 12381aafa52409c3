"""Settings of the sessions that commands start."""

import signal
import subprocess

import pytest
from py4j.protocol import Py4JError
from pyspark import java_gateway

from sfumato.cli import session
from sfumato.cli.configure import CONF_VARIABLES
from sfumato.cli.failures import LostJavaError


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch):
    for name in ("PYSPARK_SUBMIT_ARGS", *CONF_VARIABLES):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(("memory", "heap"), [(2, "1024m"), (8, "2048m"), (64, "4096m")])
def test_java_has_a_quarter_of_the_memory_within_bounds(monkeypatch, memory, heap):
    monkeypatch.setattr(session, "available_memory", lambda: memory << 30)
    assert session.heap_settings() == {"spark.driver.memory": heap}


@pytest.mark.parametrize(
    ("name", "value"),
    [("PYSPARK_SUBMIT_ARGS", "--driver-memory 2g pyspark-shell"), ("SPARK_CONF_DIR", "/conf")],
)
def test_a_heap_that_the_environment_says_stays(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    assert session.heap_settings() == {}


def test_an_interrupted_start_ends_the_java_process(monkeypatch):
    """Otherwise that process waits forever for a connection, because PySpark does not stop it."""
    started = []

    def interrupted_session(*_, **__):
        started.append(java_gateway.Popen(["sleep", "60"]))
        raise KeyboardInterrupt

    monkeypatch.setattr(session, "session", interrupted_session)
    with pytest.raises(KeyboardInterrupt):
        session._started(session.LOCAL)
    assert started[0].wait(10) == -signal.SIGTERM
    assert java_gateway.Popen is subprocess.Popen


@pytest.mark.parametrize("error", [ConnectionRefusedError(), Py4JError("no answer")])
def test_a_lost_java_process_is_reported_in_one_line(monkeypatch, error):
    ended = session._reported_loss([subprocess.Popen(["true"])])
    with pytest.raises(LostJavaError, match="The next run continues"), ended:
        raise error
    monkeypatch.setattr(session, "LAST_SECONDS", 0.01)
    with subprocess.Popen(["sleep", "60"]) as java:
        with pytest.raises(type(error)), session._reported_loss([java]):
            raise error
        java.kill()
