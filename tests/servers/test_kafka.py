"""A pipeline file between a real Kafka broker's topics, killed in mid-stream."""

import base64
import json
import random
import struct
import time
from pathlib import Path

import pytest

from servers.fetched import AVRO, KAFKA_CONNECTOR
from servers.jars import NoRegistryError, jars
from servers.pipeline_process import ended, killed, started
from servers.topics import read, written

BROUGHT = (
    "hadoop-",
    "slf4j-",
    "jsr305",
    "lz4-",
    "spark-tags",
    "scala-",
    "xz-",
)  # PySpark includes these jars
ROWS = 3_000
UNDECODABLE = ["{", '{"id": 1, "t": "yesterday"}']
FILE = """
checkpoint = "state"

[spark]
master = "local[2]"
jars = {jars}

[sources.readings]
format = "kafka"
value = "json"
schema = "id int, t timestamp, arrival timestamp"
metadata = ["partition", "headers"]
dead_letters = "undecodable"
options = {{ "kafka.bootstrap.servers" = "${{BROKER_OF_TESTS}}", subscribe = "readings", \
startingOffsets = "earliest", maxOffsetsPerTrigger = 500 }}

[sources.coded]
format = "kafka"
value = "confluent-avro"
avro_schema = "reading.avsc"
dead_letters = "undecodable_codes"
options = {{ "kafka.bootstrap.servers" = "${{BROKER_OF_TESTS}}", subscribe = "coded", \
startingOffsets = "earliest" }}

[sinks.decoded]
query = "coded"
format = "json"
path = "decoded"

[sinks.code_letters]
query = "undecodable_codes"
format = "json"
path = "code-letters"

[queries.ordered]
sql = \"\"\"
SELECT id, late, partition FROM readings [WATTR t ARRIVAL arrival SOURCE partition SLACK 20]
\"\"\"

[sinks.answers]
query = "ordered"
format = "kafka"
value = "json"
key = "id"
options = {{ "kafka.bootstrap.servers" = "${{BROKER_OF_TESTS}}", topic = "answers" }}

[sinks.files]
query = "ordered"
format = "json"
path = "files"

[sinks.letters]
query = "undecodable"
format = "json"
path = "letters"
"""


SCHEMA = {
    "type": "record",
    "name": "Reading",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "t", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "x", "type": ["null", "double"]},
    ],
}
NO_CODES = [b"\x01\x00\x00\x00\x07\x02", b"\x00\x00\x00\x00\x07\x02"]  # wrong first byte; truncated


def code(number, second, x):
    """Return a reading in Avro, after a zero byte and its schema's number."""
    micros = (1_700_000_000 + second) * 1_000_000
    value = b"\x00" if x is None else b"\x02" + struct.pack("<d", x)
    return b"\x00" + struct.pack(">i", 7) + zigzag(number) + zigzag(micros) + value


def zigzag(number):
    """Encode a long as in Avro: zigzag, seven bits per byte, the lowest first."""
    left, found = (number << 1) ^ (number >> 63), bytearray()
    while left > 127:
        found.append(left & 127 | 128)
        left >>= 7
    return bytes([*found, left])


def messages():
    """Return rows of three differently disordered partitions, as (partition, value)."""
    luck = random.Random(14)
    for number in range(ROWS):
        event = number - luck.randrange(10)
        row = {"id": number, "t": stamp(event), "arrival": stamp(number)}
        yield number % 3, json.dumps(row)


def stamp(second):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(1_700_000_000 + second))


def rows_in(folder: Path) -> list[dict]:
    """Return the rows of a file sink, from the files in its log of finished micro-batches."""
    logged = {
        Path(json.loads(line)["path"]).name
        for log in (folder / "_spark_metadata").glob("[0-9]*")
        for line in log.read_text().splitlines()[1:]
    }
    texts = [(folder / name).read_text() for name in logged]
    return [json.loads(line) for text in texts for line in text.splitlines()]


@pytest.fixture(scope="module")
def connector():
    try:
        both = (*jars(KAFKA_CONNECTOR), *jars(AVRO))
        return [str(jar) for jar in both if not jar.name.startswith(BROUGHT)]
    except NoRegistryError as error:
        pytest.skip(f"no Kafka connector: {error}")


@pytest.mark.nightly
def test_topics_are_read_decoded_ordered_and_written_through_kills(
    kafka, connector, tmp_path, monkeypatch
):
    monkeypatch.setenv("BROKER_OF_TESTS", kafka)
    written(kafka, "readings", [*messages(), *((0, text) for text in UNDECODABLE)], partitions=3)
    codes = [code(i, i, None if i == 3 else i / 2) for i in range(20)]
    coded = [(i % 3, value) for i, value in enumerate([*codes, *NO_CODES])]
    written(kafka, "coded", coded, partitions=3)
    (tmp_path / "reading.avsc").write_text(json.dumps(SCHEMA))
    file = tmp_path / "p.toml"
    file.write_text(FILE.format(jars=json.dumps(connector)))
    process = started(file, "--log", "text")
    until = time.monotonic() + 240
    while not rows_in(tmp_path / "files") and time.monotonic() < until:
        assert process.poll() is None, (tmp_path / "said.txt").read_text()[-3000:]
        time.sleep(0.2)
    killed(process)
    ended(started(file, "--once"), file)
    files = rows_in(tmp_path / "files")
    ids = [row["id"] for row in files]
    assert len(ids) == len(set(ids)), "a sink of files has each answer once"
    assert len(ids) >= ROWS - 3 * 21  # each partition's controller buffers rows within its slack
    assert all(row["id"] % 3 == row["partition"] for row in files)
    answers = read(kafka, "answers")
    assert all(key == str(json.loads(value)["id"]) for key, value in answers)
    assert {int(key) for key, _ in answers} == set(ids), "Kafka has each answer at least once"
    letters = rows_in(tmp_path / "letters")
    assert sorted(row["value"] for row in letters) == sorted(UNDECODABLE)
    assert {row["reason"] for row in letters} == {
        "the value is not a JSON object with the columns of the schema",
        "`t` is not of type timestamp: yesterday",
    }
    decoded = {row["id"]: row.get("x") for row in rows_in(tmp_path / "decoded")}
    assert decoded == {i: None if i == 3 else i / 2 for i in range(20)}
    letters = rows_in(tmp_path / "code-letters")
    assert {base64.b64decode(row["value"]): row["reason"] for row in letters} == {
        NO_CODES[0]: "the value does not start with a schema number",
        NO_CODES[1]: "the value does not fit the Avro schema",
    }
    assert kafka not in (tmp_path / "said.txt").read_text()
