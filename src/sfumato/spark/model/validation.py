"""Calls with frames of Spark: other things are refused, and Spark's errors name the argument."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame

from sfumato.near_misses import did_you_mean
from sfumato.spark.model.declared_frame import DeclaredFrame, in_thread
from sfumato.spark.model.frame import SparkFrame

R = TypeVar("R")

DUPLICATED_NAME = "DUPLICATED_METRICS_NAME"  # Spark's condition
QUOTED_NAME = re.compile(r"`((?:[^`]|``)*)`")
CONDITION_PREFIX = re.compile(r"^\s*\[[A-Z_.]+\]\s*")
SQLSTATE_TAIL = re.compile(r"\s*SQLSTATE: \w+.*", re.DOTALL)


def call_with_frames(call: Callable[[], R], given: Mapping[str, Any], frames: Sequence[str]) -> R:
    """Return the result of a public function for frames of Spark.

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
            return in_thread(call)
        return call()
    except AnalysisException as error:
        message = translated(error, given)
        if message is None:
            raise
        raise ValueError(message) from error


def require_frame(argument: str, given: Any) -> None:
    """Raise TypeError for anything but a frame of Spark."""
    kind = type(given)
    of_connect = kind.__name__ == "DataFrame" and kind.__module__.startswith("pyspark.sql.")
    if of_connect or isinstance(given, DataFrame | DeclaredFrame):
        return
    raise TypeError(
        f"`{argument}` must be a DataFrame of Spark, as others of this call are; got "
        f"{kind.__module__.split('.')[0]}.{kind.__name__}: make one with spark.createDataFrame, "
        "spark.read or spark.readStream"
    )


def translated(error: AnalysisException, given: Mapping[str, Any]) -> str | None:
    """Return the message for an error in an argument that is text for Spark; None for others.

    given : the arguments of the call, by name
    """
    texts = dict(_texts(given))
    parameters = error.getMessageParameters() or {}
    condition = error.getCondition() or ""
    if condition == "PATH_NOT_FOUND":
        path = parameters.get("path", "")
        return f"there is no file or folder {path}: name one, or give a DataFrame"
    if condition == DUPLICATED_NAME:
        return (
            f"two operators of one kind are called {given.get('name')!r} in metrics: "
            "give each a different `name`"
        )
    if condition.startswith("UNRESOLVED_COLUMN"):
        name = (QUOTED_NAME.findall(parameters.get("objectName", "")) or [""])[-1]
        argument = next((of for of, text in texts.items() if name and name in text), None)
        if argument is None:
            return None
        known = list(_known(given))
        near = did_you_mean(name, known)
        return f"`{argument}` names `{name}`, but there are {', '.join(known)}{near}"
    if len(texts) != 1:
        return None
    ((argument, text),) = texts.items()
    reason = SQLSTATE_TAIL.sub("", CONDITION_PREFIX.sub("", str(error))).strip()
    if isinstance(error, ParseException):
        return f"`{argument}` must be one SQL expression; got {text!r}: Spark says: {reason}"
    return f"`{argument}`: Spark cannot compute {text!r} of these columns: {reason}"


def _texts(given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the expressions among the arguments, by the names that errors use."""
    for name in ("condition", "by"):
        if isinstance(given.get(name), str):
            yield name, given[name]
    aggregates = given.get("aggregates")
    for key, text in aggregates.items() if isinstance(aggregates, Mapping) else ():
        yield f"aggregates[{key!r}]", str(text)


def _known(given: Mapping[str, Any]) -> Iterator[str]:
    for frame in given.values():
        if isinstance(frame, DataFrame | DeclaredFrame):
            yield from frame.columns
            yield from SparkFrame(cast(DataFrame, frame)).attributes
