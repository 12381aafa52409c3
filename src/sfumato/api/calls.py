"""Checks of users' calls, and results of the same kind as the frame that was given."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from sfumato.api.columns import name_in_memory, replace_columns
from sfumato.calls import check_call, has_class_of_spark
from sfumato.memory.kinds import like

PUBLIC: dict[str, Callable[..., Any]] = {}
"""The public functions of frames by name; `frames` of each names its arguments that are frames."""

P = ParamSpec("P")
R = TypeVar("R")


def public(example: str, *frames: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a public function: check its calls and return the kind of frame that was given.

    Parameters
    ----------
    example
        A call, for messages.
    frames
        The arguments that are frames, all of Spark or all in memory; the result is of the kind of
        the first.

    Notes
    -----
    Columns given as objects are replaced by their names, see `ColumnObjects`. A call that does not
    fit the signature, or an argument that is not a frame, raises a TypeError that says what was
    expected, what came and what to write.
    """

    def decorated(function: Callable[P, R]) -> Callable[P, R]:
        signature, name = inspect.signature(function), f"sf.{function.__name__}"

        def call_of_spark(bound: inspect.BoundArguments) -> R:
            from sfumato.spark.model.column_objects import ColumnObjects

            columns = ColumnObjects(bound.arguments, frames)
            replace_columns(bound.arguments, columns.name_of)
            result: R = columns.result(function(*bound.args, **bound.kwargs))
            return result

        @wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            check_call(signature, name, example, args, kwargs)
            bound = signature.bind(*args, **kwargs)
            given = bound.arguments
            _check_metrics_name(given.get("name"))
            first = given[frames[0]]
            if isinstance(first, Mapping):  # of several frames
                first = next(iter(first.values()), None)
            if is_of_spark(first):
                from sfumato.spark.model.validation import call_with_frames

                return call_with_frames(lambda: call_of_spark(bound), given, frames)
            for argument in frames[1:]:
                if is_of_spark(given[argument]):
                    raise TypeError(
                        f"`{argument}` must be a pandas, Polars or Arrow table, as `{frames[0]}` "
                        "is; got a DataFrame of Spark: give both of one kind"
                    )
            replace_columns(given, name_in_memory)
            result: R = like(first, function(*bound.args, **bound.kwargs))
            return result

        checked.frames = frames  # type: ignore[attr-defined]
        PUBLIC[function.__name__] = checked
        return checked

    return decorated


def _check_metrics_name(name: Any) -> None:
    """Raise TypeError or ValueError for a name of metrics that is not letters, digits and `_`."""
    if name is not None and not isinstance(name, str):
        raise TypeError(f"`name` must be text; got {name!r}")
    if name is not None and not re.fullmatch(r"\w+", name):
        raise ValueError(f"`name` must be made of letters, digits and `_`; got {name!r}")


def is_of_spark(given: Any) -> bool:
    """Return whether something is a frame of Spark, also one of Connect or a declared one."""
    return type(given).__name__ == "DeclaredFrame" or has_class_of_spark(given, "DataFrame")


def is_column_of_spark(given: Any) -> bool:
    """Return whether something names a column of Spark, or is one."""
    return isinstance(given, str) or has_class_of_spark(given, "Column")
