"""What a frame says about the order of its rows: by metadata, and by the columns `late` and
`punctuation` of a disorder controller."""

import json
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import BooleanType, StructType

CONTROLLED_BY = "sfumato.controlled_by"  # metadata: JSON list of the keys rows are in order within
ADDED = "sfumato.added"  # metadata: a column that an operator added; rows are not told apart by it
MARKS = ("late", "punctuation")  # columns that a disorder controller adds
EVENT_TIME = "sfumato.event_time"  # metadata: the column they are in order of


def controlled_by(keys: list[str], event_time: str | None = None) -> dict[str, Any]:
    """Metadata of a column that says: rows are in order within these keys, by that column."""
    said = {CONTROLLED_BY: json.dumps(keys)}
    return said if event_time is None else {**said, EVENT_TIME: event_time}


def marks_late(schema: StructType, order: list[str]) -> bool:
    """Whether rows come in this order from a controller, and those that do not are marked late."""
    return has_punctuations(schema) and [schema["punctuation"].metadata.get(EVENT_TIME)] == order


def controller_of(schema: StructType, order: list[str], keys: list[str]) -> list[str] | None:
    """The keys for each of which a disorder controller stands before rows that a join takes.

    None where there is none, where `order` is not its event time, or where its rows go to several
    of the join's `keys` that it is not one of.
    """
    found = says_order(schema, "punctuation") if marks_late(schema, order) else None
    return found if found is not None and set(found) <= set(keys) else None


def require_late(schema: StructType) -> None:
    """Raise ValueError for punctuations without the marks of the rows that came after them."""
    if says_order(schema, "punctuation") is not None and not has_punctuations(schema):
        raise ValueError(
            "the rows were reordered, but their column `late` is gone, which tells rows that came "
            "too late: keep it (`where('not late')` leaves them out), or drop `punctuation` too, "
            "and rows are taken to come in order of event time"
        )


def says_order(schema: StructType, name: str) -> list[str] | None:
    """The keys that the metadata of a column names; None where it has none."""
    if name not in schema.names or CONTROLLED_BY not in schema[name].metadata:
        return None
    return list(json.loads(schema[name].metadata[CONTROLLED_BY]))


def in_order_for(schema: StructType) -> list[str]:
    """The keys within which rows are in order, if an operator before says so; else none."""
    for name in ("punctuation", "window"):
        found = says_order(schema, name)
        if found is not None:
            return found
    return []


def has_punctuations(schema: StructType) -> bool:
    """Whether rows come from a controller: after windows `late` is a number, not a mark."""
    return (
        "punctuation" in schema.names
        and "late" in schema.names
        and isinstance(schema["late"].dataType, BooleanType)
    )


def tied(schema: StructType) -> list[str]:
    """The columns that tell simultaneous rows apart: those that no operator has added."""
    marks = MARKS if has_punctuations(schema) else ()
    return [f.name for f in schema.fields if ADDED not in f.metadata and f.name not in marks]


def is_extents(df: DataFrame) -> bool:
    """Whether a frame has the column `window` of extents, as window_aggregate made it."""
    return says_order(df.schema, "window") is not None
