"""A frame with declared columns, and an empty frame that has the same schema.

Under Spark Connect, a frame is a plan that Spark has not analysed. The properties that an operator
needs (columns, types, whether it is a stream) are read from an empty frame with the same columns.
The same methods are applied to both frames. Only public frame methods are called.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from inspect import isfunction
from types import MethodType
from typing import Any, TypeVar

from pyspark.errors import AnalysisException
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from sfumato.spark.model.columns import column

R = TypeVar("R")

SCHEMA_ATTRIBUTES = ("schema", "columns", "dtypes", "isStreaming", "storageLevel")
SCHEMA_METHODS = ("mapInArrow", "mapInPandas")  # methods that read their frame's columns
WRAPPED_TYPES = ("DataFrame", "GroupedData")  # types of results that become a DeclaredFrame
THREAD = "sfumato-declared"


class DeclaredFrame:
    """A Spark frame and an empty frame with the same columns; it has the methods of Spark frames.

    frame : the frame that runs;  empty : the frame from which columns and types are read
    A method that would return a frame returns a DeclaredFrame. Columns are attributes.
    """

    def __init__(self, frame: Any, empty: Any) -> None:
        self.frame, self.empty = frame, empty
        self._known: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        if name in SCHEMA_ATTRIBUTES:
            if name not in self._known:
                self._known[name] = in_thread(lambda: getattr(self.empty, name))
            return self._known[name]
        of = getattr(type(self.frame), name, None)
        if of is None and not name.startswith("_") and name in self.columns:
            return column(name)
        if isfunction(of) and (name in SCHEMA_METHODS or name.startswith("_")):
            # Bind the method to this object, so that it reads the columns of `empty`.
            method: Callable[..., Any] = MethodType(of, self)
        else:
            method = getattr(self.frame, name)
        return self._on_both(name, method) if callable(method) and name[0] != "_" else method

    def __getitem__(self, item: Any) -> Any:
        if isinstance(item, str):
            return F.col(item)
        if isinstance(item, int):
            return column(self.columns[item])
        return self.where(item) if isinstance(item, Column) else self.select(*item)

    def withColumn(self, colName: str, col: Column) -> DeclaredFrame:  # noqa: N802
        return self.withColumns({colName: col})

    def withColumns(self, colsMap: Mapping[str, Column]) -> DeclaredFrame:  # noqa: N802
        """Return the frame with these columns added or replaced, by a selection.

        Spark's own method reads the catalog's table from an earlier run of the pipeline, so the
        table would no longer belong to the pipeline.
        """
        given = {name.lower(): (name, of) for name, of in colsMap.items()}
        chosen = []
        for name in self.columns:
            known, of = given.pop(name.lower(), (name, column(name)))
            chosen.append(of.alias(known) if known in colsMap else of)
        frame: DeclaredFrame = self.select(
            *chosen, *(of.alias(name) for name, of in given.values())
        )
        return frame

    def drop(self, *cols: Any) -> DeclaredFrame:
        """Return the frame without the named columns; Spark's `drop` would analyse the frame."""
        if not all(isinstance(col, str) for col in cols):
            raise TypeError(f"`drop` of a declared frame accepts only column names; got {cols!r}")
        gone = {col.lower() for col in cols}
        left = (column(name) for name in self.columns if name.lower() not in gone)
        frame: DeclaredFrame = self.select(*left)
        return frame

    def __repr__(self) -> str:
        return f"DeclaredFrame[{', '.join(f'{name}: {kind}' for name, kind in self.dtypes)}]"

    def _on_both(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            found = in_thread(lambda: method(*unwrap(args, "frame"), **unwrap(kwargs, "frame")))
            if type(found).__name__ not in WRAPPED_TYPES:
                return found
            same = getattr(self.empty, name)
            empty = in_thread(lambda: same(*unwrap(args, "empty"), **unwrap(kwargs, "empty")))
            return DeclaredFrame(found, empty)

        return call


def require_known(frame: Any) -> None:
    """Raise ValueError for a declared stream of a table that does not exist yet.

    Stateful operators require existing tables; see docs/decisions/0011.
    """
    if not isinstance(frame, DeclaredFrame):
        return
    try:
        in_thread(lambda: frame.frame.schema)
    except AnalysisException as error:
        if error.getCondition() != "TABLE_OR_VIEW_NOT_FOUND":
            raise
        raise ValueError(
            "`df` is the stream of a table that does not exist yet, and Spark accepts no operator "
            "with state over such a stream. For a materialized view, read the table itself, "
            "spark.read.table(...). For a stream, read the files of the table, "
            "spark.readStream.schema(...).parquet(folder), and end with a union with zero rows of "
            "the table's stream, as docs/how-to/declarative-pipelines.md shows"
        ) from error


def in_thread(call: Callable[[], R]) -> R:
    """Return the result of `call`, which must not depend on tables, from another thread.

    While a function defines a pipeline table, Spark refuses requests from its thread, because they
    could concern tables that do not exist yet.
    """
    if threading.current_thread().name.startswith(THREAD):
        return call()
    with ThreadPoolExecutor(1, THREAD) as thread:
        return thread.submit(call).result()


def maybe_in_thread(of: Any, call: Callable[[], R]) -> R:
    """Return the result of `call`, which must not depend on tables; see `in_thread`."""
    return in_thread(call) if is_connected(of) else call()


def is_connected(of: Any) -> bool:
    return isinstance(of, DeclaredFrame) or type(of).__module__.startswith("pyspark.sql.connect")


def unwrap(given: Any, half: str) -> Any:
    """Replace each declared frame in arguments with its `half`: "frame" or "empty"."""
    if isinstance(given, DeclaredFrame):
        return getattr(given, half)
    if isinstance(given, list | tuple):
        return type(given)(unwrap(one, half) for one in given)
    if isinstance(given, dict):
        return {name: unwrap(one, half) for name, one in given.items()}
    return given
