"""A query over history, then over what comes: answers are those of the static frame of all rows."""

from __future__ import annotations

import pytest

from all_available import process_all_available
from two_sources import PART, SCHEMA, answers, extents, joined, put, ranked, source

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("query", [extents, joined, ranked], ids=lambda query: query.__name__)
def test_a_backfill_and_then_the_live_stream_answer_as_the_static_frame(spark, tmp_path, query):
    sources = [source(1), source(2)]
    parts = [[rows[i : i + PART] for i in range(0, len(rows), PART)] for rows in sources]
    for side, rows in zip("ab", sources, strict=True):
        put(tmp_path / "whole" / side, 0, rows)
    frames = [spark.read.schema(SCHEMA).json(str(tmp_path / "whole" / side)) for side in "ab"]
    expected = answers(query(*frames).collect())
    assert len(expected) > 10
    came = []

    def writer(files):
        reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", files)
        streams = [reader.json(str(tmp_path / side)) for side in "ab"]
        rows = query(*streams).writeStream.option("checkpointLocation", str(tmp_path / "state"))
        return rows.foreachBatch(lambda df, _: came.extend(df.collect()))

    def arrive(numbers):
        for side, of in zip("ab", parts, strict=True):
            for number in numbers:
                put(tmp_path / side, number, of[number])

    arrive([0, 1])
    writer(100).trigger(availableNow=True).start().awaitTermination()
    history = len(came)
    for numbers in ([2, 3], [4]):  # live, with a restart in between
        running = writer(1).start()
        try:
            arrive(numbers)
            process_all_available(running)
        finally:
            running.stop()
    assert sum(map(len, parts[0])) == sum(len(of) for of in parts[0][:5])
    assert 0 < history < len(came)
    assert answers(came) == expected
