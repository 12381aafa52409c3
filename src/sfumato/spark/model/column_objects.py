"""Columns of Spark given as objects: the names by which operators read them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from sfumato.spark.model.columns import named, quoted
from sfumato.spark.model.declared_frame import DeclaredFrame
from sfumato.spark.model.frame import SparkFrame
from sfumato.tables.reading.frame import ADDED_COLUMN

NAME_RESULTS = ("on", "attributes")  # columns of results are named after these arguments
# Under Connect also raised for `df.x` and `df.x + 1` once the columns of `df` have been read.
OF_ANOTHER_FRAME = "CANNOT_RESOLVE_DATAFRAME_COLUMN"
SORTED = re.compile(r" (ASC|DESC) NULLS (FIRST|LAST)$")


class ColumnObjects:
    """The Column objects in the arguments of one call, and the columns added for expressions.

    given : the arguments by name; a frame with added columns replaces the user's
    frames : which of them are frames
    """

    def __init__(self, given: dict[str, Any], frames: Sequence[str]) -> None:
        self.given, self.frames = given, frames
        self.temporary: set[str] = set()

    def name_of(self, argument: str, column: Any) -> str:
        """Return the name of a column; an expression is added to every frame as a column.

        An expression without alias becomes a temporary column, which `result` drops.
        Raises TypeError or ValueError for an expression that cannot be added.
        """
        if not hasattr(column, "isNull"):
            raise TypeError(
                f"`{argument}` must be text or a Column of Spark, as the frame is one of Spark; "
                f"got {type(column).__module__.split('.')[0]}.{type(column).__name__}"
            )
        for frame in self.frames:
            referred = _referred(_analysed(self.given[frame]), column)
            if referred is not None:
                return referred
        text = str(column).removeprefix("Column<'").removesuffix("'>")
        plain = text.replace("`", "")
        if any(plain in SparkFrame(self.given[frame]).attributes for frame in self.frames):
            return plain
        try:
            return self._add(argument, column, text)
        except AnalysisException as error:
            parameters = error.getMessageParameters() or {}
            unknown = parameters.get("objectName") or parameters.get("name") or ""
            if unknown and re.sub('[`"]', "", unknown) == plain:
                return plain  # the function raises for an unknown name, with a likely one
            said = str(error).partition("\n")[0]
            if error.getCondition() == OF_ANOTHER_FRAME:
                said += f": write F.col({parameters.get('name')}) in place of the column of a frame"
            raise ValueError(f"`{argument}`: Spark cannot compute {text:.200}: {said}") from error

    def result(self, found: Any) -> Any:
        """Return a frame, or each of several, without the temporary columns."""
        if not self.temporary:
            return found
        if isinstance(found, tuple):
            return tuple(map(self.result, found))
        kept = []
        for field in found.schema.fields:
            column, kind = F.col(quoted(field.name)), field.dataType
            parts = kind.names if isinstance(kind, StructType) else []
            temporary = [quoted(name) for name in parts if name in self.temporary]
            if temporary:
                column = named(column.dropFields(*temporary), field.name, field.metadata)
            if field.name not in self.temporary:
                kept.append(column)
        return found.select(*kept)

    def _add(self, argument: str, column: Column, text: str) -> str:
        """Add an expression to every frame as a column, and return its name."""
        if SORTED.search(text):
            raise TypeError(f"`{argument}` takes a column without a direction; got {text}")
        frames = [SparkFrame(self.given[frame]) for frame in self.frames]
        for frame in frames:
            names = _analysed(frame.df).select(column).columns
            if len(names) != 1:
                raise TypeError(f"`{argument}`: {text} must be one column; it is {len(names)}")
        if text.endswith((f" AS {names[0]}", f" AS {quoted(names[0])}")):
            name = names[0]
            same = next(filter(None, (frame.same_as(name) for frame in frames)), None)
            if same is not None:
                raise ValueError(
                    f"`{argument}`: the frame has a column `{same}` already: give the expression "
                    "another alias"
                )
        elif argument in NAME_RESULTS:
            raise TypeError(
                f"`{argument}`: columns of the result are named after it: give {text:.80} a name, "
                'as with .alias("x")'
            )
        else:
            name = f"{argument.replace('.', '_')}_expression"
            taken = {of.lower() for frame in frames for of in frame.columns}
            while name in taken:
                name += "_"
            self.temporary.add(name)
            column = named(column, name, {ADDED_COLUMN: "true"})
        for given, frame in zip(self.frames, frames, strict=True):
            self.given[given] = frame.df.select("*", column)
        return name


def _analysed(df: Any) -> Any:
    """Return the frame about which Spark can be asked."""
    return df.empty if isinstance(df, DeclaredFrame) else df


def _referred(df: Any, column: Column) -> str | None:
    """Return the column of a frame to which a Column refers; None for an expression.

    `drop` finds it: Spark drops exactly the columns that a Column refers to, if it is a plain
    reference, and none for an expression, a literal or an alias.
    """
    try:
        gone = Counter(df.columns) - Counter(df.drop(column).columns)
    except AnalysisException:  # an ambiguous reference
        return None
    return next(iter(gone), None)
