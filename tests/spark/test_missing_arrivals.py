"""Rows without an arrival are not ordered, so no answer includes them, in any micro-batches."""

import warnings
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

import sfumato as sf
from engine_cases import rows_of
from seeds import nightly_except
from streams import put_parts, stream_of

pytestmark = pytest.mark.spark
START = datetime(2024, 1, 1, tzinfo=UTC)
# Read early, the row of second 15 precedes the end of its window; read late, it follows it.
TIMES = [*((10 * i, 10 * i + 1) for i in range(12)), (15, None), (None, 125), (200, 201)]
ROWS = pa.Table.from_pylist(
    [
        {
            "made": None if made is None else START + timedelta(seconds=made),
            "got": None if got is None else START + timedelta(seconds=got),
            "x": float(i),
        }
        for i, (made, got) in enumerate(TIMES)
    ]
)
QUERIES = {
    "windows": lambda rows: sf.window_aggregate(
        rows, {"n": "count(*)"}, window="1 minute", order="made", missed=True
    ),
    "earlier values": lambda rows: sf.earlier_values(rows, ["x"], order="made"),
    "resampled": lambda rows: sf.resample(rows, every="30 seconds", order="made"),
    "ranking": lambda rows: sf.top_k(rows, 2, by="x", window=sf.Range("1 minute"), order="made"),
}


def answers_of(query, df):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sf.errors.InvalidRowsWarning)
        rows = sf.reorder(df, event_time="made", arrival="got", max_delay="20 seconds")
        return QUERIES[query](rows)


def test_a_window_leaves_out_a_row_without_an_arrival_and_shows_it_as_invalid():
    found = answers_of("windows", ROWS).to_pylist()
    assert [row["n"] for row in found if row["window"]] == [6, 6, 1]
    missed = [row["missed"] for row in found if row["missed"]]
    assert [(row["x"], row["reason"]) for row in missed] == [(12.0, "invalid"), (13.0, "invalid")]


@pytest.mark.parametrize("query", nightly_except(QUERIES, "windows", "earlier values"))
def test_rows_without_an_arrival_change_no_answer_of_a_stream(spark, tmp_path, query):
    schema, came = spark.createDataFrame(ROWS).schema, []
    put_parts(tmp_path / "in", ROWS, (0, 12, ROWS.num_rows))

    def start():
        writer = answers_of(query, stream_of(spark, tmp_path / "in", schema)).writeStream
        writer = writer.option("checkpointLocation", str(tmp_path / "state"))
        writer = writer.trigger(availableNow=True)
        return writer.foreachBatch(lambda df, _: came.append(df.toArrow())).start()

    sf.ops.run_to_end(spark, start)
    found = sorted(row for table in came for row in rows_of(table))
    assert found == rows_of(answers_of(query, ROWS))
