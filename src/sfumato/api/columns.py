"""Columns given as objects in arguments that name columns: each is replaced by its name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

from sfumato.calls import has_class_of_spark, is_column_object, is_polars_expression
from sfumato.windows import Delta

# The name of a column as text, or a Column of Spark; the `public` decorator makes it text.
ColumnName: TypeAlias = Any
ColumnNames: TypeAlias = Any  # one, or a list of them

COLUMN_ARGUMENTS = (
    "event_time", "arrival", "key", "source", "order", "existence", "exclusive", "group", "on",
    "attributes", "dependents",
)  # fmt: skip


def replace_columns(given: dict[str, Any], name_of: Callable[[str, Any], str]) -> None:
    """Replace the column objects among the arguments that name columns by names.

    given : the arguments by name    name_of : return the name of an argument's column
    """

    def named(argument: str, one: Any) -> Any:
        return name_of(argument, one) if is_column_object(one) else one

    for argument in COLUMN_ARGUMENTS:
        value = given.get(argument)
        if isinstance(value, list | tuple) and any(map(is_column_object, value)):
            given[argument] = [named(argument, one) for one in value]
        elif is_column_object(value):
            given[argument] = name_of(argument, value)
    window = given.get("window")
    if isinstance(window, Delta) and is_column_object(window.on):
        given["window"] = replace(window, on=name_of("window.on", window.on))


def plain_name(argument: str, column: Any) -> str:
    """Return the name of a column object of Polars, or of Spark where no frame is at hand.

    Raises TypeError for anything but a plain reference.
    """
    if has_class_of_spark(column, "Column"):
        name = str(column).removeprefix("Column<'").removesuffix("'>")
        if name.replace("`", "").isidentifier():
            return name.replace("`", "")
    elif is_polars_expression(column) and column.meta.is_column():
        return str(column.meta.output_name())
    raise TypeError(
        f"`{argument}` must be a column name, as text; got the expression {column!s:.80}: add it "
        "to the frame as a column, as with with_columns or withColumn, and write its name"
    )


def name_in_memory(argument: str, column: Any) -> str:
    """Return the name of a column object for a table in memory: a plain one of Polars.

    Raises TypeError for any other.
    """
    if has_class_of_spark(column, "Column"):
        raise TypeError(
            f"`{argument}` must be a column name, as text, for a table in memory; got a column of "
            f'Spark: write "{plain_name(argument, column)}"'
        )
    return plain_name(argument, column)
