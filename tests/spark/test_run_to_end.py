"""A stream that is run to its end gives all answers of the static frame, and can go on."""

from __future__ import annotations

from collections import Counter

import pytest
from pyspark.errors import StreamingQueryException

import sfumato as sf
from two_sources import PART, QUERIES, ROWS, SCHEMA, put, source

pytestmark = pytest.mark.spark


def rounded(rows):
    return Counter(tuple(round(v, 9) if isinstance(v, float) else v for v in row) for row in rows)


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.__name__)
def test_a_stream_run_to_its_end_answers_as_the_static_frame(spark, tmp_path, query):
    sources = [source(1)[:-5], source(2)[:-5]]
    for side, rows in zip("ab", sources, strict=True):
        put(tmp_path / "whole" / side, 0, rows)
        for number in range(0, len(rows), PART):
            put(tmp_path / side, number, rows[number : number + PART])
    frames = [spark.read.schema(SCHEMA).json(str(tmp_path / "whole" / side)) for side in "ab"]
    expected = rounded(query(*frames).collect())
    assert len(expected) > 10
    came, runs = [], []

    def start():
        reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        streams = [reader.json(str(tmp_path / side)) for side in "ab"]
        writer = query(*streams).writeStream.option("checkpointLocation", str(tmp_path / "state"))
        writer = writer.foreachBatch(lambda df, _: came.extend(df.collect()))
        runs.append(writer.trigger(availableNow=True).start())
        return runs[-1]

    assert sf.run_to_end(spark, start) is runs[1]
    assert rounded(came) == expected
    first, second = (set(run.lastProgress.observedMetrics) for run in runs)
    assert first == second
    assert spark.conf.get("spark.sfumato.ends", None) is None


def test_a_run_that_fails_in_its_last_micro_batch_ends_the_stream_when_it_is_run_again(
    spark, tmp_path
):
    put(tmp_path / "in", 0, source(1)[:-5])
    came, failures = [], iter([None, RuntimeError("the sink is full")])

    def sink(rows, _):
        if failure := next(failures, None):
            raise failure
        came.extend(row.id for row in rows.collect())

    def start():
        rows = spark.readStream.schema(SCHEMA).json(str(tmp_path / "in"))
        ordered = sf.reorder(rows, event_time="ts", arrival="arrival", slack=3)
        writer = ordered.writeStream.option("checkpointLocation", str(tmp_path / "state"))
        return writer.foreachBatch(sink).trigger(availableNow=True).start()

    with pytest.raises(StreamingQueryException, match="the sink is full"):
        sf.run_to_end(spark, start)
    assert 0 < len(came) < ROWS
    put(tmp_path / "in", 1, [row | {"id": row["id"] + ROWS} for row in source(1)[:-5]])
    sf.run_to_end(spark, start)
    assert sorted(came) == [1000 + i for i in range(2 * ROWS)]


def test_start_must_return_a_query(spark):
    with pytest.raises(TypeError, match="must return the streaming query"):
        sf.run_to_end(spark, lambda: None)
    assert spark.conf.get("spark.sfumato.ends", None) is None


def test_a_frame_that_was_made_before_is_refused_because_its_operators_would_not_end(
    spark, tmp_path
):
    put(tmp_path / "in", 0, source(1)[:20])
    rows = spark.readStream.schema(SCHEMA).json(str(tmp_path / "in"))
    ordered = sf.reorder(rows, event_time="ts", arrival="arrival", slack=3)

    def start():
        writer = ordered.writeStream.option("checkpointLocation", str(tmp_path / "state"))
        return writer.format("noop").trigger(availableNow=True).start()

    with pytest.raises(ValueError, match="`start` must make the frame itself"):
        sf.run_to_end(spark, start)
    assert not spark.streams.active
