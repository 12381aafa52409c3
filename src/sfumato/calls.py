"""Check the calls of public functions and classes; an error shows the correct call."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from sfumato.near_misses import did_you_mean

T = TypeVar("T")
NAMES_ELSEWHERE = {  # arguments of Spark, pandas and Polars, in lower case
    **dict.fromkeys(("windowduration", "size", "gapduration", "gap"), ("length", "window", "gap")),
    **dict.fromkeys(("slideduration", "step", "hop"), ("slide", "every")),
    **dict.fromkeys(("starttime", "origin", "start"), ("offset",)),
    **dict.fromkeys(("watermark", "delaythreshold", "lateness"), ("max_delay",)),
    **dict.fromkeys(("partitionby", "partition_by", "groupby", "group_by"), ("key",)),
    **dict.fromkeys(("timecolumn", "time_column", "timestamp"), ("event_time", "order")),
    **dict.fromkeys(("eventtime", "event_time", "orderby", "order_by"), ("order",)),
}


def checks_call(example: str) -> Callable[[T], T]:
    """Return a decorator that checks the arguments of calls to a function or class."""

    def decorate(called: T) -> T:
        of: Any = called
        signature, name = inspect.signature(of), f"sf.{of.__name__}"
        own = int(isinstance(of, type))  # `self` is not an argument of the call
        plain: Any = getattr(of, "__init__" if own else "__call__")

        @wraps(plain if own else of)
        def checked(*args: Any, **kwargs: Any) -> Any:
            check_call(signature, name, example, args[own:], kwargs)
            return plain(*args, **kwargs)

        if not own:
            return cast(T, checked)
        setattr(of, "__init__", checked)  # noqa: B010
        return called

    return decorate


def check_call(
    signature: inspect.Signature, name: str, example: str, args: Any, kwargs: dict[str, Any]
) -> None:
    """Raise TypeError if the arguments do not match the signature."""
    known = signature.parameters
    shown = f". For example {example}" if example else ""
    open_ended = any(one.kind is one.VAR_KEYWORD for one in known.values())
    for given in kwargs:
        if given not in known and not open_ended:
            alike = (of for of in NAMES_ELSEWHERE.get(given.lower(), ()) if of in known)
            likely = next(alike, None)
            hint = did_you_mean(given, known) if likely is None else f"; write `{likely}`"
            raise TypeError(
                f"{name} has no argument `{given}`{hint}; it has {', '.join(known)}{shown}"
            )
    places = [one.name for one in known.values() if one.kind is one.POSITIONAL_OR_KEYWORD]
    if len(args) > len(places):
        raise TypeError(
            f"{name} accepts {', '.join(places)} by position and the rest by name; got "
            f"{len(args)} by position{shown}"
        )
    given_names = {*places[: len(args)], *kwargs}
    missing = [
        f"`{one.name}`"
        for one in known.values()
        if one.default is one.empty
        and one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)
        and one.name not in given_names
    ]
    if missing:
        raise TypeError(f"{name} needs {', '.join(missing)}{shown}")


def is_column_object(given: Any) -> bool:
    """Return whether a value is a Spark Column or a Polars expression, without importing either."""
    return is_spark_instance(given, "Column") or is_polars_expression(given)


def is_polars_expression(given: Any) -> bool:
    return type(given).__name__ == "Expr" and type(given).__module__.startswith("polars.")


def is_spark_instance(given: Any, name: str) -> bool:
    """Return whether a value is an instance of a Spark class, without importing Spark."""
    classes = type(given).__mro__
    return any(of.__name__ == name and of.__module__.startswith("pyspark.sql.") for of in classes)
