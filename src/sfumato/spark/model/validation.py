"""Calls with Spark frames: checks, translation of Spark errors, names of Column objects."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from sfumato.near_misses import did_you_mean
from sfumato.spark.model.columns import with_alias
from sfumato.spark.model.declared_frame import DeclaredFrame, in_thread, unwrap
from sfumato.spark.model.frame import SparkFrame, reason_of
from sfumato.sql_tokens import free_name, quote_name
from sfumato.tables.reading.frame import ADDED_COLUMN

R = TypeVar("R")

DUPLICATED_NAME = "DUPLICATED_METRICS_NAME"  # Spark's error condition
QUOTED_NAME = re.compile(r"`((?:[^`]|``)*)`")
NAME_RESULTS = ("on", "attributes", "columns")  # these arguments name result columns
# Under Connect, also raised for `df.x` and `df.x + 1` once the columns of `df` have been read.
UNRESOLVED_FRAME_COLUMN = "CANNOT_RESOLVE_DATAFRAME_COLUMN"
SORTED = re.compile(r" (ASC|DESC) NULLS (FIRST|LAST)$")


def call_with_frames(call: Callable[[], R], given: Mapping[str, Any], frames: Sequence[str]) -> R:
    """Return the result of a public function, with Spark errors about its arguments translated."""
    for argument in frames:
        several = given[argument]
        if isinstance(several, Mapping):
            for name, one in several.items():
                require_frame(f"{argument}[{name!r}]", one)
        else:
            require_frame(argument, several)
    try:
        if any(isinstance(one, DeclaredFrame) for one in given.values()):
            return in_thread(call)
        return call()
    except AnalysisException as error:
        message = translate_error(error, given)
        if message is None:
            raise
        raise ValueError(message) from error


def require_frame(argument: str, given: Any) -> None:
    if not isinstance(given, DataFrame | DeclaredFrame):
        kind = type(given)
        raise TypeError(
            f"`{argument}` must be a Spark DataFrame, like other arguments of this call; got "
            f"{kind.__module__.split('.')[0]}.{kind.__name__}. Create one with "
            "spark.createDataFrame, spark.read or spark.readStream"
        )


def translate_error(error: AnalysisException, given: Mapping[str, Any]) -> str | None:
    """Return the message for a Spark error about an argument, or None for other errors."""
    texts = dict(_expression_arguments(given))
    parameters = error.getMessageParameters() or {}
    condition = error.getCondition() or ""
    if condition == "PATH_NOT_FOUND":
        path = parameters.get("path", "")
        return f"no such file or folder: {path}. Name an existing one, or give a DataFrame"
    if condition == DUPLICATED_NAME:
        return (
            f"two operators of the same kind are called {given.get('name')!r} in metrics: give "
            "each of them a different `name`"
        )
    if condition.startswith("UNRESOLVED_COLUMN"):
        name = (QUOTED_NAME.findall(parameters.get("objectName", "")) or [""])[-1]
        argument = next((of for of, text in texts.items() if name and name in text), None)
        if argument is None:
            return None
        frames: list[Any] = [f for f in given.values() if isinstance(f, DataFrame | DeclaredFrame)]
        known = [n for of in map(SparkFrame, frames) for n in (*of.columns, *of.attributes)]
        return (
            f"`{argument}` names `{name}`, which is not a known column; known names are "
            f"{', '.join(known)}{did_you_mean(name, known)}"
        )
    if len(texts) != 1:
        return None
    ((argument, text),) = texts.items()
    reason = reason_of(error)
    if isinstance(error, ParseException):
        return f"`{argument}` must be one SQL expression; got {text!r}. Spark reports: {reason}"
    return f"Spark cannot compute `{argument}` = {text!r} from these columns: {reason}"


def _expression_arguments(given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the expressions among the arguments, with the names used in errors."""
    for name in ("condition", "by"):
        if isinstance(given.get(name), str):
            yield name, given[name]
    aggregates = given.get("aggregates")
    for key, text in aggregates.items() if isinstance(aggregates, Mapping) else ():
        yield f"aggregates[{key!r}]", str(text)


class ColumnObjects:
    """Column objects among a call's arguments, and the columns that are added for expressions.

    given : the arguments by name; a frame with added columns replaces the user's frame
    frames : names of the arguments that are frames
    """

    def __init__(self, given: dict[str, Any], frames: Sequence[str]) -> None:
        self.arguments, self.frames = given, frames
        self.temporary: set[str] = set()

    def name_of(self, argument: str, column: Any) -> str:
        """Return a column's name; an expression is first added to every frame as a column."""
        if not hasattr(column, "isNull"):
            raise TypeError(
                f"`{argument}` must be a string or a Spark Column, because the frame is a Spark "
                f"DataFrame; got {type(column).__module__.split('.')[0]}.{type(column).__name__}"
            )
        for frame in self.frames:
            referred = _referenced_column(unwrap(self.arguments[frame], "empty"), column)
            if referred is not None:
                return referred
        text = str(column).removeprefix("Column<'").removesuffix("'>")
        plain = text.replace("`", "")
        if any(plain in SparkFrame(self.arguments[frame]).attributes for frame in self.frames):
            return plain
        try:
            return self._add(argument, column, text)
        except AnalysisException as error:
            parameters = error.getMessageParameters() or {}
            unknown = parameters.get("objectName") or parameters.get("name") or ""
            if unknown and re.sub('[`"]', "", unknown) == plain:
                return plain  # the function raises for an unknown name, with a suggestion
            said = str(error).partition("\n")[0]
            if error.getCondition() == UNRESOLVED_FRAME_COLUMN:
                said += f". Write F.col({parameters.get('name')}) instead of the column of a frame"
            raise ValueError(f"Spark cannot compute `{argument}` = {text:.200}: {said}") from error

    def result(self, found: Any) -> Any:
        """Return a frame or a tuple of frames without the temporary columns."""
        if not self.temporary:
            return found
        if isinstance(found, tuple):
            return tuple(map(self.result, found))
        kept = []
        for field in found.schema.fields:
            column, kind = F.col(quote_name(field.name)), field.dataType
            parts = kind.names if isinstance(kind, StructType) else []
            temporary = [quote_name(name) for name in parts if name in self.temporary]
            if temporary:
                column = with_alias(column.dropFields(*temporary), field.name, field.metadata)
            if field.name not in self.temporary:
                kept.append(column)
        return found.select(*kept)

    def _add(self, argument: str, column: Column, text: str) -> str:
        """Add an expression to every frame as a column, and return its name."""
        if SORTED.search(text):
            raise TypeError(f"`{argument}` must be a column without a direction; got {text}")
        frames = [SparkFrame(self.arguments[frame]) for frame in self.frames]
        for frame in frames:
            names = unwrap(frame.df, "empty").select(column).columns
            if len(names) != 1:
                raise TypeError(
                    f"`{argument}` must be one column; got {text}, which is {len(names)} columns"
                )
        if text.endswith((f" AS {names[0]}", f" AS {quote_name(names[0])}")):
            name = names[0]
            same = next(filter(None, (frame.find_column(name) for frame in frames)), None)
            if same is not None:
                raise ValueError(
                    f"`{argument}` has the alias `{same}`, but the frame already has a column "
                    "with this name: give the expression a different alias"
                )
        elif argument in NAME_RESULTS:
            raise TypeError(
                f"`{argument}` names columns of the result, but {text:.80} has no name: add one, "
                'as with .alias("x")'
            )
        else:
            taken = [of for frame in frames for of in frame.columns]
            name = free_name(f"{argument.replace('.', '_')}_expression", taken)
            self.temporary.add(name)
            column = with_alias(column, name, {ADDED_COLUMN: "true"})
        for given, frame in zip(self.frames, frames, strict=True):
            self.arguments[given] = frame.df.select("*", column)
        return name


def _referenced_column(df: Any, column: Column) -> str | None:
    """Return the frame's column that a Column refers to, or None for an expression."""
    try:
        gone = Counter(df.columns) - Counter(df.drop(column).columns)
    except AnalysisException:  # an ambiguous reference
        return None
    return next(iter(gone), None)
