"""The warnings about a user's rows, each reported at the line of the user's call."""

import sys
import warnings

from sfumato.tables.reading.types import EXACT_DIGITS

PACKAGE = "sfumato."  # what names of its modules begin with
# Metadata of a column of probabilities: rows may share tuples; its value says in words what they
# are. Pairs of a join share the tuples they are made of, answers of overlapping windows the tuples
# that both hold. Operators take the rows of a frame as independent.
SHARED_KEY = "sfumato.shared"
PAIRS = "pairs of a join"
RANKED = "answers of a ranking"
WINDOWS = "answers of overlapping windows"


class IndependenceWarning(UserWarning):
    """An operator takes rows as independent that may share tuples."""


class InvalidRowsWarning(UserWarning):
    """An operator skipped rows, because they are invalid."""


def independence(rows: str) -> str:
    """Describe how an operator takes rows that may share tuples."""
    return f"rows are taken as independent, but {rows} may share tuples"


def warn_of_shared(operator: str, rows: str | None) -> None:
    """Warn that an operator takes rows as independent; None: they share no tuples."""
    if rows:
        warnings.warn(
            f"{operator}: {independence(rows)}: its probabilities are not those over possible "
            "worlds",
            IndependenceWarning,
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
    """Count the calls between the user's and the function that asks."""
    frame, count = sys._getframe(1), 0
    while frame.f_back is not None:
        module = frame.f_globals.get("__name__", "")
        if not (module.startswith(PACKAGE) or module == "functools"):
            break
        frame, count = frame.f_back, count + 1
    return count
