"""Where users' arguments come in: what a call lacks, or has too much, is said in a sentence."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from pyspark.sql import DataFrame

from sfumato.near_misses import did_you_mean

P = ParamSpec("P")
R = TypeVar("R")


def public(example: str, *frames: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator of public functions.

    example : a call, for messages    frames : the arguments that must be Spark's frames
    Calls that do not fit the signature, and other things than frames, raise a TypeError that says
    what was expected, what came and what to write.
    """

    def decorated(function: Callable[P, R]) -> Callable[P, R]:
        signature, name = inspect.signature(function), f"sf.{function.__name__}"

        @wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            _check(signature, name, example, args, kwargs)
            given = signature.bind(*args, **kwargs).arguments
            for argument in frames:
                require_frame(argument, given[argument])
            return function(*args, **kwargs)

        return checked

    return decorated


def _check(
    signature: inspect.Signature, name: str, example: str, args: Any, kwargs: dict[str, Any]
) -> None:
    """Raise TypeError for a call that does not fit."""
    known = signature.parameters
    for given in kwargs:
        open_ended = any(one.kind is one.VAR_KEYWORD for one in known.values())
        if given not in known and not open_ended:
            raise TypeError(
                f"{name} has no argument `{given}`{did_you_mean(given, known)}; it has "
                f"{', '.join(known)}. For example {example}"
            )
    places = [one.name for one in known.values() if one.kind is one.POSITIONAL_OR_KEYWORD]
    if len(args) > len(places):
        raise TypeError(
            f"{name} takes {', '.join(places)} by position, and the rest by name; got "
            f"{len(args)} by position. For example {example}"
        )
    given_names = {*places[: len(args)], *kwargs}
    lacking = [
        f"`{one.name}`"
        for one in known.values()
        if one.default is one.empty
        and one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)
        and one.name not in given_names
    ]
    if lacking:
        raise TypeError(f"{name} lacks {', '.join(lacking)}. For example {example}")


def require_frame(argument: str, given: Any) -> None:
    """Raise TypeError for what is no frame of Spark's."""
    if isinstance(given, DataFrame) or _of_connect(given):
        return
    kind = f"{type(given).__module__.split('.')[0]}.{type(given).__name__}"
    tabular = hasattr(given, "__arrow_c_stream__") or kind == "pandas.DataFrame"
    hint = "make one with spark.createDataFrame, spark.read or spark.readStream"
    if tabular:
        hint = "make one with spark.createDataFrame, or take the function of sfumato.local"
    raise TypeError(f"`{argument}` must be a DataFrame of Spark; got {kind}: {hint}")


def _of_connect(given: Any) -> bool:
    kind = type(given)
    return kind.__name__ == "DataFrame" and kind.__module__.startswith("pyspark.sql.")
