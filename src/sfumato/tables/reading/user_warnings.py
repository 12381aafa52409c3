"""Warnings about a user's rows, reported at the line of the user's call."""

import sys
import warnings

from sfumato.tables.reading.types import EXACT_DIGITS

PACKAGE = "sfumato."  # prefix of the module names of the package
# Metadata of a column of probabilities: rows may share tuples; the value describes the rows.
# Pairs of a join share the tuples they consist of; answers of overlapping windows share the tuples
# in both windows. Operators assume that the rows of a frame are independent.
SHARED_KEY = "sfumato.shared"
PAIRS = "pairs of a join"
RANKED = "answers of a ranking"
WINDOWS = "answers of overlapping windows"
RESAMPLED = "points of a resampling"


class IndependenceWarning(UserWarning):
    """An operator assumes that rows are independent, but they may share tuples."""


class InvalidRowsWarning(UserWarning):
    """An operator skipped invalid rows."""


def independence(rows: str) -> str:
    """Describe the independence assumption for rows that may share tuples."""
    return f"rows are taken as independent, but {rows} may share tuples"


def warn_of_shared(operator: str, rows: str | None) -> None:
    """Warn that an operator assumes independence; rows : None if they share no tuples."""
    if rows:
        warnings.warn(
            f"{operator}: {independence(rows)}: its probabilities are not those over possible "
            "worlds",
            IndependenceWarning,
            stacklevel=calls_from_user() + 1,
        )


def warn_of_copies(operator: str, window: object) -> None:
    """Warn that a window may be open for longer than ids are remembered."""
    warnings.warn(
        f"{operator}: a copy of a row that comes after sf.reorder has forgotten its id is a late "
        f"row, and counts again while {window!r} is open: give sf.reorder a `key` and a "
        "`forget_after` longer than the window and its delay",
        UserWarning,
        stacklevel=calls_from_user() + 1,
    )


def warn_of_digits(argument: str, name: str, kind: str) -> None:
    """Warn that values of a column or expression are rounded to doubles."""
    warnings.warn(
        f"{argument}: `{name}` is {kind}, and numbers are computed as doubles, which keep "
        f"{EXACT_DIGITS} digits and whole numbers up to 2^53: larger ones are rounded, and so are "
        "sums of them. Subtract what they have in common before",
        UserWarning,
        stacklevel=calls_from_user() + 1,
    )


def calls_from_user() -> int:
    """Return the number of stack frames between the caller and the user's code."""
    frame, count = sys._getframe(1), 0
    while frame.f_back is not None:
        module = frame.f_globals.get("__name__", "")
        if not (module.startswith(PACKAGE) or module == "functools"):
            break
        frame, count = frame.f_back, count + 1
    return count
