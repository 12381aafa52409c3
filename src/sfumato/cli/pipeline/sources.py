"""`[sources.NAME]` of a pipeline file."""

import json
import math
from pathlib import Path

from sfumato.cli.pipeline.keys import METADATA, REPLAY
from sfumato.cli.pipeline.model import Source
from sfumato.cli.pipeline.section import NAME, WITH_SCHEME, PipelineError, Section
from sfumato.near_misses import did_you_mean


def read_source(section: Section) -> Source:
    content = section.content
    static = bool(section.get("static"))
    if REPLAY in content:
        options = {**section.options(), **_replay_options(section, static)}
        schema = section.text("schema")
        return Source(section.name, REPLAY, options, schema, section.path(REPLAY), static)
    table = section.catalog_table()
    if table is None and "format" not in content:
        why = "needs a format of Spark's and its options, or a file to play: "
        raise PipelineError.at(section.place, why + 'format = "json" or replay = "file.parquet"')
    form = section.text("format") or ""
    value, metadata = section.text("value"), _metadata(section, form)
    avro = _avro_schema(section, value)
    if value is not None and avro is None and "schema" not in content:
        why = f'says how to decode; name the columns too: {section.at("schema")} = "id string"'
        raise section.wrong("value", why)
    letters = section.text("dead_letters")
    if letters is not None and not NAME.fullmatch(letters):
        why = "must be a name of letters, digits and _, that does not begin with a digit; got "
        raise section.wrong("dead_letters", f"{why}{letters!r}")
    if letters is not None and value is None and form != "json":
        why = f': nothing is decoded here; add {section.at("value")} = "json"'
        raise section.wrong("dead_letters", why)
    if letters is not None and avro is None and "schema" not in content:
        why = f'needs the columns that rows should have: {section.at("schema")} = "id string"'
        raise section.wrong("dead_letters", why)
    return Source(
        section.name,
        form,
        section.options(),
        section.text("schema"),
        section.path("path"),
        static,
        table,
        value,
        metadata,
        letters,
        avro,
    )


def _avro_schema(section: Section, value: str | None) -> str | None:
    """The schema of values in Avro, as JSON; None for other values."""
    given = section.text("avro_schema")
    if value is None or not value.endswith("avro"):
        if given is not None:
            why = f': the values are not decoded from Avro; add {section.at("value")} = "avro"'
            raise section.wrong("avro_schema", why)
        return None
    if "schema" in section.content:
        why = "and `avro_schema` both name the columns: for values in Avro leave it out"
        raise section.wrong("schema", why)
    if given is None:
        raise section.wrong("avro_schema", 'is missing, for example avro_schema = "reading.avsc"')
    if not given.lstrip().startswith("{"):
        given = _text(section, given)
    try:
        kind = json.loads(given)
        if not (isinstance(kind, dict) and kind.get("type") == "record" and kind.get("fields")):
            raise ValueError('it is no {"type": "record", "name": ..., "fields": [...]}')
        for field in kind["fields"]:
            if not (isinstance(field, dict) and field.get("name") and "type" in field):
                raise ValueError(f"a field has no name or type: {field!r}")
    except ValueError as error:
        raise section.wrong("avro_schema", f"is no schema of an Avro record: {error}") from None
    return given


def _text(section: Section, path: str) -> str:
    place = section.absolute(path)
    if WITH_SCHEME.match(place):
        why = f"must be a file of this machine, or the schema itself; got {path!r}"
        raise section.wrong("avro_schema", why)
    try:
        return Path(place).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise section.wrong("avro_schema", f": there is no text file {place}") from None


def _metadata(section: Section, form: str) -> tuple[str, ...]:
    chosen = section.texts("metadata")
    for name in chosen:
        if name not in METADATA:
            why = f"may have {', '.join(METADATA)}; got {name!r}{did_you_mean(name, METADATA)}"
            raise section.wrong("metadata", why)
    if chosen and (form != "kafka" or "value" not in section.content):
        why = f": these are columns of Kafka's beside a decoded value; add {section.at('value')} "
        raise section.wrong("metadata", why + '= "json" to a source of format "kafka"')
    return chosen


def _replay_options(section: Section, static: bool) -> dict[str, str]:
    """How a file is played, as options of the replay source."""
    order = section.text("order")
    speed, rows = section.get("speed"), section.get("rows_per_batch")
    if speed is not None and not (math.isfinite(speed) and speed > 0):
        why = f"must be a number above 0 (leave it out: as fast as possible); got {speed}"
        raise section.wrong("speed", why)
    if speed is not None and order is None:
        why = f"needs `{section.at('order')}`: the column that says when a row arrives"
        raise section.wrong("speed", why)
    if rows is not None and rows < 1:
        raise section.wrong("rows_per_batch", f"must be at least 1; got {rows}")
    chosen = {"order": order, "speed": speed, "rows_per_batch": rows}
    for key in ("speed", "rows_per_batch"):
        if static and chosen[key] is not None:
            why = "says how to play a file, and a static source is read at once: leave one of "
            raise section.wrong(key, why + "them out")
    return {key: str(value) for key, value in chosen.items() if value is not None}
