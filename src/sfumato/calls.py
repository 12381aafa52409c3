"""Calls of public functions: what a call lacks, or has too much, in a sentence."""

from __future__ import annotations

import inspect
from typing import Any

from sfumato.near_misses import did_you_mean


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
