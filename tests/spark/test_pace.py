"""Two sources read at any pace, with a restart, give the same answers as a static frame."""

import pytest

from all_available import process_all_available
from seeds import nightly_except
from two_sources import PART, QUERIES, SCHEMA, answers, joined, put, source

pytestmark = pytest.mark.spark
# The numbers of files, of PART rows each, that are read from (a, b) in each micro-batch.
PACES = {
    "one to four": [(1, 4)] * 5,
    "four to one": [(4, 1)] * 5,
    "one paused, then resumed": [(1, 1), (0, 4), (4, 0)],
}


@pytest.mark.parametrize("query", nightly_except(QUERIES, joined), ids=lambda query: query.__name__)
@pytest.mark.parametrize("pace", nightly_except(PACES, "one paused, then resumed"))
def test_streams_at_any_pace_answer_as_the_static_frame(spark, tmp_path, query, pace):
    sources = [source(1), source(2)]
    files = [[rows[i : i + PART] for i in range(0, len(rows), PART)] for rows in sources]
    for side, rows in zip("ab", sources, strict=True):
        put(tmp_path / "whole" / side, 0, rows)
    frames = [spark.read.schema(SCHEMA).json(str(tmp_path / "whole" / side)) for side in "ab"]
    expected = answers(query(*frames).collect())
    assert len(expected) > 10
    for side in "ab":
        (tmp_path / side).mkdir()
    streams = [spark.readStream.schema(SCHEMA).json(str(tmp_path / side)) for side in "ab"]
    came, left = [], [list(enumerate(parts)) for parts in files]
    writer = query(*streams).writeStream.option("checkpointLocation", str(tmp_path / "state"))
    writer = writer.foreachBatch(lambda df, _: came.extend(df.collect()))
    for run in PACES[pace][:1], PACES[pace][1:]:  # the history, and then further files
        running = writer.start()
        try:
            for counts in run:
                for side, count, parts in zip("ab", counts, left, strict=True):
                    for number, rows in parts[:count]:
                        put(tmp_path / side, number, rows)
                    del parts[:count]
                process_all_available(running)
        finally:
            running.stop()
    assert not any(left)
    assert answers(came) == expected
