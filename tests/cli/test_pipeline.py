"""The pipeline file: allowed content, and reported errors."""

from pathlib import Path

import pytest

from sfumato.cli.pipeline.checks import check_paths
from sfumato.cli.pipeline.model import PipelineError, PipelineSource, Query, Sink
from sfumato.cli.pipeline.parse import parse_pipeline, read_pipeline

SOURCE = '[sources.s]\nformat = "json"\npath = "in"\n'
SINK = '[sinks.out]\nquery = "s"\n'


def parse(text):
    return parse_pipeline(text, Path("/data/pipes/pipeline.toml"))


def complaint(text):
    with pytest.raises(PipelineError) as caught:
        parse(text)
    return str(caught.value)


def test_a_file_that_uses_everything_is_read_as_written():
    pipeline = parse(
        """
        checkpoint = "state"

        [sources.sensors]
        format = "json"
        path = "s3://bucket/in"
        schema = "id string, t timestamp"
        options = { maxFilesPerTrigger = 1, multiLine = true }

        [sources.trips]
        replay = "trips.parquet"
        order = "arrival"
        speed = 60
        rows_per_batch = 500
        options = { file_format = "parquet" }

        [sources.rooms]
        format = "csv"
        path = "/rooms.csv"
        static = true

        [queries.near]
        sql = "SELECT * FROM sensors"

        [sinks.out]
        query = "near"
        format = "parquet"
        path = "../out"
        mode = "complete"
        trigger = "1 second"
        options = { compression = "zstd" }

        [sinks.screen]
        query = "trips"
        rows = 3
        """
    )
    replayed = {
        "file_format": "parquet",
        "order": "arrival",
        "speed": "60.0",
        "rows_per_batch": "500",
    }
    assert pipeline.checkpoint == "/data/pipes/state"
    assert pipeline.sources == (
        PipelineSource(
            name="sensors",
            format="json",
            options={"maxFilesPerTrigger": "1", "multiLine": "true"},
            schema="id string, t timestamp",
            path="s3://bucket/in",
        ),
        PipelineSource(
            name="trips", format="replay", options=replayed, path="/data/pipes/trips.parquet"
        ),
        PipelineSource(name="rooms", format="csv", path="/rooms.csv", static=True),
    )
    assert pipeline.queries == (Query(name="near", sql="SELECT * FROM sensors"),)
    assert pipeline.sinks == (
        Sink(
            name="out",
            query="near",
            format="parquet",
            path="/data/pipes/../out",
            mode="complete",
            options={"compression": "zstd"},
            trigger="1 second",
        ),
        Sink(name="screen", query="trips", rows=3),
    )


def test_little_is_needed():
    pipeline = parse(SOURCE + SINK)
    assert pipeline.checkpoint is None
    assert pipeline.sinks == (
        Sink(name="out", query="s", format="console", mode="append", rows=10),
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sinks = 1", "`sinks` must be tables [sinks.NAME]; got 1"),
        ('checkpoint = "a\\u0000b"', r"`checkpoint` contains a NUL character (\u0000): remove it"),
        (
            "querys = {}\n" + SOURCE + SINK,
            "`querys` is not a known key; a pipeline accepts checkpoint,",
        ),
        ("querys = {}\n" + SOURCE + SINK, "did you mean `queries`?"),
        (SOURCE + "shema = 'a int'\n" + SINK, "`sources.s.shema` is not a known key"),
        (
            SOURCE + SINK + "flsh = true\n",
            "did you mean `flush`? It must be above the first [table] of the file",
        ),
        (SOURCE + "shema = 'a int'\n" + SINK, "did you mean `schema`?"),
        (SOURCE + "speed = 2\n" + SINK, "needs a file to replay"),
        (SOURCE + "shema = 2\n" + SINK, "accepts format, path, schema, options, static"),
        (SOURCE + SINK + "modus = 'append'", "did you mean `mode`?"),
        (SOURCE + "[queries.q]\nquery = 'x'\n" + SINK, "the table [queries.q] accepts sql"),
        (SOURCE + "[queries.q]\n" + SINK, "`queries.q.sql` is missing, for example sql ="),
        (SOURCE + "[queries.q]\nsql = ' '\n" + SINK, "`queries.q.sql` must be a non-empty string"),
        (SOURCE + "[queries]\nq = 'SELECT 1'\n" + SINK, "must be a table [queries.q]"),
        (SOURCE + "[queries.S]\nsql = 'x'\n" + SINK, "has the same name as `sources.s`"),
        (SOURCE + "[queries.2q]\nsql = 'x'\n" + SINK, "does not begin with a digit"),
        (SOURCE + "[queries.'q; x']\nsql = 'x'\n" + SINK, "letters, digits and _"),
        ("[sources.s]\npath = 'in'\n" + SINK, "needs a Spark format and its options"),
        (
            "[sources.s]\nformat = 3\n" + SINK,
            "`sources.s.format` must be a non-empty string; got 3",
        ),
        (
            "[sources.s]\nreplay = 'f'\nformat = 'csv'\n" + SINK,
            "`sources.s.replay` cannot be combined",
        ),
        ("[sources.s]\nreplay = 'f'\nspeed = 2\n" + SINK, "needs `sources.s.order`"),
        ("[sources.s]\nreplay = 'f'\norder = 'a'\nspeed = 0\n" + SINK, "a number above 0"),
        ("[sources.s]\nreplay = 'f'\norder = 'a'\nspeed = inf\n" + SINK, "a number above 0"),
        ("[sources.s]\nreplay = 'f'\nspeed = true\n" + SINK, "must be a number"),
        ("[sources.s]\nreplay = 'f'\nrows_per_batch = 0\n" + SINK, "at least 1; got 0"),
        (
            "[sources.s]\nreplay = 'f'\nrows_per_batch = 0.5\n" + SINK,
            "must be an integer of at least 1",
        ),
        (
            "[sources.s]\nreplay = 'f'\nrows_per_batch = 5\nstatic = true\n" + SINK,
            "is not replayed",
        ),
        (SOURCE + "static = 'yes'\n" + SINK, "`sources.s.static` must be true or false"),
        (SOURCE + "options = 'x'\n" + SINK, "must be a table of options"),
        (SOURCE + "options = { a = [1] }\n" + SINK, "`sources.s.options.a` must be a string"),
        (SOURCE + "options = { Path = '/' }\n" + SINK, "write `sources.s.path`"),
        (SINK, "no source is defined"),
        (SOURCE, "no sink is defined"),
        (SOURCE + "[sinks.out]\n", "`sinks.out.query` is missing"),
        (SOURCE + "[queries.near]\nsql = 'x'\n[sinks.out]\nquery = 'nera'\n", "`near`?"),
        (SOURCE + SINK + "mode = 'apend'", "must be one of append, update, complete; got 'apend'"),
        (SOURCE + SINK + "trigger = 'often'", "sinks.out.trigger"),
        (SOURCE + SINK + "trigger = '0 seconds'", "must be positive"),
        (SOURCE + SINK + "path = 'x'", "is not allowed for a console"),
        (SOURCE + SINK + "rows = 0", "must be an integer from 1 to 1000; got 0"),
        (SOURCE + SINK + "rows = 2\nformat = 'csv'", "this sink writes csv"),
        ("checkpoint = 1\n" + SOURCE + SINK, "`checkpoint` must be a non-empty string; got 1"),
        ("sources = [", "is not valid TOML"),
        ("[spark]\nmaster = 'loacl'", "`spark.master` must be local[N], spark://HOST:PORT"),
        ("[spark]\npackages = 'a:b:1'", "`spark.packages` must be a list of strings"),
        ("[spark]\npackages = [1]", "must be Maven coordinates, group:artifact:version; got 1"),
        ("[spark]\nsettings = { 'spark.master' = 'x' }", "write this setting as `spark.master`"),
        (
            "[spark]\nmemory = 1",
            "`spark.memory` is not a known key; the table [spark] accepts master",
        ),
        ("[sources.s]\ntable = 'a b'", "must be the name of a table, lake.db.t"),
        ("[sources.s]\ntable = 'a.b'\npath = 'x'", "cannot be combined: remove one of the two"),
        ("[sources.s]\nformat = 'kafka'\nvalue = 'json'", "needs the names of the columns"),
        ("[sources.s]\nformat = 'csv'\ndead_letters = 'd'", "needs decoded values"),
        (SOURCE + "dead_letters = 'd'", "needs the names of the columns"),
        (SOURCE + "required = ['a']", "needs decoded values"),
        (SOURCE + "dead_letters = '2'", "does not begin with a digit"),
        (SOURCE + "value = 'json'\nschema = 'a int'\ndead_letters = 's'\n" + SINK, "rename one"),
        (SOURCE + "metadata = ['key']", "needs a decoded Kafka value"),
        (SOURCE + SINK + "table = 't'\nformat = 'console'", "`sinks.out.table` is not allowed"),
        (SOURCE + SINK + "key = 't'", "needs encoded rows"),
    ],
)
def test_each_mistake_is_told_with_its_place_and_what_would_be_right(text, said):
    assert said in complaint(text)


def test_a_missing_or_unreadable_file_is_named(tmp_path):
    with pytest.raises(PipelineError, match="no such file"):
        read_pipeline(tmp_path / "none.toml")
    (tmp_path / "latin.toml").write_bytes(b'checkpoint = "\xe9"')
    with pytest.raises(PipelineError, match=r"is not UTF-8 text \(byte"):
        read_pipeline(tmp_path / "latin.toml")


def test_a_source_that_is_not_there_is_told_with_its_key(tmp_path):
    (tmp_path / "in").mkdir()
    for source, key in (('format = "json"\npath = "no"', "path"), ('replay = "no.csv"', "replay")):
        text = f"[sources.s]\n{source}\n{SINK}"
        with pytest.raises(PipelineError, match=f"`sources.s.{key}`: no such file or folder"):
            check_paths(parse_pipeline(text, tmp_path / "p.toml"))
    for path in ("in", "s3://bucket/x", "logs/*.json"):
        text = f'[sources.s]\nformat = "json"\npath = "{path}"\n{SINK}'
        check_paths(parse_pipeline(text, tmp_path / "p.toml"))


def test_a_sink_cannot_move_its_checkpoint_unseen():
    text = SOURCE + '[sinks.out]\nquery = "s"\noptions = { CheckpointLocation = "x" }\n'
    assert 'write checkpoint = "..." at the top' in complaint(text)
