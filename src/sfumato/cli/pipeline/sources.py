"""`[sources.NAME]` of a pipeline file."""

from __future__ import annotations

import math

from sfumato.cli.pipeline.keys import METADATA, REPLAY
from sfumato.cli.pipeline.model import Source
from sfumato.cli.pipeline.section import NAME, PipelineError, Section
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
    if value is not None and "schema" not in content:
        why = f'says how to decode; name the columns too: {section.at("schema")} = "id string"'
        raise section.wrong("value", why)
    letters = section.text("dead_letters")
    if letters is not None and not NAME.fullmatch(letters):
        why = "must be a name of letters, digits and _, that does not begin with a digit; got "
        raise section.wrong("dead_letters", f"{why}{letters!r}")
    if letters is not None and value is None and form != "json":
        why = f': nothing is decoded here; add {section.at("value")} = "json"'
        raise section.wrong("dead_letters", why)
    if letters is not None and "schema" not in content:
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
    )


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
