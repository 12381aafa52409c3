"""Calls of public functions: what a call lacks, or has too much, in a sentence."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from sfumato.near_misses import did_you_mean

T = TypeVar("T")


def checks_call(example: str) -> Callable[[type[T]], type[T]]:
    """A decorator of public classes: making one says in a sentence what a call lacks, or has too
    much.

    example : a call, for messages
    """

    def decorated(made: type[T]) -> type[T]:
        signature, name = inspect.signature(made), f"sf.{made.__name__}"
        plain: Any = made.__init__

        @wraps(plain)
        def checked(self: T, *args: Any, **kwargs: Any) -> None:
            check_call(signature, name, example, args, kwargs)
            plain(self, *args, **kwargs)

        setattr(made, "__init__", checked)  # noqa: B010
        return made

    return decorated


def check_call(
    signature: inspect.Signature, name: str, example: str, args: Any, kwargs: dict[str, Any]
) -> None:
    """Raise TypeError for a call that does not fit.

    name : of the function, as users write it    example : a call, or nothing
    """
    known = signature.parameters
    shown = f". For example {example}" if example else ""
    open_ended = any(one.kind is one.VAR_KEYWORD for one in known.values())
    for given in kwargs:
        if given not in known and not open_ended:
            raise TypeError(
                f"{name} has no argument `{given}`{did_you_mean(given, known)}; it has "
                f"{', '.join(known)}{shown}"
            )
    places = [one.name for one in known.values() if one.kind is one.POSITIONAL_OR_KEYWORD]
    if len(args) > len(places):
        raise TypeError(
            f"{name} takes {', '.join(places)} by position, and the rest by name; got "
            f"{len(args)} by position{shown}"
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
        raise TypeError(f"{name} lacks {', '.join(lacking)}{shown}")
