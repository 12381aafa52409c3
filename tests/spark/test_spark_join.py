"""Rows that sf.similarity_join skips on Spark, and checkpoints that it refuses."""

import pytest
from pyspark.errors import StreamingQueryException

import sfumato as sf
from streams import observed, put_parts, run, stream_of

pytestmark = pytest.mark.spark
SCHEMA = "id long, site string, seen long, alternatives array<struct<prob: double, x: double>>"
JOIN = {"on": "x", "within": 1.0, "probability": 0.2, "window": sf.Rows(5), "order": "seen"}


def test_invalid_rows_take_no_part_and_are_counted(spark, tmp_path):
    good, bad = (0.5, 1.0), (1.5, 1.0)
    left = [(0, "a", 0, [good]), (1, "a", 1, [bad]), (2, None, 2, [good]), (3, "a", None, [good])]
    for name, rows in (("left", left), ("right", [(9, "a", 9, [good])])):
        table = spark.createDataFrame(rows, SCHEMA).toArrow()
        put_parts(tmp_path / name, table, [0, len(rows)])
    frames = [stream_of(spark, tmp_path / name, SCHEMA) for name in ("left", "right")]
    got, query = run(sf.similarity_join(*frames, key="site", tasks=1, **JOIN), tmp_path)
    assert [(row.left.id, row.right.id) for row in got] == [(0, 9)]
    counted = {name.rpartition("_")[2]: row for name, row in observed(query)}
    assert (counted["left"].rows, counted["left"].invalid) == (4, 3)
    assert (counted["right"].rows, counted["right"].invalid) == (1, 0)
    put_parts(tmp_path / "left", spark.createDataFrame(left, SCHEMA).toArrow(), [1, 2])
    with pytest.raises(StreamingQueryException, match="`tasks` was 1 and is 2"):
        run(sf.similarity_join(*frames, key="site", tasks=2, **JOIN), tmp_path)


def test_empty_frames_give_an_empty_frame(spark):
    df = spark.createDataFrame([], SCHEMA)
    assert sf.similarity_join(df, df, **JOIN).collect() == []
