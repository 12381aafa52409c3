"""The columns that an argument names, whatever holds them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from sfumato.near_misses import did_you_mean


def names(argument: str, given: str | Sequence[str] | None) -> list[str]:
    """The column names an argument gives: none, one, or a list of distinct ones."""
    if given is None:
        return []
    listed = [given] if isinstance(given, str) or not isinstance(given, Sequence) else list(given)
    if not all(isinstance(name, str) for name in listed):
        raise TypeError(
            f"`{argument}` must be a column name, as text, or a list of them; got {given!r:.80}"
            f"{_as_text(listed)}"
        )
    if len(set(listed)) != len(listed):
        raise ValueError(f"`{argument}` names a column twice: {listed}")
    return listed


def _as_text(given: Sequence[Any]) -> str:
    """What to write in place of a column of Spark's."""
    wrong = next((one for one in given if type(one).__name__ == "Column"), None)
    plain = re.fullmatch(r"Column<'`?([^`()<>=,]+?)`?'>", str(wrong))
    if plain is not None:
        return f': write "{plain.group(1)}"'
    return "" if wrong is None else ": give it a name first, as with withColumn"


def meant(
    known: Sequence[str],
    argument: str,
    given: str | Sequence[str] | None,
    tells_case_apart: Callable[[], bool] = lambda: False,
    attributes: Callable[[], Sequence[str]] = tuple,
) -> list[str]:
    """The names, among those known, of the columns that an argument means; case does not count.

    tells_case_apart : whether it does    attributes : of the alternatives, which are no columns
    Raises ValueError, with the likely name, for a column that lacks or is there twice.
    """
    wanted = names(argument, given)
    lower = {column.lower() for column in known}
    for name in wanted:
        if name.lower() not in lower and name in attributes():
            raise ValueError(_of_alternatives(argument, name))
    found = [_meant(known, argument, name, tells_case_apart) for name in wanted]
    if len(set(found)) != len(found):
        raise ValueError(f"`{argument}` names a column twice: {wanted}")
    return found


def _of_alternatives(argument: str, name: str) -> str:
    """What is said of an attribute where a column must be."""
    said = (
        f"`{argument}` names `{name}`, an attribute of the alternatives; it must be a column, the "
        "same in every alternative of a row: "
    )
    if argument.startswith("order"):
        return said + (
            "which rows are the newest would be another matter in each possible world. An "
            "uncertain event time is for window_aggregate over sf.Range; else order by a column "
            "made of it, as its earliest or its expected value"
        )
    return said + f"make one of it, as with expected({name!r})"


def _meant(
    known: Sequence[str], argument: str, name: str, tells_case_apart: Callable[[], bool]
) -> str:
    alike = [column for column in known if column.lower() == name.lower()]
    if alike != [name] and tells_case_apart():
        alike = [column for column in alike if column == name]
    if len(alike) == 1:
        return alike[0]
    if alike:
        raise ValueError(
            f"`{argument}` names a column `{name}`, of which the frame has {len(alike)} "
            f"({', '.join(alike)}): rename or drop the others"
        )
    raise ValueError(
        f"`{argument}` names a column `{name}` that the frame lacks; "
        f"it has {', '.join(known)}{did_you_mean(name, known)}"
    )
