"""What a table says about the order of its rows, see `tables.reading.controlled`."""

from __future__ import annotations

import pyarrow as pa

from sfumato.tables.reading.controlled import MARKS as MARKS
from sfumato.tables.reading.controlled import Order
from sfumato.tables.reading.controlled import controlled_by as _controlled_by
from sfumato.tables.reading.ties import ADDED

BY_US = {ADDED: b"true"}  # metadata of a column that an operator added


def controlled_by(
    keys: list[str], event_time: str | None = None, forgets: bool = False
) -> dict[bytes, bytes]:
    """Metadata of a column that says: rows are in order within these keys, by that column."""
    said = _controlled_by(keys, event_time, forgets)
    return {k.encode(): v.encode() for k, v in said.items()}


def _order(schema: pa.Schema) -> Order:
    def metadata(name: str) -> dict[str, str]:
        said = schema.field(name).metadata or {}
        return {k.decode("utf-8", "replace"): v.decode("utf-8", "replace") for k, v in said.items()}

    return Order(schema.names, metadata, lambda name: pa.types.is_boolean(schema.field(name).type))


def says_order(schema: pa.Schema, name: str) -> list[str] | None:
    """The keys that the metadata of a column names; None where it has none."""
    return _order(schema).says(name)


def marks_late(schema: pa.Schema, order: list[str]) -> bool:
    """Whether rows come in this order from a controller, and those that do not are marked late."""
    return _order(schema).marks_late(order)


def controller_of(schema: pa.Schema, order: list[str], keys: list[str]) -> list[str] | None:
    """The keys for each of which a controller stands before rows that a join takes, or None."""
    return _order(schema).controller(order, keys)


def has_punctuations(schema: pa.Schema) -> bool:
    """Whether rows come from a controller: after windows `late` is a number, not a mark."""
    return _order(schema).has_punctuations


def never_behind(schema: pa.Schema, order: list[str], keys: list[str]) -> bool:
    """Whether no row of one of these `keys` can be in order and come behind an earlier one."""
    return _order(schema).never_behind(order, keys)


def require_late(schema: pa.Schema) -> None:
    """Raise ValueError for punctuations without the marks of the rows that came after them."""
    _order(schema).require_late("a filter on it")


def require_said(schema: pa.Schema, forgotten: str) -> None:
    """Raise ValueError for the marks of a controller of which nobody says any more what they are
    of: a window of rows would take late rows, and a join rows out of order, without a word.

    forgotten : the library whose frame lost it, or ""
    """
    if forgotten and has_punctuations(schema) and says_order(schema, "punctuation") is None:
        raise ValueError(
            "the rows have the columns `late` and `punctuation` of reorder, but what these are of "
            f"is not known any more: {forgotten} lost it on the way. Give the result of reorder as "
            "it is (sfumato.local.where filters and keeps it), keep it as an Arrow table, or drop "
            "both columns"
        )
