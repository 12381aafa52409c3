"""Data that crosses between Spark and Python: rows per chunk, and the place of metrics."""

import pyarrow as pa
import pytest

from sfumato.spark.crossing import chunks
from sfumato.spark.crossing.chunks import OperatorMetrics
from sfumato.spark.state.operator_owners import BucketResult, tables_of


def batch(*values):
    return pa.record_batch({"x": pa.array(values, pa.int64())})


def test_rows_of_several_batches_are_gathered_until_they_are_enough(monkeypatch):
    monkeypatch.setattr(chunks, "ROWS_PER_PACK", 4)
    of = iter([batch(1, 2), batch(), batch(3), batch(4, 5), batch(6, 7, 8, 9, 10), batch(11)])
    found = [table["x"].to_pylist() for table in chunks._gather_batches(of)]
    assert found == [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10], [11]]


def test_large_rows_are_not_gathered(monkeypatch):
    monkeypatch.setattr(chunks, "MAX_BYTES", 16)
    found = [
        table.num_rows for table in chunks._gather_batches(iter([batch(1), batch(2), batch(3)]))
    ]
    assert found == [2, 1]
    assert list(chunks._gather_batches(iter([batch(), batch()]))) == []


def test_chunks_of_one_side_are_read_as_one_table():
    def chunk(*values):
        return chunks.to_bytes(pa.table({"x": pa.array(values, pa.int64())}))

    entries = [(0, chunk(1)), (0, chunk(2, 3)), (-1, b""), (1, chunk(4)), (0, chunk(5))]
    assert [(side, table.to_pydict()) for side, table in tables_of(entries)] == [
        (0, {"x": [1, 2, 3]}),
        (1, {"x": [4]}),
        (0, {"x": [5]}),
    ]


METRICS = OperatorMetrics(
    {"rows": "long", "slowest": "string", "late": "long", "waits": "array<long>"}
)


def test_metrics_are_in_a_list_for_each_kind():
    places = {
        "rows": "numbers[0]",
        "late": "numbers[1]",
        "slowest": "texts[0]",
        "waits": "lists[0]",
    }
    assert METRICS.places == places
    assert METRICS.columns.names == ["numbers", "texts", "lists"]
    known = {"late": 3, "slowest": "a", "waits": [1, 2]}
    assert METRICS.cells(known) == {"numbers": [None, 3], "texts": ["a"], "lists": [[1, 2]]}
    assert OperatorMetrics({"rows": "long"}).columns.names == ["numbers"]


@pytest.mark.parametrize("answers", [[], [b"1"], [b"1", b"2"]])
def test_metrics_come_once(answers):
    rows = list(BucketResult(answers, {"rows": 2, "late": 0}, {"slowest": "a"}, None).rows(METRICS))
    assert [row["chunk"] for row in rows] == (answers or [None])
    assert [row.get("numbers") for row in rows] == [[2, 0]] + [None] * (len(answers) - 1)


def test_nothing_comes_out_where_nothing_happened():
    assert list(BucketResult([], {"rows": 0}, {"slowest": "a"}, None).rows(METRICS)) == []
