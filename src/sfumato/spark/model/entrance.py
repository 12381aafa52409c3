"""Where users' arguments come in: what a call lacks, or has too much, is said in a sentence."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from sfumato.calls import check_call
from sfumato.spark.model.declared_frame import DeclaredFrame, asked
from sfumato.spark.model.spark_sentences import sentence

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
            check_call(signature, name, example, args, kwargs)
            given = signature.bind(*args, **kwargs).arguments
            for argument in frames:
                require_frame(argument, given[argument])
            try:
                if any(isinstance(one, DeclaredFrame) for one in given.values()):
                    return asked(lambda: function(*args, **kwargs))
                return function(*args, **kwargs)
            except AnalysisException as error:
                said = sentence(error, given)
                if said is None:
                    raise
                raise ValueError(said) from error

        return checked

    return decorated


def require_frame(argument: str, given: Any) -> None:
    """Raise TypeError for what is no frame of Spark's."""
    if isinstance(given, DataFrame | DeclaredFrame) or _of_connect(given):
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
