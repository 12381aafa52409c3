"""A union of reordered frames: rows of several controllers, without a known punctuation.

Spark gives a union the metadata of its first frame, so that only the rows can show it. For extents
and rankings, see tests/tables/disorder/test_one_controller.py.
"""

import pytest
from pyspark.errors import StreamingQueryException

import sfumato as sf
from sfumato.cli.failures import first_cause, is_transient
from sfumato.tables.operator import SEVERAL_CONTROLLERS
from two_sources import CONTROL, PART, SCHEMA, put, source

pytestmark = pytest.mark.spark


def rows_window(both, _):
    return sf.window_aggregate(both, {"m": "sum(x)"}, window=sf.Rows(4), order="ts")


def join(both, other):
    return sf.similarity_join(
        both, other, on="x", within=0.5, probability=0.2, window=sf.Rows(4), order="ts"
    )


@pytest.mark.parametrize("query", [rows_window, join])
def test_a_stream_of_two_controllers_is_refused_with_what_to_write_instead(spark, tmp_path, query):
    for side, rows, part in (("a", source(1), 4 * PART), ("b", source(2), PART)):
        for number, start in enumerate(range(0, len(rows), part)):
            put(tmp_path / side, number, rows[start : start + part])
    read = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    a, b, other = (
        sf.reorder(read.json(str(tmp_path / side)), **CONTROL) for side in ("a", "b", "a")
    )
    running = (
        query(a.union(b), other).writeStream.format("noop").trigger(availableNow=True)
        .option("checkpointLocation", str(tmp_path / "state")).start()
    )  # fmt: skip
    with pytest.raises(StreamingQueryException) as failed:
        running.awaitTermination()
    assert first_cause(failed.value) == SEVERAL_CONTROLLERS
    assert "sf.reorder(a.union(b), ..., source=" in SEVERAL_CONTROLLERS
    assert not is_transient(failed.value)  # `sfumato run` does not retry
