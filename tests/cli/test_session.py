"""Settings of the sessions that commands start."""

import pytest

from sfumato.cli import session
from sfumato.cli.configure import CONF_VARIABLES


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
