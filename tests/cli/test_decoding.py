"""Values that a decoder could not read: set aside, with reason and raw text; nothing is lost."""

import json

import pytest
from msgspec.structs import replace

from pipeline_runs import put, ran
from sfumato.cli.pipeline.frames import decode, encode, read_source
from sfumato.cli.pipeline.model import PipelineError, PipelineSource, Sink

UNDECODABLE = """
checkpoint = "state"
[sources.readings]
format = "json"
path = "in"
schema = "id int, t timestamp, arrival timestamp"
dead_letters = "undecodable"
[queries.ordered]
sql = "SELECT id, late FROM readings [WATTR t ARRIVAL arrival SLACK 1]"
[sinks.out]
query = "ordered"
[sinks.letters]
query = "undecodable"
format = "json"
path = "letters"
"""
RIGHT = '{"id": 1, "t": "2024-01-01T00:00:00Z", "arrival": "2024-01-01T00:00:01Z"}'
# Strings, and why they are not rows.
WRONG = [
    ('{"id": 2, "t": ', "the value is not a JSON object with the columns of the schema"),
    ('{"id": 3, "t": "yesterday"}', "`t` is not of type timestamp: yesterday"),
    ('{"id": "x", "t": "2024-01-01T00:00:00Z"}', "`id` is not of type int: x"),
    ("[1, 2]", "the value is not a JSON object with the columns of the schema"),
]


def test_undecodable_lines_go_to_the_dead_letters_and_not_into_late(spark, tmp_path):
    put(tmp_path / "in", "a.json", [])
    (tmp_path / "in" / "a.json").write_text("\n".join([RIGHT, *(text for text, _ in WRONG)]))
    code, said = ran(spark, tmp_path, UNDECODABLE)
    assert code == 0, said
    assert "decode_readings: 5 rows, 4 undecodable" in said
    files = (tmp_path / "letters").glob("*.json")
    letters = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    assert sorted((one["value"], one["reason"]) for one in letters) == sorted(WRONG)
    assert "came too late" not in said


def test_what_lacks_a_field_is_a_row_and_what_has_no_value_is_none(spark):
    frame = spark.createDataFrame(
        [("a", '{"id": 1}', 0), ("b", None, 1), ("c", " ", 1), ("d", '{"id": null, "t": null}', 2)],
        "key string, value string, partition int",
    )
    source = PipelineSource(
        name="s",
        format="kafka",
        schema="id int, t timestamp",
        value="json",
        static=True,
        dead_letters="d",
        metadata=("key", "partition"),
    )
    rows, letters = decode(frame, source, {})
    assert [(r.id, r.key, r.partition) for r in rows.collect()] == [(1, "a", 0), (None, "d", 2)]
    assert [(r.reason, r.key) for r in letters.collect()] == [
        ("there is no value", "b"),
        ("there is no value", "c"),
    ]


def test_a_row_without_a_required_column_goes_to_the_dead_letters(spark):
    values = ['{"id": 1}', '{"id": null, "x": 2}', '{"x": 3}', '{"id": "a"}']
    frame = spark.createDataFrame([(value,) for value in values], "value string")
    source = PipelineSource(
        name="s", format="json", schema="id int, x int", dead_letters="d", required=("id",)
    )
    rows, letters = decode(frame, source, {})
    assert [tuple(row) for row in rows.collect()] == [(1, None)]
    missing = "`id` is required, but it is missing or NULL"
    reasons = [missing, missing, "`id` is not of type int: a"]
    assert [(r.value, r.reason) for r in letters.collect()] == list(
        zip(values[1:], reasons, strict=True)
    )
    with pytest.raises(PipelineError, match="must name columns of the schema, id, x; got 'y'"):
        decode(frame, replace(source, required=("x", "y")), {})


def test_a_column_of_kafka_must_have_another_name_than_those_decoded(spark):
    frame = spark.createDataFrame([("{}", 0)], "value string, partition int")
    source = PipelineSource(name="s", format="kafka", value="json", schema="Partition int")
    with pytest.raises(PipelineError, match=r"`sources\.s\.metadata` has 'partition'"):
        decode(frame, source, {})


def test_rows_become_json_under_a_key(spark):
    frame = spark.createDataFrame([(1, 0.5)], "id int, x double")
    sink = Sink(name="o", query="q", format="kafka", value="json", key="id")
    assert [tuple(row) for row in encode(frame, sink).collect()] == [("1", '{"id":1,"x":0.5}')]
    assert encode(frame, Sink(name="o", query="q", format="parquet")) is frame


def test_a_static_source_without_a_decoder_is_read_as_before(spark, tmp_path):
    put(tmp_path / "in", "a.json", [{"id": 1}])
    rows, letters = read_source(
        spark, PipelineSource(name="s", format="json", path=str(tmp_path / "in"), static=True)
    )
    assert letters is None
    assert [row.id for row in rows.collect()] == [1]
