"""What a frame says about the order of its rows, see `tables.reading.controlled`."""

from pyspark.sql import DataFrame
from pyspark.sql.types import BooleanType, StructType

from sfumato.tables.reading.controlled import MARKS as MARKS
from sfumato.tables.reading.controlled import Order
from sfumato.tables.reading.controlled import controlled_by as controlled_by

ADDED = "sfumato.added"  # metadata: a column that an operator added; rows are not told apart by it


def _order(schema: StructType) -> Order:
    return Order(
        schema.names,
        lambda name: schema[name].metadata,
        lambda name: isinstance(schema[name].dataType, BooleanType),
    )


def marks_late(schema: StructType, order: list[str]) -> bool:
    """Whether rows come in this order from a controller, and those that do not are marked late."""
    return _order(schema).marks_late(order)


def controller_of(schema: StructType, order: list[str], keys: list[str]) -> list[str] | None:
    """The keys for each of which a controller stands before rows that a join takes, or None."""
    return _order(schema).controller(order, keys)


def never_behind(schema: StructType, order: list[str], keys: list[str]) -> bool:
    """Whether no row of one of these `keys` can be in order and come behind an earlier one."""
    return _order(schema).never_behind(order, keys)


def require_late(schema: StructType) -> None:
    """Raise ValueError for punctuations without the marks of the rows that came after them."""
    _order(schema).require_late("`where('not late')`")


def says_order(schema: StructType, name: str) -> list[str] | None:
    """The keys that the metadata of a column names; None where it has none."""
    return _order(schema).says(name)


def in_order_for(schema: StructType) -> list[str]:
    """The keys within which rows are in order, if an operator before says so; else none."""
    for name in ("punctuation", "window"):
        found = says_order(schema, name)
        if found is not None:
            return found
    return []


def has_punctuations(schema: StructType) -> bool:
    """Whether rows come from a controller: after windows `late` is a number, not a mark."""
    return _order(schema).has_punctuations


def tied(schema: StructType) -> list[str]:
    """The columns that tell simultaneous rows apart: those that no operator has added."""
    marks = MARKS if has_punctuations(schema) else ()
    return [f.name for f in schema.fields if ADDED not in f.metadata and f.name not in marks]


def is_extents(df: DataFrame) -> bool:
    """Whether a frame has the column `window` of extents, as window_aggregate made it."""
    return says_order(df.schema, "window") is not None
