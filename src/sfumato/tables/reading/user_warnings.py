"""Warnings about a user's rows, attributed to the line of the user's call."""

import sys
import warnings
from collections.abc import Iterable

from sfumato.tables.reading.types import EXACT_DIGITS

PACKAGE = "sfumato."  # prefix of the package's module names
# Metadata of a probability column whose rows may share readings; the value describes the rows. For
# example, pairs of a join and answers of overlapping windows share input tuples. Operators reject
# such rows, because they need independent rows.
SHARED_KEY = "sfumato.shared"
SAME_REVISION = (
    "two rows have the same key, window and revision: write the same `key` as in "
    "sf.window_aggregate, and give each answer once"
)
# Metadata of a column whose values may be in several rows; the value describes the rows. It matters
# only if the values make rows uncertain, for example if they are probabilities that the operator
# did not read.
REPEATED_KEY = "sfumato.repeated"
ASSUMED_KEY = "sfumato.assumed"  # metadata: the user assumes that such rows are independent
PAIRS = "pairs of a join"
WINDOWS = "answers of overlapping windows"
WINDOW_ROWS = "rows that have the answer of their window"
AVERAGES = "averages over time"
UNCERTAIN_TIMES = "answers of windows over uncertain times"
UNMARKED = "answers whose metadata was dropped"
EQUAL_EXTENTS = "answers with the same window and key, as in a union,"

# Warnings about rows, following their description
CERTAIN_WARNING = (
    "have neither `alternatives` nor `existence` here, so each is treated as a certain row. If "
    "this is intended, write sf.assume_independent(df)"
)
REPEATED_WARNING = (
    "may repeat an earlier row, but are treated as independent. If their uncertainty comes from "
    "that row, draw possible worlds before it is repeated, sf.draw_worlds(df, 1000, source=..., "
    "id=...); if it does not, write sf.assume_independent(df)"
)
# Metadata of alternatives: values of one gap were imputed from the same last value.
GAPS_KEY = "sfumato.gaps"
GAPS = "values imputed from the same last value are treated as independent"


class InvalidRowsWarning(UserWarning):
    """A warning that an operator left out invalid rows."""


class DriftWarning(UserWarning):
    """A warning that imputed distributions contain fewer of the known values than they state."""


def shared_rows_error(function: str, rows: str) -> ValueError:
    """Return the error for rows that may share readings. rows : their description"""
    exact = ""
    if rows == PAIRS:
        exact = "aggregate the partners of each row with sf.neighbours(..., aggregates=...); "
    if rows == UNMARKED:
        exact = (
            "keep the metadata, which records what rows share: use Arrow tables, or pass the "
            "answers directly to the next function; "
        )
    return ValueError(
        f"{function} needs independent rows, but {rows} may share readings, so the probabilities "
        f"would be wrong: {exact}draw possible worlds of the readings before the first operator, "
        "sf.draw_worlds(df, 1000, source=..., id=...), which is correct for every chain; or accept "
        "the error with sf.assume_independent(df)"
    )


def warn_of_shared_readings(operator: str) -> None:
    warn_user(
        f"{operator}: both frames contain the same uncertain readings, which are treated as "
        "independent, so probabilities are wrong. Use sf.self_join or sf.neighbours for the pairs "
        "of one stream; or draw possible worlds of the readings before the first operator, "
        "sf.draw_worlds(df, 1000, source=..., id=...); or accept the error with "
        "sf.assume_independent(df) for one frame"
    )


def warn_of_separate_draws(operator: str) -> None:
    warn_user(
        f"{operator}: both frames contain the same uncertain readings, but drawn separately, by "
        "sf.draw_worlds with different `source` or `id`, or from different answers, so "
        "probabilities are wrong. Draw the readings once, before the first operator, and compute "
        "both frames from the drawn rows"
    )


def warn_of_left_out(found: Iterable[tuple[str, str]]) -> None:
    """Warn about a static frame's invalid rows, once per operator, reason and worker process."""
    for operator, reason in sorted(found):
        warnings.warn(
            f"{operator}: rows of a static frame were left out as invalid ({reason}): "
            "sf.split_invalid(df) finds them",
            InvalidRowsWarning,
            stacklevel=1,
        )


def warn_of_digits(argument: str, name: str, kind: str) -> None:
    warn_user(
        f"{argument} has {kind} values in `{name}`, which are converted to doubles: "
        f"numbers with more than {EXACT_DIGITS} digits, integers above 2^53 and their sums are "
        "rounded. Subtract a common offset first"
    )


def warn_user(text: str, category: type[Warning] = UserWarning) -> None:
    warnings.warn(text, category, stacklevel=calls_from_user() + 1)


def calls_from_user() -> int:
    """Return the number of stack frames between the caller and the user's code."""
    frame, count = sys._getframe(1), 0
    while frame.f_back is not None:
        module = frame.f_globals.get("__name__", "")
        if not (module.startswith(PACKAGE) or module == "functools"):
            break
        frame, count = frame.f_back, count + 1
    return count
