"""The arguments of `discover_dependencies`, and its warnings about columns with many gaps."""

from collections.abc import Mapping, Sequence
from typing import Any

from sfumato.operators.imputation.discovery import MAX_MISSES, NothingDiscovered, Search
from sfumato.operators.imputation.stream_imputer import MAX_CHOSEN
from sfumato.tables.reading.frame import NUMBER_KINDS, Frame, column_names
from sfumato.tables.reading.user_warnings import warn_user

AttributeRanges = dict[str, tuple[float, float]]  # (minimum, maximum - minimum) by attribute


def columns_to_search(
    frame: Frame,
    attributes: str | Sequence[str] | None,
    max_rows: int,
    excluded: Sequence[str] = (),
) -> list[str]:
    """Return the columns to search, by default all numeric columns except `excluded`."""
    if isinstance(max_rows, bool) or not isinstance(max_rows, int) or max_rows < 2:
        raise ValueError(f"`max_rows` must be an integer of at least 2; got {max_rows!r}")
    wanted = column_names("attributes", attributes)
    if not wanted:
        wanted = [name for name in frame.columns if frame.kind(name) in NUMBER_KINDS]
        wanted = [name for name in wanted if name not in excluded]
    if len(wanted) < 2:
        raise ValueError(f"`attributes` must be at least two numeric columns; got {wanted}")
    frame.require_numbers("attributes", wanted)
    return wanted


def require_defaults(given: Mapping[str, Any]) -> None:
    for name, value in given.items():
        if value != getattr(Search(), name, None):
            raise ValueError(
                f"`{name}` and `order` cannot be combined, because with `order` dependencies are "
                f"compared by the values that they impute; got {value!r}. Leave out one of the two"
            )


def check_attribute_count(attributes: Sequence[str]) -> None:
    if len(attributes) > MAX_CHOSEN:
        raise ValueError(
            f"`attributes` must name at most {MAX_CHOSEN} columns with `order`; got "
            f"{len(attributes)}. Search for dependencies in several calls"
        )


def valued_columns(wanted: Sequence[str], known: Mapping[str, int]) -> list[str]:
    """Return the columns with `known` finite numbers, given as counts; warn about others."""
    empty = [name for name in wanted if not known[name]]
    if empty:
        listed = ", ".join(f"`{name}`" for name in empty)
        _warn(f"columns without any finite number are left out: {listed}")
    return [name for name in wanted if known[name]]


def warn_of_gaps(
    wanted: Sequence[str], known: Mapping[str, int], rows: int, complete: int, fewest: int = 2
) -> None:
    """Warn if `complete`, the number of rows without gaps, is below `rows` / 2 or `fewest`."""
    if len(wanted) < 2:
        _warn("no dependency found, because fewer than two columns have values")
        return
    if 2 * complete >= rows and complete >= fewest:
        return
    emptiest = sorted(wanted, key=lambda name: known[name])[:MAX_MISSES]
    gaps = ", ".join(
        f"`{name}` ({1 - known[name] / rows:.0%} missing)"
        for name in emptiest
        if known[name] < rows
    )
    hint = f": {gaps}. To use more rows, pass `attributes` without these columns" if gaps else ""
    have = f"{complete:,} of {rows:,} rows have a finite number in every column{hint}"
    _warn(f"no dependency found: {have}" if complete < fewest else f"only {have}")


def _warn(text: str) -> None:
    warn_user(f"discover_dependencies: {text}", NothingDiscovered)
