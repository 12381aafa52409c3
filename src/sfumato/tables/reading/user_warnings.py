"""Warnings about a user's rows, attributed to the line of the user's call."""

import sys
import warnings
from collections.abc import Iterable

from sfumato.tables.reading.types import EXACT_DIGITS

PACKAGE = "sfumato."  # prefix of the package's module names
# Metadata of a probability column whose rows may share tuples; the value describes the rows. For
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
MATCHED = "pairs of an as-of join"
RANKED = "answers of a ranking"
WINDOWS = "answers of overlapping windows"
WINDOW_ROWS = "rows that have the answer of their window"
REVISIONS = "early answers of a window"
AVERAGES = "averages over time"
UNCERTAIN_TIMES = "answers of windows over uncertain times"
SHARED_ERRORS = "answers of windows over shared errors"
RESAMPLED = "points of a resampling"
MERGED = "answers merged over worlds"
UNMARKED = "answers whose metadata was dropped"
SAME_READINGS = "rows of a union whose parts contain the same readings"
EQUAL_EXTENTS = "answers with the same window and key, as in a union,"

# Metadata of alternatives: values of one gap were imputed from the same last value.
GAPS_KEY = "sfumato.gaps"
GAPS = "values imputed from the same last value are treated as independent"


class InvalidRowsWarning(UserWarning):
    """A warning that an operator skipped invalid rows."""


class DriftWarning(UserWarning):
    """A warning that imputed distributions contain fewer of the known values than they state."""


def describe_independence(rows: str) -> str:
    """Describe the assumption that rows that may share tuples are independent."""
    return f"rows are treated as independent by assume_independent, but {rows} may share tuples"


def shared_rows_error(function: str, rows: str) -> ValueError:
    """Return the error for rows that may share tuples. rows : their description"""
    exact = ""
    if rows == PAIRS:
        exact = "aggregate the partners of each row with sf.neighbours(..., aggregates=...); "
    if rows == UNMARKED:
        exact = (
            "keep the metadata, which records what rows share: use Arrow tables, or pass the "
            "answers directly to the next function; "
        )
    return ValueError(
        f"{function} needs independent rows, but {rows} may share tuples, so the probabilities "
        f"would be wrong: {exact}draw possible worlds of the readings before the first operator, "
        "sf.draw_worlds(df, 1000, source=..., id=...), which is correct for every chain; or accept "
        "the error with sf.assume_independent(df)"
    )


def warn_of_certain(operator: str, rows: str) -> None:
    """Warn that uncertain answers are treated as certain rows."""
    warn_user(
        f"{operator}: {rows} have neither `alternatives` nor `existence` here, so each is treated "
        "as a certain row. If this is intended, write sf.assume_independent(df)"
    )


def warn_of_repeated(operator: str, rows: str) -> None:
    """Warn about uncertain rows among which earlier rows are repeated."""
    warn_user(
        f"{operator}: {rows} may repeat an earlier row, but are treated as independent. If their "
        "uncertainty comes from that row, draw possible worlds before it is repeated, "
        "sf.draw_worlds(df, 1000, source=..., id=...); if it does not, write "
        "sf.assume_independent(df)"
    )


def warn_of_two_existences() -> None:
    """Warn that alternatives replace a column with the probability that a row exists."""
    warn_user(
        "the column `existence` is ignored, because the rows have `alternatives`, whose "
        "probabilities must include it: multiply `prob` by `existence`, and drop `existence`"
    )


def warn_of_gaps(operator: str, argument: str) -> None:
    """Warn that values of one gap are combined as if they were independent."""
    warn_user(
        f"{operator}: {argument} combines several values of one gap, and {GAPS}, so ranges are too "
        "narrow. Let values of one gap share their error: sf.impute(..., gap_values=20), then a "
        'time window with shared="gap_ATTR"; or accept this with sf.assume_independent(df)'
    )


def warn_of_shared_readings(operator: str) -> None:
    """Warn that the same reading in two frames is treated as two independent readings."""
    warn_user(
        f"{operator}: both frames contain the same uncertain readings, which are treated as "
        "independent, so probabilities are wrong. Use sf.self_join or sf.neighbours for the pairs "
        "of one stream; or draw possible worlds of the readings before the first operator, "
        "sf.draw_worlds(df, 1000, source=..., id=...); or accept the error with "
        "sf.assume_independent(df) for one frame"
    )


def warn_of_copies(operator: str) -> None:
    """Warn that a window may stay open longer than ids are remembered."""
    warn_user(
        f"{operator}: a duplicate that arrives after sf.reorder has forgotten its id is a late "
        "row, and is counted again while its window is open. Give sf.reorder a `remember` longer "
        "than the window and its delay"
    )


def warn_of_skipped(reasons: Iterable[str]) -> None:
    """Warn about a static frame's invalid rows, once per reason and worker process."""
    for reason in sorted(reasons):
        warnings.warn(
            f"rows of a static frame were skipped as invalid ({reason}): sf.split_invalid(df) "
            "finds them",
            InvalidRowsWarning,
            stacklevel=1,
        )


def warn_of_digits(argument: str, name: str, kind: str) -> None:
    """Warn that the values of a column or expression are rounded to doubles."""
    warn_user(
        f"{argument} has {kind} values in `{name}`, which are converted to doubles: "
        f"numbers with more than {EXACT_DIGITS} digits, integers above 2^53 and their sums are "
        "rounded. Subtract a common offset first"
    )


def warn_user(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn, attributed to the line of the user's call."""
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
