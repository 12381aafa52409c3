"""Calls of public functions: checks, column objects as arguments, and results of the right kind."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial, wraps
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, ParamSpec, TypeAlias, TypeGuard, TypeVar

from sfumato.calls import check_call, is_column_object, is_polars_expression, is_spark_instance
from sfumato.memory import frame as memory_frame
from sfumato.memory.frame import ArrowFrame, convert_like
from sfumato.memory.run import run_in_memory
from sfumato.tables.reading.frame import Frame
from sfumato.tables.reading.job import Job, remember_answers, remember_converted
from sfumato.tables.reading.user_warnings import warn_of_separate_draws, warn_of_shared_readings
from sfumato.windows import Delta

# A column name, or a Spark Column, which `public_function` replaces with its name
ColumnName: TypeAlias = Any
ColumnNames: TypeAlias = Any  # one, or a list of them

COLUMN_ARGUMENTS = (
    "event_time", "arrival", "key", "source", "unique", "order", "existence", "exclusive", "group",
    "on", "attributes", "columns", "dependents", "measurements", "id", "punctuation", "within",
    "window",
)  # fmt: skip
PUBLIC: dict[str, Callable[..., Any]] = {}
"""The public functions of frames, by name. Their attribute `frames` names the frame arguments."""


@cache
def public_functions() -> Mapping[str, Callable[..., Any]]:
    """Return the public functions of frames by name; importing their modules registers them."""
    package = import_module(__name__.rpartition(".")[0])
    for module in iter_modules(package.__path__):
        import_module(f"{package.__name__}.{module.name}")
    return PUBLIC


P = ParamSpec("P")
R = TypeVar("R")


def public_function(example: str, *frames: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a public function: check its calls, and return a frame of the kind that it received.

    example : a call, for error messages
    frames : the arguments that are frames, all from Spark or all in memory; the result has the type
        of the first; an argument with a default may be None
    Column objects are replaced with their names, see `ColumnObjects`.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature, name = inspect.signature(function), example.partition("(")[0]
        optional = {f for f in frames if signature.parameters[f].default is None}

        def call(bound: inspect.BoundArguments, name_of: Any, convert: Callable[[Any], R]) -> R:
            replace_columns(bound.arguments, name_of)
            answers = function(*bound.args, **bound.kwargs)
            result = convert(answers)
            remember_converted(answers, result)
            return result

        @wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            check_call(signature, name, example, args, kwargs)
            bound = signature.bind(*args, **kwargs)
            given = bound.arguments
            _check_metrics_name(given.get("name"))
            arguments = [f for f in frames if f not in optional or given.get(f) is not None]
            first = given[frames[0]]
            if isinstance(first, Mapping):  # a mapping of several frames
                first = next(iter(first.values()), None)
            if is_of_spark(first):
                from sfumato.spark.model.validation import ColumnObjects, call_with_frames

                columns = ColumnObjects(given, arguments)
                called = partial(call, bound, columns.name_of, columns.result)
                return call_with_frames(called, given, arguments)
            for argument in arguments[1:]:
                if is_of_spark(given[argument]):
                    raise TypeError(
                        f"`{argument}` must be a pandas, Polars or Arrow table, as `{frames[0]}` "
                        "is; got a Spark DataFrame. Give two frames of the same kind"
                    )
            return call(bound, name_in_memory, partial(convert_like, first))

        checked.frames = frames  # type: ignore[attr-defined]
        PUBLIC[function.__name__] = checked
        return checked

    return decorate


def _check_metrics_name(name: Any) -> None:
    if name is not None and not isinstance(name, str):
        raise TypeError(f"`name` must be a string; got {name!r}")
    if name is not None and not re.fullmatch(r"\w+", name):
        raise ValueError(f"`name` must contain only letters, digits and `_`; got {name!r}")


def is_of_spark(given: Any) -> bool:
    """Return whether an object is a Spark frame, classic or Connect, or a declared frame."""
    return type(given).__name__ == "DeclaredFrame" or is_spark_instance(given, "DataFrame")


def replace_columns(given: dict[str, Any], name_of: Callable[[str, Any], str]) -> None:
    """Replace column objects with their names in the arguments that name columns.

    given : the arguments by name    name_of : returns the name of an argument's column
    """

    def with_names(argument: str, value: Any) -> Any:
        if is_column_object(value) and argument != "window":
            return name_of(argument, value)
        if isinstance(value, Delta) and is_column_object(value.on):
            return replace(value, on=name_of("window.on", value.on))
        if type(value) in (list, tuple):
            return type(value)(with_names(argument, one) for one in value)
        return value

    for argument in COLUMN_ARGUMENTS:
        if argument in given:
            given[argument] = with_names(argument, given[argument])


def plain_name(argument: str, column: Any) -> str:
    """Return the name of a Polars column object, or of a Spark column when no frame is available.

    Raises TypeError unless the object is a plain column reference.
    """
    if is_spark_instance(column, "Column"):
        name = str(column).removeprefix("Column<'").removesuffix("'>")
        if name.replace("`", "").isidentifier():
            return name.replace("`", "")
    elif is_polars_expression(column) and column.meta.is_column():
        return str(column.meta.output_name())
    raise TypeError(
        f"`{argument}` must be a column name (a string); got the expression {column!s:.80}. Add it "
        "to the frame as a column, for example with with_columns or withColumn, and write its name"
    )


def name_in_memory(argument: str, column: Any) -> str:
    """Return the name of a plain Polars column object. Raises TypeError for any other object."""
    if is_spark_instance(column, "Column"):
        raise TypeError(
            f"`{argument}` must be a column name (a string) for a table in memory; got a Spark "
            f'column. Write "{plain_name(argument, column)}"'
        )
    return plain_name(argument, column)


def frame_of(given: Any, argument: str = "df") -> Frame:
    """Return the frame of a Spark DataFrame or a pandas, Polars or Arrow table.

    Raises TypeError for anything else, and ValueError for a table with duplicate column names.
    """
    if is_of_spark(given):
        from sfumato.spark.model.frame import SparkFrame

        return SparkFrame(given)
    return memory_frame.frame_of(given, argument)


def in_memory(frame: Frame) -> TypeGuard[ArrowFrame]:
    return isinstance(frame, ArrowFrame)


def engine_module(frame: Frame) -> Any:
    """Import the module that implements the functions of rows for the frame's engine."""
    return import_module(f"sfumato.{'memory' if in_memory(frame) else 'spark'}.rows")


def refuse_shown_early(frame: Frame, function: str) -> None:
    """Raise ValueError if a controller also emits each row on its arrival."""
    if frame.early_column is not None:
        raise ValueError(
            f"the {frame.noun} has each row twice, because `early` also emits rows on arrival: "
            "only sf.window_aggregate(..., early=...) can read the rows of sf.reorder(..., "
            f"early=True); leave `early` out of the sf.reorder upstream of sf.{function}"
        )


def run(job: Job) -> Any:
    """Return an operator's answers: a Spark DataFrame or an Arrow table."""
    if not job.config.reads_shown_early:
        for one in job.inputs:
            refuse_shown_early(one.frame, job.function)
    if job.shares_readings:
        warn_of_shared_readings(job.function)
    if job.draws_readings_apart:
        warn_of_separate_draws(job.function)
    job = job.with_origins()
    if in_memory(job.inputs[0].frame):
        answers = run_in_memory(job)
    else:
        from sfumato.spark.runtime.run import run_operator

        answers = run_operator(job)
    remember_answers(answers)
    return answers
