"""`[sinks.NAME]` of a pipeline file."""

from collections.abc import Mapping
from dataclasses import replace

from sfumato.cli.pipeline.keys import MOST_ROWS
from sfumato.cli.pipeline.model import CONSOLE, Sink
from sfumato.cli.pipeline.section import PipelineError, Section
from sfumato.duration import microseconds
from sfumato.near_misses import did_you_mean


def read_sinks(sections: list[Section]) -> tuple[Sink, ...]:
    """The sinks, and one for each folder of late rows."""
    found = {section.name: _sink(section) for section in sections}
    for section in sections:
        place = section.text("late")
        if place is None:
            continue
        sink = found[section.name]
        if sink.late is not None:
            raise section.wrong(
                "late", ": this sink has the late rows of another one: leave it out"
            )
        if "/" in place:
            name = f"{sink.name}_late"
            if name in found:
                why = f": its late rows would be the sink {name}, which there is: give that"
                raise section.wrong("late", f'{why}, late = "{name}"')
            path = section.absolute(place)
            other = Sink(name, sink.query, "parquet", path, trigger=sink.trigger)
        else:
            other = _late_sink(section, sink, place, found)
        found |= {sink.name: replace(sink, late=False), other.name: replace(other, late=True)}
    return tuple(found.values())


def _late_sink(section: Section, sink: Sink, name: str, sinks: Mapping[str, Sink]) -> Sink:
    """The sink of this name, if it can have the late rows of another one."""
    other = sinks.get(name)
    if other is None or other is sink:
        others = [known for known in sinks if known != sink.name]
        why = f"names {name!r}, which is no other sink of this file{did_you_mean(name, others)}; "
        raise section.wrong("late", f'{why}a folder is written with a /: "./{name}"')
    if other.query != sink.query:
        why = f"names a sink of {other.query!r}: it must have the same query, {sink.query!r}"
        raise section.wrong("late", why)
    if other.late is not None:
        why = (
            f"names {name!r}, whose late rows already go to another sink, or which has those of one"
        )
        raise section.wrong("late", why)
    return other


def _sink(section: Section) -> Sink:
    table = section.catalog_table()
    written = section.text("format") or (CONSOLE if table is None else "")
    path = section.path("path")
    if written == CONSOLE and (path is not None or table is not None):
        key = "path" if table is None else "table"
        why = f': a console has no {key}; name a format too, for example format = "parquet"'
        raise section.wrong(key, why)
    value, keyed = section.text("value"), section.text("key")
    if keyed is not None and value is None:
        raise section.wrong("key", f': rows are not encoded; add {section.at("value")} = "json"')
    return Sink(
        section.name,
        section.needed("query", '"answers"'),
        written,
        path,
        section.text("mode") or "append",
        section.options(),
        _trigger(section),
        _rows(section, written),
        table,
        value,
        keyed,
    )


def _trigger(section: Section) -> str | None:
    trigger = section.text("trigger")
    if trigger is not None:
        try:
            microseconds(section.at("trigger"), trigger)
        except ValueError as error:
            raise PipelineError(str(error)) from error
    return trigger


def _rows(section: Section, written: str) -> int:
    rows = section.get("rows")
    if rows is None:
        return Sink.rows
    if written != CONSOLE:
        why = f"says how many rows a console table shows; this sink writes {written}: leave it out"
        raise section.wrong("rows", why)
    if not 1 <= rows <= MOST_ROWS:
        raise section.wrong("rows", f"must lie in 1 to {MOST_ROWS}; got {rows}")
    return int(rows)
