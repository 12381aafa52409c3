"""Calls with frames of Spark: other things are refused, and Spark's errors said in a sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from sfumato.spark.model.declared_frame import DeclaredFrame, asked
from sfumato.spark.model.spark_sentences import sentence

R = TypeVar("R")


def call_with_frames(call: Callable[[], R], given: Mapping[str, Any], frames: Sequence[str]) -> R:
    """Return what a public function gives for frames of Spark.

    given : its arguments    frames : those that are frames, or frames by names
    Raises TypeError for another frame, and ValueError for what Spark cannot resolve.
    """
    for argument in frames:
        several = given[argument]
        if isinstance(several, Mapping):
            for name, one in several.items():
                require_frame(f"{argument}[{name!r}]", one)
        else:
            require_frame(argument, several)
    try:
        if any(isinstance(one, DeclaredFrame) for one in given.values()):
            return asked(call)
        return call()
    except AnalysisException as error:
        said = sentence(error, given)
        if said is None:
            raise
        raise ValueError(said) from error


def require_frame(argument: str, given: Any) -> None:
    """Raise TypeError for anything but a frame of Spark."""
    if isinstance(given, DataFrame | DeclaredFrame) or _of_connect(given):
        return
    kind = f"{type(given).__module__.split('.')[0]}.{type(given).__name__}"
    raise TypeError(
        f"`{argument}` must be a DataFrame of Spark, as others of this call are; got {kind}: make "
        "one with spark.createDataFrame, spark.read or spark.readStream"
    )


def _of_connect(given: Any) -> bool:
    kind = type(given)
    return kind.__name__ == "DataFrame" and kind.__module__.startswith("pyspark.sql.")
