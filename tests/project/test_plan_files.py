"""Planning a query enters few files, so that a reader can follow a row from source to sink."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import sfumato as sf

SOURCE = str(Path(sf.__file__).parent)
MAX_FILES = 49


@pytest.mark.spark
def test_a_row_through_reorder_window_and_sink_is_planned_in_few_files(spark, tmp_path):
    columns = "device string, ts timestamp, arrival timestamp, x double"
    stream = spark.readStream.schema(columns).parquet(str(tmp_path))

    def plan():
        times = {"event_time": "ts", "arrival": "arrival"}
        rows = sf.reorder(stream, **times, drop_ratio=0.01, key="device")
        window = {"window": sf.Range("1 minute"), "order": "ts", "key": "device"}
        return sf.window_aggregate(rows, {"m": "avg(x)"}, **window).writeStream.format("noop")

    plan()  # imports, and what is made once per session
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
    assert len(entered) <= MAX_FILES, sorted(entered)
