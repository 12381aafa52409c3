"""Rows that may share tuples: what says so, and the warning where they are taken as independent.

Pairs of a join share the tuples they are made of, answers of overlapping windows the tuples that
both hold. Operators take the rows of a frame as independent.
"""

import sys
import warnings

SHARED = "sfumato.shared"  # metadata of a column of probabilities: what the rows are, in words
PAIRS = "pairs of a join"
RANKED = "answers of a ranking"
WINDOWS = "answers of overlapping windows"
PACKAGE = "sfumato."  # what names of its modules begin with


class IndependenceWarning(UserWarning):
    """An operator takes rows as independent that may share tuples."""


def independence(rows: str) -> str:
    """Describe how an operator takes rows that may share tuples."""
    return f"rows are taken as independent, but {rows} may share tuples"


def warn_of_shared(operator: str, rows: str | None) -> None:
    """Warn that an operator takes rows as independent; no warning where nothing says otherwise.

    rows : what they are, in words
    """
    if rows:
        warnings.warn(
            f"{operator}: {independence(rows)}: its probabilities are not those over possible "
            "worlds",
            IndependenceWarning,
            stacklevel=calls_from_user() + 1,
        )


def calls_from_user() -> int:
    """Count the calls between the user's and the one that asks."""
    frame, count = sys._getframe(1), 0
    while frame.f_back is not None and _is_between(frame.f_globals.get("__name__", "")):
        frame, count = frame.f_back, count + 1
    return count


def _is_between(module: str) -> bool:
    """Whether calls in a module are on the way from the user to this package's code."""
    return module.startswith(PACKAGE) or module == "functools"
