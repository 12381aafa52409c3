"""What a table says about the order of its rows: by metadata of its columns, and by the columns
`late` and `punctuation` of a disorder controller. As `sfumato.spark.model.controlled` for frames.
"""

from __future__ import annotations

import json

import pyarrow as pa

from sfumato.tables.reading.ties import ADDED, MARKS

CONTROLLED_BY = b"sfumato.controlled_by"  # JSON list of the keys rows are in order within
EVENT_TIME = b"sfumato.event_time"  # the column they are in order of
BY_US = {ADDED: b"true"}  # metadata of a column that an operator added


def controlled_by(keys: list[str], event_time: str | None = None) -> dict[bytes, bytes]:
    """Metadata of a column that says: rows are in order within these keys, by that column."""
    said = {CONTROLLED_BY: json.dumps(keys).encode()}
    return said if event_time is None else {**said, EVENT_TIME: event_time.encode()}


def says_order(schema: pa.Schema, name: str) -> list[str] | None:
    """The keys that the metadata of a column names; None where it has none."""
    said = _metadata(schema, name).get(CONTROLLED_BY)
    return None if said is None else list(json.loads(said))


def marks_late(schema: pa.Schema, order: list[str]) -> bool:
    """Whether rows come in this order from a controller, and those that do not are marked late."""
    by = _metadata(schema, "punctuation").get(EVENT_TIME)
    return has_punctuations(schema) and by is not None and [by.decode()] == order


def controller_of(schema: pa.Schema, order: list[str], keys: list[str]) -> list[str] | None:
    """The keys for each of which a controller stands before rows that a join takes, or None."""
    found = says_order(schema, "punctuation") if marks_late(schema, order) else None
    return found if found is not None and set(found) <= set(keys) else None


def has_punctuations(schema: pa.Schema) -> bool:
    """Whether rows come from a controller: after windows `late` is a number, not a mark."""
    found = set(MARKS) <= set(schema.names)
    return found and pa.types.is_boolean(schema.field("late").type)


def require_late(schema: pa.Schema) -> None:
    """Raise ValueError for punctuations without the marks of the rows that came after them."""
    if says_order(schema, "punctuation") is not None and not has_punctuations(schema):
        raise ValueError(
            "the rows were reordered, but their column `late` is gone, which tells rows that came "
            "too late: keep it (a filter on it leaves them out), or drop `punctuation` too, and "
            "rows are taken to come in order of event time"
        )


def _metadata(schema: pa.Schema, name: str) -> dict[bytes, bytes]:
    return (schema.field(name).metadata or {}) if name in schema.names else {}
