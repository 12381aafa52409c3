"""A frame whose columns are stated: transformed beside an empty one, which Spark is asked about.

Under Spark Connect a frame is a plan that nobody has looked at. What an operator has to know of
it (columns, types, whether it is a stream) is asked of an empty frame of the same columns, to which
the same is done. Only public methods of frames are called.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from inspect import isfunction
from types import MethodType
from typing import Any, TypeVar

from pyspark.errors import AnalysisException
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

R = TypeVar("R")

ASKED = ("schema", "columns", "dtypes", "isStreaming", "storageLevel")
READING = ("mapInArrow", "mapInPandas")  # ask the frame that they are called on for its columns
MADE = ("DataFrame", "GroupedData")  # what the same is done to, in both


class DeclaredFrame:
    """Spark's frame and an empty one beside it; has the methods of Spark's frames.

    frame : what runs    empty : what is asked, of the same columns
    What a method makes of frames is of this kind again; anything else is `frame`'s. Columns are
    meant by their names.
    """

    def __init__(self, frame: Any, empty: Any) -> None:
        self.frame, self.empty = frame, empty
        self._known: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        if name in ASKED:
            if name not in self._known:
                self._known[name] = asked(lambda: getattr(self.empty, name))
            return self._known[name]
        of = getattr(type(self.frame), name, None)
        if of is None and not name.startswith("_") and name in self.columns:
            return F.col(_quoted(name))
        if isfunction(of) and (name in READING or name.startswith("_")):
            # Called on this object: what it has to know of the frame it reads here.
            method: Callable[..., Any] = MethodType(of, self)
        else:
            method = getattr(self.frame, name)
        return self._both(name, method) if callable(method) and name[0] != "_" else method

    def __getitem__(self, item: Any) -> Any:
        if isinstance(item, str):
            return F.col(item)
        if isinstance(item, int):
            return F.col(_quoted(self.columns[item]))
        return self.where(item) if isinstance(item, Column) else self.select(*item)

    def withColumn(self, colName: str, col: Column) -> DeclaredFrame:  # noqa: N802
        """As `withColumns` with one."""
        return self.withColumns({colName: col})

    def withColumns(self, colsMap: Mapping[str, Column]) -> DeclaredFrame:  # noqa: N802
        """With these columns added, or in place of those of their names.

        By a selection: Spark's own takes what the catalog has of a table that an earlier run of a
        pipeline left, so that the table is not one of the pipeline any more.
        """
        given = {name.lower(): (name, column) for name, column in colsMap.items()}
        chosen = []
        for of in self.columns:
            name, column = given.pop(of.lower(), (of, F.col(_quoted(of))))
            chosen.append(column.alias(name) if name in colsMap else column)
        chosen += [column.alias(name) for name, column in given.values()]
        frame: DeclaredFrame = self.select(*chosen)
        return frame

    def drop(self, *cols: Any) -> DeclaredFrame:
        """Without these columns, by name: Spark's own `drop` looks at the frame at once."""
        if not all(isinstance(col, str) for col in cols):
            raise TypeError(f"`drop` of a declared frame takes names of columns; got {cols!r}")
        gone = {col.lower() for col in cols}
        left = (name for name in self.columns if name.lower() not in gone)
        chosen: DeclaredFrame = self.select(*(F.col(_quoted(name)) for name in left))
        return chosen

    def __repr__(self) -> str:
        return f"DeclaredFrame[{', '.join(f'{name}: {kind}' for name, kind in self.dtypes)}]"

    def _both(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            made = asked(lambda: method(*halves(args, "frame"), **halves(kwargs, "frame")))
            if type(made).__name__ not in MADE:
                return made
            same = getattr(self.empty, name)
            empty = asked(lambda: same(*halves(args, "empty"), **halves(kwargs, "empty")))
            return DeclaredFrame(made, empty)

        return call


def require_known(frame: Any) -> None:
    """Raise ValueError for a declared stream of a table that Spark does not know yet: it takes
    operators with state over known tables only, see docs/decisions/0011."""
    if not isinstance(frame, DeclaredFrame):
        return
    try:
        asked(lambda: frame.frame.schema)
    except AnalysisException as error:
        if error.getCondition() != "TABLE_OR_VIEW_NOT_FOUND":
            raise
        raise ValueError(
            "`df` is the stream of a table that is not there yet, over which Spark takes no "
            "operator with state: read the table as it is, spark.read.table(...), for a "
            "materialized view; or read the files that the table has as a stream, "
            "spark.readStream.schema(...).parquet(folder), and end with a union with nothing of "
            "the table's stream, as docs/running.md shows under Declarative pipelines"
        ) from error


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def asked(question: Callable[[], R]) -> R:
    """What a question about empty frames, or about no frame, gives: asked by a thread of its own.

    Spark refuses questions while a function that defines a table of a pipeline runs, of the thread
    in which it runs: they could be about tables that are not there yet. Empty frames have none.
    """
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(question).result()


def apart(of: Any, question: Callable[[], R]) -> R:
    """What a question gives that is about no table of a pipeline: under Connect as by `asked`.

    of : a session, or a frame
    """
    return asked(question) if is_connected(of) else question()


def is_connected(of: Any) -> bool:
    """Whether a session or a frame is one of Spark Connect."""
    return isinstance(of, DeclaredFrame) or type(of).__module__.startswith("pyspark.sql.connect")


def halves(given: Any, half: str) -> Any:
    """Arguments with one of the two frames in place of each pair."""
    if isinstance(given, DeclaredFrame):
        return getattr(given, half)
    if isinstance(given, list | tuple):
        return type(given)(halves(one, half) for one in given)
    if isinstance(given, dict):
        return {name: halves(one, half) for name, one in given.items()}
    return given
