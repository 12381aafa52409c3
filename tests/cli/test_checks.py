"""Errors before Spark starts: twenty wrong files, each with a one-sentence error; schema, init."""

import io
import json
import os
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sfumato.cli.first_file import first_file
from sfumato.cli.main import app
from sfumato.cli.pipeline import permissions
from sfumato.cli.pipeline.checks import check_before_spark
from sfumato.cli.pipeline.environment import Environment, RedactingConsole
from sfumato.cli.pipeline.model import PipelineError, SparkPart, json_schema
from sfumato.cli.pipeline.parse import parse_pipeline, read_pipeline

ROOT = Path(__file__).resolve().parents[2]
RIGHT = """
[sources.readings]
format = "json"
path = "in"
schema = "id int, t timestamp, arrival timestamp"

[queries.ordered]
sql = "SELECT * FROM readings [WATTR t ARRIVAL arrival DRATIO 1%]"

[sinks.out]
query = "ordered"
format = "parquet"
path = "out"
"""
KAFKA = """
[spark]
packages = ["org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"]
[sources.readings]
format = "kafka"
value = "json"
schema = "id int, t timestamp, arrival timestamp"
metadata = ["partition", "headers"]
dead_letters = "undecodable"
options = { "kafka.bootstrap.servers" = "host:9092", subscribe = "readings" }
[queries.ordered]
sql = "SELECT * FROM readings [WATTR t ARRIVAL arrival SOURCE partition DRATIO 1%]"
[sinks.out]
query = "ordered"
[sinks.letters]
query = "undecodable"
"""

RECORD = '{"type": "record", "name": "R", "fields": ['
RECORD += ", ".join(f'{{"name": "{name}", "type": "long"}}' for name in ("id", "t", "arrival"))
CODED = f"avro_schema = '{RECORD}]}}'"
AVRO = KAFKA.replace('schema = "id int, t timestamp, arrival timestamp"', CODED)
AVRO = AVRO.replace('value = "json"', 'value = "avro"')
AVRO = AVRO.replace('4.2.0"]', '4.2.0", "org.apache.spark:spark-avro_2.13:4.1.1"]')
SECOND = '[sinks.second]\nquery = "ordered"\nformat = "parquet"\npath = "out/"'
# Changes to a valid file, and the error for each.
WRONG = [
    (RIGHT, 'path = "in"', 'path = "into"', "no such file or folder"),
    (RIGHT, 'format = "json"', 'format = "jsn"', "is not a known format; did you mean `json`"),
    (RIGHT, 'schema = "id int, t timestamp, arrival timestamp"', "", "needs its columns"),
    (RIGHT, "FROM readings", "FROM reading", "is not a source or query above this query"),
    (RIGHT, "DRATIO", "DRATE", "line 1, column"),
    (RIGHT, "SELECT * FROM", "DROP TABLE", "sfumato runs only queries"),
    (RIGHT, "DRATIO 1%]", "DRATIO 1%]; SELECT 1", "must be one statement; got 2"),
    (RIGHT, "FROM readings", "FROM ordered", "ordered cannot read itself"),
    (RIGHT, 'path = "out"', 'path = "out"\nmode = "complete"', "cannot be changed later"),
    (RIGHT, 'path = "out"', "", "`sinks.out.path` is missing"),
    (RIGHT, 'path = "out"', 'path = "./in"', "is also the folder of `sources.readings`: give"),
    (
        RIGHT,
        'path = "out"',
        f'path = "out"\n{SECOND}',
        "is also the folder of `sinks.out`: give this",
    ),
    (f'checkpoint = "out"\n{RIGHT}', "int", "int", "is also the checkpoint of the pipeline"),
    (RIGHT, 'format = "json"', 'format = "delta"', 'add [spark] and packages = ["io.delta:'),
    (KAFKA, "org.apache.spark:", "", "must be Maven coordinates"),
    (KAFKA, '"kafka.bootstrap.servers" = "host:9092", ', "", "the brokers' addresses"),
    (KAFKA, ', subscribe = "readings"', "", "must name the topics"),
    (KAFKA, '"headers"]', '"header"]', "did you mean `headers`?"),
    (KAFKA, '"host:9092"', '"${NO_SUCH_VARIABLE}"', "the environment variable NO_SUCH_VARIABLE"),
    (KAFKA, 'dead_letters = "undecodable"', "", "is not a query or source of this file"),
    (KAFKA, 'value = "json"', 'value = "jason"', "json, avro, confluent-avro; got 'jason'; did"),
    (KAFKA, 'value = "json"', 'value = "avro"', "and `avro_schema` cannot be combined"),
    (AVRO, CODED, 'avro_schema = "no.avsc"', "no such text file"),
    (AVRO, CODED, 'avro_schema = \'{"type": "long"}\'', "is not an Avro record schema"),
    (AVRO, CODED, "", "`sources.readings.avro_schema` is missing"),
    (AVRO, 'value = "avro"', 'value = "json"', "needs values decoded from Avro"),
    (AVRO, ', "org.apache.spark:spark-avro_2.13:4.1.1"', "", "packages = ["),
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "in").mkdir()
    for name in ("PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.mark.parametrize(("right", "old", "new", "said"), WRONG)
def test_a_wrong_file_is_told_in_a_sentence_before_spark(folder, no_spark, right, old, new, said):
    assert old in right
    file = folder / "p.toml"
    file.write_text(right.replace(old, new))
    answer = CliRunner().invoke(app, ["check", str(file)])
    assert answer.exit_code == 2, answer.output
    assert said in answer.output
    assert answer.output.startswith("Error: `")
    assert "Traceback" not in answer.output


@pytest.mark.parametrize("right", [RIGHT, KAFKA])
def test_the_right_files_are_right(folder, right):
    check_before_spark(parse_pipeline(right, folder / "p.toml"))


def test_the_examples_pass_the_checks_before_spark():
    for file in sorted((ROOT / "examples").glob("*.toml")):
        check_before_spark(read_pipeline(file))


def test_a_connector_made_for_another_spark_is_told_with_it(monkeypatch):
    monkeypatch.setattr("pyspark.__version__", "4.3.0")
    assert (
        "the connector needs PySpark 4.1, but PySpark 4.3.0 is installed"
        in permissions.connector_advice("iceberg")
    )
    assert "runs with" not in permissions.connector_advice("kafka")
    monkeypatch.setattr("pyspark.__version__", "4.1.1")
    assert "runs with" not in permissions.connector_advice("iceberg")


def test_a_catalog_may_have_other_tables(folder):
    text = RIGHT.replace("FROM readings", "FROM elsewhere")
    settings = '[spark]\nsettings = { "spark.sql.defaultCatalog" = "lake" }\n'
    check_before_spark(parse_pipeline(settings + text, folder / "p.toml"))


def test_a_jar_of_another_kind_brings_no_format(folder):
    assert permissions.missing_format("avro", SparkPart())
    assert not permissions.missing_format("avro", SparkPart(packages=("a:spark-avro_2.13:4.1.1",)))


def test_a_connector_that_something_may_bring_is_not_missed(monkeypatch):
    text = KAFKA.replace("packages", "jars").replace("org.apache.spark:", "file:/a/")
    pipeline = parse_pipeline(text, Path("/p.toml"))
    permissions.check_connectors(pipeline)
    without = KAFKA[KAFKA.index("[sources") :]
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--packages x pyspark-shell")
    permissions.check_connectors(parse_pipeline(without, Path("/p.toml")))


# ---- tables, the session's part, several files -------------------------------------------------


def test_a_table_of_a_catalog_is_no_path():
    text = """
    [spark]
    master = "local[2]"
    packages = ["a:b:1"]
    jars = ["lib/x.jar"]
    settings = { "spark.sql.catalog.lake.type" = "hadoop", "spark.x" = true }
    [sources.s]
    table = "lake.db.t"
    [sinks.o]
    query = "s"
    format = "iceberg"
    table = "lake.db.u"
    """
    pipeline = parse_pipeline(text, Path("/data/p.toml"))
    assert (pipeline.sources[0].table, pipeline.sources[0].path) == ("lake.db.t", None)
    assert (pipeline.sinks[0].table, pipeline.sinks[0].format) == ("lake.db.u", "iceberg")
    assert pipeline.spark.master == "local[2]"
    assert pipeline.spark.jars == ("/data/lib/x.jar",)
    assert pipeline.spark.settings == {"spark.sql.catalog.lake.type": "hadoop", "spark.x": "true"}


def test_the_files_of_a_folder_are_one_pipeline(folder):
    source, rest = RIGHT[: RIGHT.index("[queries")], RIGHT[RIGHT.index("[queries") :]
    (folder / "a.toml").write_text('checkpoint = "state"\n' + source)
    (folder / "b.toml").write_text(rest)
    pipeline = read_pipeline(folder)
    assert pipeline.checkpoint == str(folder / "state")
    assert pipeline.sources[0].path == str(folder / "in")
    check_before_spark(pipeline)
    (folder / "b.toml").write_text(RIGHT)
    with pytest.raises(
        PipelineError, match=r"`sources.readings` is defined in a.toml and in b.toml"
    ):
        read_pipeline(folder)
    with pytest.raises(PipelineError, match=r"has no \*\.toml file"):
        read_pipeline(folder / "in")


# ---- the environment ---------------------------------------------------------------------------


def test_variables_are_used_and_never_printed(monkeypatch, capsys):
    secret = 'pass"w[o]rd\\n'
    monkeypatch.setenv("BROKER_PASSWORD", secret)
    text = KAFKA.replace("host:9092", "${BROKER_PASSWORD}")
    pipeline = parse_pipeline(text, Path("/p.toml"))
    assert pipeline.sources[0].options["kafka.bootstrap.servers"] == secret
    assert secret not in repr(pipeline.environment)
    console = RedactingConsole(file=io.StringIO(), width=200)
    console.environment = pipeline.environment
    console.print(f"refused: {secret}", markup=False)
    console.print(json.dumps({"cause": f"no host {secret}"}), markup=False)
    said = console.file.getvalue()
    assert said.splitlines() == [
        "refused: ${BROKER_PASSWORD}",
        '{"cause": "no host ${BROKER_PASSWORD}"}',
    ]
    text = KAFKA.replace('value = "json"', 'value = "${BROKER_PASSWORD}"')
    with pytest.raises(PipelineError) as caught:
        parse_pipeline(text, Path("/p.toml"))
    assert "${BROKER_PASSWORD}" in str(caught.value)
    assert "rd" not in str(caught.value).split("got")[1]


def test_a_dollar_may_be_meant():
    environment = Environment({"A": "1000"})
    assert environment.fill("$x $${A} ${A} $") == "$x ${A} 1000 $"
    for text in ("${", "${}", "${a b}", "${A"):
        with pytest.raises(ValueError, match="write a variable as"):
            environment.fill(text)


def test_sql_is_taken_as_it_is_written():
    text = RIGHT.replace("SELECT *", "SELECT '${HOME}' AS h, *")
    assert "${HOME}" in parse_pipeline(text, Path("/p.toml")).queries[0].sql


# ---- schema ------------------------------------------------------------------------------------


def test_the_json_schema_describes_every_key_and_is_in_the_docs():
    schema = json_schema()
    assert json.loads((ROOT / "docs" / "pipeline.schema.json").read_text()) == schema
    printed = CliRunner().invoke(app, ["check", "--schema"])
    assert json.loads(printed.output) == schema
    for table in (schema, *schema["$defs"].values()):
        for name, key in table["properties"].items():
            assert "description" in key or name in schema["properties"]
    sinks = schema["$defs"]["Sink"]
    assert sinks["required"] == ["query"]
    assert sinks["properties"]["mode"]["enum"] == ["append", "complete", "update"]


def test_the_json_schema_takes_right_files_and_refuses_wrong_ones():
    jsonschema = pytest.importorskip("jsonschema")
    schema = json_schema()
    for text in (RIGHT, KAFKA, *(f.read_text() for f in (ROOT / "examples").glob("*.toml"))):
        jsonschema.validate(tomllib.loads(text), schema)
    for old, new in (("format =", "fromat ="), ('query = "ordered"', "query = 1")):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(tomllib.loads(RIGHT.replace(old, new)), schema)


# ---- init --------------------------------------------------------------------------------------


def put(file, *lines):
    file.parent.mkdir(exist_ok=True)
    file.write_text("\n".join(lines) + "\n")


def initiated(folder, place="in"):
    """Return the pipeline that init writes for a place."""
    place = place if "://" in place else str(folder / place)
    return parse_pipeline(first_file(place, folder), folder / "p")


def test_init_writes_a_file_for_a_folder_that_passes_the_checks(tmp_path):
    put(
        tmp_path / "in" / "a.json",
        '{"id": 1, "t": "2024-01-01T00:00:00", "arrival": "2024-01-01T00:00:01", "x": [0.5]}',
    )
    out = tmp_path / "p.toml"
    answer = CliRunner().invoke(app, ["init", str(tmp_path / "in"), "--out", str(out)])
    assert answer.exit_code == 0, answer.output
    pipeline = read_pipeline(out)
    check_before_spark(pipeline)
    assert pipeline.sources[0].path == str(tmp_path / "in")
    assert (
        pipeline.sources[0].schema == "id bigint, t timestamp, arrival timestamp, x array<double>"
    )
    assert "[WATTR t ARRIVAL arrival DRATIO 1%]" in pipeline.queries[0].sql
    again = CliRunner().invoke(app, ["init", str(tmp_path / "in"), "--out", str(out)])
    assert again.exit_code == 2
    assert "already exists" in again.output
    nowhere = tmp_path / "none" / "p.toml"
    lost = CliRunner().invoke(app, ["init", str(tmp_path / "in"), "--out", str(nowhere)])
    assert (lost.exit_code, lost.output[:6]) == (2, "Error:")


def test_queries_that_init_suggests_pass_the_checks(tmp_path):
    times = '"t": "2024-01-01T00:00:00", "got at": "2024-01-01T00:00:01"'
    put(tmp_path / "in" / "a.json", f'{{"room": "a", "x": 0.5, {times}}}')
    text = first_file(str(tmp_path / "in"), tmp_path)
    for begin in ("-- SELECT *", "-- SELECT room"):
        query = text[text.index(begin) :].partition("\n-- means")[0].partition("\nSELECT")[0]
        tried = text.replace("\nSELECT * FROM in\n", f"\n{query.replace('-- ', '')}\n")
        assert tried != text
        check_before_spark(parse_pipeline(tried, tmp_path / "p"))


@pytest.mark.parametrize(
    "text",
    [
        "2026-03-02T08:00:00Z", "2026-03-02T08:00:00.123Z", "2026-03-02T08:00:00+00:00",
        "2026-03-02T08:00:00.123+01:00", "2026-03-02T08:00:00+0100", "2026-03-02T08:00:00.123",
        "2026-03-02 08:00:00",
    ],
)  # fmt: skip
def test_init_takes_every_usual_form_of_a_time_for_a_timestamp(tmp_path, text):
    put(tmp_path / "in" / "a.json", f'{{"t": "{text}", "x": 1.0}}')
    assert initiated(tmp_path).sources[0].schema == "t timestamp, x double"


def test_init_skips_lines_of_a_folder_that_cannot_be_read_and_names_dead_letters(tmp_path):
    other_types = ['{"id": "two", "x": 1}', '{"id": 2, "x": [1]}', '{"id": null, "x": null}']
    put(tmp_path / "in" / "a.json", '{"id": 1, "x": 0.5}', '{"id": 2, "x": 0.', "[3]", *other_types)
    text = first_file(str(tmp_path / "in"), tmp_path)
    assert parse_pipeline(text, tmp_path / "p").sources[0].schema == "id bigint, x double"
    with_dead_letters = parse_pipeline(text.replace("# dead", "dead"), tmp_path / "p")
    check_before_spark(with_dead_letters)
    assert with_dead_letters.sources[0].dead_letters == "undecodable"


def test_init_reads_doubled_quotes_of_csv_files(tmp_path):
    put(tmp_path / "in" / "a.csv", "id,note", '1,"a ""quoted"" word, and a comma"')
    pipeline = initiated(tmp_path)
    check_before_spark(pipeline)
    assert pipeline.sources[0].options == {"header": "true", "escape": '"'}


def test_init_plays_a_single_file_and_reads_a_topic(tmp_path):
    put(tmp_path / "2 trips.csv", "id,at", "1,2024-01-01 00:00:00")
    pipeline = initiated(tmp_path, "2 trips.csv")
    check_before_spark(pipeline)
    assert pipeline.sources[0].name == "s_2_trips"
    assert pipeline.sources[0].options == {"rows_per_batch": "1000", "order": "at"}
    pipeline = initiated(tmp_path, "kafka://h:9092/readings")
    check_before_spark(pipeline)
    assert pipeline.sources[0].options["subscribe"] == "readings"
    assert "kafka" in pipeline.spark.packages[0]


@pytest.mark.parametrize(
    ("place", "said"),
    [("none", "no such file"), (".", "folder . has no"), ("kafka://h", "a topic must be written")],
)
def test_init_says_what_it_cannot_read(tmp_path, monkeypatch, place, said):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PipelineError, match=said):
        first_file(place, Path(os.getcwd()))


def test_spark_hides_options_whose_values_have_a_variable(monkeypatch, tmp_path):
    from sfumato.cli.session import redaction_settings

    monkeypatch.setenv("WHERE", "host:9092")
    text = KAFKA.replace('"host:9092"', '"${WHERE}"')
    part = parse_pipeline(text, tmp_path / "p.toml").spark
    assert part.hidden == ("kafka.bootstrap.servers",)
    patterns = redaction_settings(part)
    assert set(patterns) == {"spark.redaction.regex", "spark.sql.redaction.options.regex"}
    assert all(r"\Qkafka.bootstrap.servers\E" in of for of in patterns.values())
    assert "host:9092" not in str(patterns)
    assert redaction_settings(parse_pipeline(KAFKA, tmp_path / "p.toml").spark) == {}
