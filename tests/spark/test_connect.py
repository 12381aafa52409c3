"""Every public function under Spark Connect: a client without JVM, a real server."""

import json
import os
import subprocess
import sys

import pytest

import sfumato as sf
from connect_cases import CASES, STATIC
from public_names import PUBLIC

# Names that need no session, and no Spark frames or columns.
WITHOUT_SPARK = {"Delta", "Range", "Rows", "Session", "Top", "chart", "counters", "warm_up"}
WITHOUT_SPARK |= {*sf.engine_free.__all__, *sf.errors.__all__}
# Called once each by the client, in addition to the cases.
ONCE = {"configure", "declared", "discover_dependencies", "explain", "run_to_end", "settings"}
ONCE |= {"ReplaySource", "watch"}
ELSEWHERE = {"upsert_revisions"}  # needs a table with MERGE: tests/servers/test_delta.py
STATEFUL = {
    *("reorder", "split_late", "window_aggregate", "split_missed", "resample"),
    *("extent_join", "asof_join", "top_k"),
}


def test_every_public_name_is_tried_under_connect_or_needs_no_spark():
    assert set(PUBLIC) == set(CASES) | ONCE | WITHOUT_SPARK | ELSEWHERE


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("connect")
    done = subprocess.run(
        [sys.executable, "-m", "connect_client", str(folder)],
        env={
            **os.environ,
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_TESTING": "1",  # the server takes a free port
        },
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    said = [line for line in done.stderr.splitlines() if not line.startswith("\tat ")]
    assert done.returncode == 0, "\n".join(said)[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.nightly
@pytest.mark.spark
def test_static_frames_through_a_client(found):
    rows = found["static"]
    assert set(rows) == set(CASES)
    assert rows["reorder"] == 40
    assert 0 < rows["split_late"] < 40
    # 400 microseconds: the best two at 100, 200, 300 and 400
    assert rows["top_k"] == 8
    assert rows["impute"] == 40
    # A left row is joined with the right rows 5 and 10 before it, a right row with the equal left
    # row and the one 5 before it.
    assert rows["Imputation"] == (35 + 30) + (40 + 35)
    assert "contain 5 existing ones" in found["explain"]
    assert found["discovered"] > 0
    assert found["left"] == ["event", "arrival", "x", "y", "K"]  # by name, in upper or lower case
    assert found["differing"] == []  # calls with Column objects against calls with names
    assert found["declared"] == {"extents": rows["window_aggregate"]}


@pytest.mark.nightly
@pytest.mark.spark
def test_streams_through_a_client_give_what_static_frames_give(found):
    rows, of_static = found["stream"]["rows"], found["static"]
    assert set(rows) == set(CASES) - STATIC
    for name in rows:  # operators with state buffer answers that later rows would emit
        equal = rows[name] == of_static[name]
        assert equal or (name in STATEFUL and 0 < rows[name] < of_static[name]), name
    assert found["stream"]["ended"] == of_static["reorder"]
    assert found["played"] == 40
    assert found["stream"]["watched"]["all"] > 0


@pytest.mark.nightly
@pytest.mark.spark
def test_a_stream_through_a_client_warns_of_invalid_rows_where_that_is_asked_for(found):
    (said,) = found["warned"]
    assert said.startswith("window_loud_input: 10 of 40 rows (25.0%)")
