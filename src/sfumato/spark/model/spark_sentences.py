"""What Spark says of users' expressions, as a sentence that names the argument."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame

from sfumato.near_misses import did_you_mean
from sfumato.spark.model.declared_frame import DeclaredFrame
from sfumato.spark.model.frame import SparkFrame

PART = re.compile(r"`((?:[^`]|``)*)`")
CLASS = re.compile(r"^\s*\[[A-Z_.]+\]\s*")
TWICE = "DUPLICATED_METRICS_NAME"
STATE = re.compile(r"\s*SQLSTATE: \w+.*", re.DOTALL)


def sentence(error: AnalysisException, given: Mapping[str, Any]) -> str | None:
    """What to say of an error in an argument that is text for Spark; None where it is of none.

    given : the arguments of the call, by name
    """
    texts = dict(_texts(given))
    parameters = error.getMessageParameters() or {}
    condition = error.getCondition() or ""
    if condition == "PATH_NOT_FOUND":
        path = parameters.get("path", "")
        return f"there is no file or folder {path}: name one, or give a DataFrame"
    if condition == TWICE:
        return (
            f"two operators of one kind are called {given.get('name')!r} in metrics: "
            "give each a `name` of its own"
        )
    if condition.startswith("UNRESOLVED_COLUMN"):
        name = (PART.findall(parameters.get("objectName", "")) or [""])[-1]
        argument = next((of for of, text in texts.items() if name and name in text), None)
        if argument is None:
            return None
        known = list(_known(given))
        near = did_you_mean(name, known)
        return f"`{argument}` names `{name}`, but there are {', '.join(known)}{near}"
    if len(texts) != 1:
        return None
    ((argument, text),) = texts.items()
    said = STATE.sub("", CLASS.sub("", str(error))).strip()
    if isinstance(error, ParseException):
        return f"`{argument}` must be one SQL expression; got {text!r}: Spark says: {said}"
    return f"`{argument}`: Spark cannot compute {text!r} of these columns: {said}"


def _texts(given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The expressions among the arguments, by what to call them."""
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
