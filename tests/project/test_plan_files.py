"""Planning a query enters few files, so that a reader can follow a row from source to sink."""

import sys
from pathlib import Path

import pytest

import sfumato as sf

SOURCE = str(Path(sf.__file__).parent)
COLUMNS = "device string, ts timestamp, arrival timestamp, x double"
TWO_CONSTRUCTS = """
    SELECT device, window.end, EXPECTED(AVG(x)) AS m
    FROM rows_of_files [RANGE 60 SECONDS WATTR ts ARRIVAL arrival KEY device DRATIO 1%]
    GROUP BY device HAVING PROB(AVG(x) > 30) >= 0.9"""


def files_entered(plan):
    """Return the files of the package that a call enters when it runs for the second time."""
    plan()  # imports, and objects that are made once per session
    entered = set()

    def note(frame, event, argument):
        if event == "call" and frame.f_code.co_filename.startswith(SOURCE):
            entered.add(frame.f_code.co_filename.removeprefix(SOURCE))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        plan()
    finally:
        sys.setprofile(before)
    return sorted(entered)


@pytest.mark.spark
def test_a_row_through_reorder_window_and_sink_is_planned_in_few_files(spark, tmp_path):
    stream = spark.readStream.schema(COLUMNS).parquet(str(tmp_path))

    def plan():
        times = {"event_time": "ts", "arrival": "arrival"}
        rows = sf.reorder(stream, **times, drop_ratio=0.01, key="device")
        window = {"window": sf.Range("1 minute"), "order": "ts", "key": "device"}
        return sf.window_aggregate(rows, {"m": "avg(x)"}, **window).writeStream.format("noop")

    assert len(found := files_entered(plan)) <= 37, found


@pytest.mark.spark
def test_a_query_of_two_constructs_is_planned_in_few_files(spark, tmp_path):
    stream = spark.readStream.schema(COLUMNS).parquet(str(tmp_path))
    found = files_entered(lambda: sf.sql(spark, TWO_CONSTRUCTS, rows_of_files=stream))
    assert len(found) <= 50, found
