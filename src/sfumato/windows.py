"""Window configurations, which are immutable and validated on construction."""

import math
import re
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from sfumato.calls import checks_call, is_column_object
from sfumato.duration import microseconds
from sfumato.limits import MAX_EMPTY_EXTENTS, MAX_TIME_US, check_extents
from sfumato.near_misses import did_you_mean

CALENDAR_UNITS = {
    "day": ("day", 1),
    "week": ("day", 7),
    "month": ("month", 1),
    "year": ("month", 12),
}
CALENDAR_DURATION = re.compile(r"\s*(\d{1,9})\s*(day|week|month|year)s?\s*", re.IGNORECASE)
SHORTEST_UNITS_US = {"day": 86_400_000_000, "month": 28 * 86_400_000_000}  # in local time
MAX_CALENDAR_UNITS = {"day": 9_999 * 366, "month": 9_999 * 12}

Duration = str | timedelta


@checks_call("sf.Rows(500)")
@dataclass(frozen=True)
class Rows:
    """Count window: the fewest newest tuples that contain `rows` existing ones with a confidence.

    Parameters
    ----------
    rows
        Number of existing tuples in the window, ≥ 1.
    confidence
        Minimum probability that the window contains `rows` existing tuples, in (0, 1].
    max_tuples
        Maximum number of held tuples; None for no bound. Tuples evicted by this bound are counted
        as overflow; while they are missing, the confidence is not reached.
    within
        Joins only: a time bound, "10 minutes" or a timedelta. A tuple is evicted when any stream
        delivers a tuple of the same key that is at least `within` later. None: no time bound.
    slide
        Aggregates only: emit a result at every `slide`-th row of each key, whether or not the row
        exists. The rows in between are in the window, but emit no result. None: one result per row.
    lockstep
        `similarity_join` only: add all rows of an event time to both windows, then compare them.
        With one row per time and side, Rows(1) then pairs only rows with equal times.

    Raises
    ------
    ValueError, TypeError
        For values out of range, and for values of the wrong type.

    Notes
    -----
    Memory: the tuples of the window. Cost: O(√rows) per row to find its oldest tuple.

    References
    ----------
    Dallachiesa et al. (2015), sections 4 and 8.1. https://doi.org/10.1007/s10115-014-0804-5

    Examples
    --------
    >>> sf.Rows(500, confidence=0.95, within="10 minutes").rows
    500
    """

    rows: int
    confidence: float = 0.95
    max_tuples: int | None = None
    within: Duration | None = field(default=None, metadata={"fingerprint": "added"})
    slide: int | None = field(default=None, metadata={"fingerprint": "added"})
    lockstep: bool = field(default=False, metadata={"fingerprint": "added"})

    def __post_init__(self) -> None:
        if not _is_count(self.rows):
            raise ValueError(f"`rows` must be an integer of at least 1; got {self.rows!r}")
        if not (hasattr(self.confidence, "__float__") and 0 < self.confidence <= 1):
            raise ValueError(
                f"`confidence` must lie in (0, 1], for example 0.95; got {self.confidence!r}"
            )
        _check_max_tuples(self.max_tuples)
        if self.max_tuples is not None and self.max_tuples < self.rows:
            raise ValueError(
                f"`max_tuples` must be None or at least `rows` = {self.rows}; got {self.max_tuples}"
            )
        _optional_us("within", self.within)
        if self.slide is not None and not _is_count(self.slide):
            raise ValueError(
                f"`slide` must be None or an integer of at least 1; got {self.slide!r}. Write "
                f"slide={self.rows} for one result per {self.rows} rows of a key"
            )
        if not isinstance(self.lockstep, bool):
            raise TypeError(f"`lockstep` must be True or False; got {self.lockstep!r}")


@checks_call('sf.Range("5 minutes")')
@dataclass(frozen=True)
class Range:
    """Event-time window: extents of `length`, one every `slide`, aligned to 1970-01-01 UTC.

    Extent i contains the tuples with (i + 1) * slide - length <= event time < (i + 1) * slide, plus
    `offset` on both sides.
    Months and years are calendar units; with a `zone`, so are days and weeks.

    Parameters
    ----------
    length
        "5 minutes" or a timedelta, > 0 ("5 us" if event times are whole microseconds); or
        "1 month", "2 years". With a `zone`: days, weeks (from Monday), months or years.
    slide
        As `length`, with the same kind of calendar units, if any; None: equal to `length` (tumbling
        extents). If shorter than `length`, extents overlap, and a row may be in at most 10,000 of
        them. If longer, tuples between two extents are in no extent.
    idle_timeout
        Processing time without arrivals after which open extents are emitted (None: never). Tuples
        of these extents that arrive later are late. Set a trigger: see page how-to/end-of-stream.
    empty
        Whether to emit a group's empty extents between two extents with tuples. A gap of more than
        1,000,000 extents is not emitted, but counted as `skipped`. With a number n, the first n
        empty extents after each extent with tuples (including the last one) are emitted as soon
        as a punctuation completes them. The last n empty extents before a group's first extent with
        tuples are emitted with it. Further empty extents of a gap are counted as `skipped`.
    zone
        Time zone of the calendar, "America/New_York"; its days have 23, 24 or 25 hours. Without a
        zone, a day has 24 hours, and months are in UTC.
    offset
        Aggregates only: time by which all extents are later, shorter than `slide` (a month counts
        as 28 days). With offset="6 hours", days begin at 06:00, in the `zone` if there is one.

    Raises
    ------
    ValueError, TypeError
        For durations out of range, unknown zones, and values of the wrong type.

    Notes
    -----
    Only `window_aggregate` with certain event times accepts calendar units; event times that are
    integers are then microseconds since 1970-01-01 UTC.
    If event times are timestamps, extents are between 0001-01-02 and 9999-12-31 in UTC. A row with
    an extent outside this range, for example with the sentinel 9999-12-31, is invalid and counted.
    More: page reference/semantics/windows of the documentation.
    Cost: constant per row and per extent, except for distributions. Memory: the tuples of one
    `length` and one `slide`; for certain rows, only totals.

    References
    ----------
    Kim et al. (2006), section 6, equation (6.1). https://doi.org/10.1109/CIT.2006.33

    Examples
    --------
    >>> sf.Range("5 minutes", slide="30 seconds").slide_us
    30000000
    >>> sf.Range("1 week", zone="Europe/Berlin").calendar_unit
    'day'
    """

    length: Duration
    slide: Duration | None = None
    idle_timeout: Duration | None = None
    empty: bool | int = False
    zone: str | None = field(default=None, metadata={"fingerprint": "added"})
    offset: Duration | None = field(default=None, metadata={"fingerprint": "added"})

    def __post_init__(self) -> None:
        _optional_us("idle_timeout", self.idle_timeout)
        if not isinstance(self.empty, int):
            raise TypeError(
                f"`empty` must be True, False or a number of extents; got {self.empty!r}"
            )
        if not isinstance(self.empty, bool) and not 1 <= self.empty <= MAX_EMPTY_EXTENTS:
            raise ValueError(
                f"`empty` must be a number of extents from 1 to {MAX_EMPTY_EXTENTS:,}; got "
                f"{self.empty!r}"
            )
        if self.zone is not None:
            _check_zone(self.zone)
        check_extents(*self.grid)
        unit = self.calendar_unit
        if self.offset_us >= self.grid[1] * (1 if unit is None else SHORTEST_UNITS_US[unit]):
            raise ValueError(
                "`offset` must be shorter than `slide`, which is by default `length`; got "
                f"offset={self.offset!r} and slide={self.slide or self.length!r}"
            )

    @property
    def calendar_unit(self) -> str | None:
        """Return "day" or "month" for extents of calendar units, or None."""
        named = re.search(r"\b(month|year)s?\b", f"{self.length} {self.slide}", re.IGNORECASE)
        if self.zone is None and named is None:
            return None
        return _calendar_units("length", self.length)[0]

    @property
    def grid(self) -> tuple[int, int]:
        """Return `length` and `slide` in calendar units, or in microseconds."""
        if self.calendar_unit is None:
            return self.length_us, self.slide_us
        unit, length = _calendar_units("length", self.length)
        other, slide = (
            (unit, length) if self.slide is None else _calendar_units("slide", self.slide)
        )
        if other != unit:
            allowed = "days or weeks" if unit == "day" else "months or years"
            raise ValueError(
                f"`slide` must be in {allowed}, because `length` is {self.length!r}; got "
                f"{self.slide!r}"
            )
        return length, slide

    @property
    def in_weeks(self) -> bool:
        """Return whether extents of calendar units are aligned to Mondays."""
        return re.search(r"\bweeks?\b", f"{self.length} {self.slide}", re.IGNORECASE) is not None

    @property
    def overlaps(self) -> bool:
        """Return whether a tuple may be in several extents."""
        return self.grid[1] < self.grid[0]

    @property
    def has_gaps(self) -> bool:
        """Return whether a tuple may be between two extents."""
        return self.grid[1] > self.grid[0]

    @property
    def length_us(self) -> int:
        """Return `length` in microseconds. Raises ValueError for calendar units."""
        if self.calendar_unit is not None:
            raise ValueError(
                "`window` must have a fixed length here, because calendar units are allowed only "
                f'in window_aggregate with certain event times; got {self!r}. Write "24 hours" '
                "for a day, and leave out `zone`"
            )
        return duration_us("length", self.length)

    @property
    def slide_us(self) -> int:
        """Return `slide` in microseconds; by default `length_us`."""
        return self.length_us if self.slide is None else duration_us("slide", self.slide)

    @property
    def idle_timeout_us(self) -> int | None:
        """Return `idle_timeout` in microseconds, or None."""
        return _optional_us("idle_timeout", self.idle_timeout)

    @property
    def offset_us(self) -> int:
        """Return `offset` in microseconds, by default 0."""
        return _optional_us("offset", self.offset) or 0


@checks_call('sf.Session("30 minutes")')
@dataclass(frozen=True)
class Session:
    """Event-time window of activity: the rows of a key with less than `gap` between neighbours.

    A session starts at its first row and ends `gap` after its last row.

    Parameters
    ----------
    gap
        "30 minutes" or a timedelta, > 0.
    max_length
        Maximum length of a session, as `gap`; None for no bound. A later row starts a new session.
        The maximum bounds the state of keys that are never silent.
    idle_timeout
        As for `Range`.

    Raises
    ------
    ValueError, TypeError
        For durations out of range, and for values of the wrong type.

    Notes
    -----
    A late row that is less than `gap` before the punctuation can still extend or merge open
    sessions. Tuples that may not exist also extend sessions, because only event times determine
    sessions.
    Cost: constant per row. Memory: the tuples of open sessions.

    Examples
    --------
    >>> sf.Session("30 minutes", max_length="1 day").gap_us
    1800000000
    """

    gap: Duration
    max_length: Duration | None = None
    idle_timeout: Duration | None = None

    def __post_init__(self) -> None:
        duration_us("gap", self.gap)
        _optional_us("max_length", self.max_length)
        _optional_us("idle_timeout", self.idle_timeout)

    @property
    def gap_us(self) -> int:
        """Return `gap` in microseconds."""
        return duration_us("gap", self.gap)

    @property
    def max_length_us(self) -> int | None:
        """Return `max_length` in microseconds, or None."""
        return _optional_us("max_length", self.max_length)

    @property
    def idle_timeout_us(self) -> int | None:
        """Return `idle_timeout` in microseconds, or None."""
        return _optional_us("idle_timeout", self.idle_timeout)


@dataclass(frozen=True)
class JoinWindow:
    """Window of one stream in a join, built from a user's window. It is saved in checkpoints.

    rows, confidence, max_tuples : as for `Rows`; rows=None: any number
    span : `within` of `Rows` or `length` of `Range`; None: no time bound
    delta, threshold : as for `Delta`, for the join's coordinate `on`; delta=None: no such bound
    lockstep : as for `Rows`
    """

    rows: int | None = None
    confidence: float = 0.95
    max_tuples: int | None = None
    span: Duration | None = None
    delta: float | None = field(default=None, metadata={"fingerprint": "added"})
    on: int = field(default=0, metadata={"fingerprint": "added"})
    threshold: float = field(default=0.5, metadata={"fingerprint": "added"})
    lockstep: bool = field(default=False, metadata={"fingerprint": "added"})

    def __post_init__(self) -> None:
        Rows(1 if self.rows is None else self.rows, self.confidence)
        _check_max_tuples(self.max_tuples)
        if self.span is not None:
            span = timedelta(microseconds=duration_us("span", self.span))
            object.__setattr__(self, "span", span)

    @property
    def span_us(self) -> int | None:
        """Return `span` in microseconds, or None."""
        return _optional_us("span", self.span)


@checks_call('sf.Delta(50, on="speed")')
@dataclass(frozen=True)
class Delta:
    """Attribute-delta window: the newest tuples with values close to the oldest tuple's value.

    Parameters
    ----------
    delta
        Maximum distance between the oldest tuple's value and any other value, >= 0.
    on
        Name of the attribute or column, or a Column (see `reorder`).
    threshold
        The oldest tuple is evicted while a distance from it exceeds `delta` with at least this
        probability, in (0, 1].
    max_tuples
        Maximum number of held tuples; None for no bound. Tuples evicted by this bound are counted
        as overflow.

    Raises
    ------
    ValueError, TypeError
        For values out of range, and for values of the wrong type.

    Notes
    -----
    Memory: the tuples of the window, at most `max_tuples`. Cost: see `window_aggregate`.

    References
    ----------
    Dallachiesa et al. (2015), section 8.1. https://doi.org/10.1007/s10115-014-0804-5

    Examples
    --------
    >>> sf.Delta(5.0, on="celsius").on
    'celsius'
    """

    delta: float
    on: str
    threshold: float = 0.5
    max_tuples: int | None = None

    def __post_init__(self) -> None:
        if _is_not_a_number(self.delta) or not (math.isfinite(self.delta) and self.delta >= 0):
            raise ValueError(f"`delta` must be a finite distance of at least 0; got {self.delta!r}")
        if not (isinstance(self.on, str) and self.on) and not is_column_object(self.on):
            raise TypeError(f"`on` must be the name of an attribute; got {self.on!r}")
        if _is_not_a_number(self.threshold) or not 0 < self.threshold <= 1:
            raise ValueError(
                f"`threshold` must lie in (0, 1], for example 0.5; got {self.threshold!r}"
            )
        _check_max_tuples(self.max_tuples)


def window_of(given: Any) -> Any:
    """Return a window unchanged, or convert a duration (string or timedelta) to a Range."""
    if not isinstance(given, str | timedelta):
        return given
    try:
        return Range(given)
    except ValueError as error:
        raise ValueError(str(error).replace("`length`", "`window`")) from None


def _check_max_tuples(most: Any) -> None:
    if most is not None and not _is_count(most):
        raise ValueError(f"`max_tuples` must be None or an integer of at least 1; got {most!r}")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_not_a_number(value: Any) -> bool:
    return isinstance(value, bool) or not isinstance(value, (int, float))


def _check_zone(zone: Any) -> None:
    if not isinstance(zone, str):
        raise TypeError(f"`zone` must be the name of a time zone (a string); got {zone!r}")
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(
            '`zone` must be the name of a time zone, like "America/New_York"; got '
            f"{zone!r}{did_you_mean(zone, available_timezones())}"
        ) from None


def _calendar_units(argument: str, duration: Any) -> tuple[str, int]:
    """Return a duration's calendar unit, "day" or "month", and the number of units."""
    found = CALENDAR_DURATION.fullmatch(duration) if isinstance(duration, str) else None
    if found is None or int(found[1]) == 0:
        raise ValueError(
            f"`{argument}` of a window with calendar units must be a positive number of days, "
            f'weeks, months or years, like "1 day"; got {duration!r}'
        )
    unit, each = CALENDAR_UNITS[found[2].lower()]
    if int(found[1]) * each > MAX_CALENDAR_UNITS[unit]:
        raise ValueError(f"`{argument}` must be at most 9,999 years; got {duration!r}")
    return unit, int(found[1]) * each


def _optional_us(argument: str, duration: Any) -> int | None:
    return None if duration is None else duration_us(argument, duration)


def duration_us(argument: str, duration: Any) -> int:
    """Convert a duration, a string or a timedelta, to microseconds.

    Raises TypeError for a bare number, whose unit is unclear, and for other types. Raises
    ValueError for a duration out of range.
    """
    if isinstance(duration, int | float) and not isinstance(duration, bool):
        raise TypeError(
            f'`{argument}` must have a unit: {argument}="{duration} seconds" or a timedelta '
            f'("{duration} us" for microseconds); got the bare number {duration!r}'
        )
    total = microseconds(argument, duration)
    if total > MAX_TIME_US:
        raise ValueError(f"`{argument}` must be at most 2**60 microseconds; got {duration!r}")
    return total
