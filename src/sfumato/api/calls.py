"""Where users' arguments come in: calls are checked, and results are of the kind that was given."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from sfumato.calls import check_call
from sfumato.memory.kinds import like

PUBLIC: dict[str, Callable[..., Any]] = {}
"""The public functions of frames by name; `frames` of each names its arguments that are frames."""

P = ParamSpec("P")
R = TypeVar("R")


def public(example: str, *frames: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator of public functions.

    example : a call, for messages
    frames : the arguments that are frames, all of Spark or all in memory: the result is of the kind
        of the first
    Calls that do not fit the signature, and other things than frames, raise a TypeError that says
    what was expected, what came and what to write.
    """

    def decorated(function: Callable[P, R]) -> Callable[P, R]:
        signature, name = inspect.signature(function), f"sf.{function.__name__}"

        @wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            check_call(signature, name, example, args, kwargs)
            given = signature.bind(*args, **kwargs).arguments
            first = given[frames[0]]
            if isinstance(first, Mapping):  # of several frames
                first = next(iter(first.values()), None)
            if is_of_spark(first):
                from sfumato.spark.model.entrance import call_with_frames

                return call_with_frames(lambda: function(*args, **kwargs), given, frames)
            for argument in frames[1:]:
                if is_of_spark(given[argument]):
                    raise TypeError(
                        f"`{argument}` must be a pandas, Polars or Arrow table, as `{frames[0]}` "
                        "is; got a DataFrame of Spark: give both of one kind"
                    )
            result: R = like(first, function(*args, **kwargs))
            return result

        checked.frames = frames  # type: ignore[attr-defined]
        PUBLIC[function.__name__] = checked
        return checked

    return decorated


def is_of_spark(given: Any) -> bool:
    """Return whether something is a frame of Spark, also one of Connect or a declared one."""
    return type(given).__name__ == "DeclaredFrame" or _is_of_spark(given, "DataFrame")


def is_column_of_spark(given: Any) -> bool:
    """Return whether something names a column of Spark, or is one."""
    return isinstance(given, str) or _is_of_spark(given, "Column")


def _is_of_spark(given: Any, name: str) -> bool:
    """Return whether something has a class of Spark, or one made of it; imports nothing."""
    classes = type(given).__mro__
    return any(of.__name__ == name and of.__module__.startswith("pyspark.sql.") for of in classes)
