"""Window configurations: immutable, validated on construction."""

import math
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from sfumato.calls import checks_call, is_column_object
from sfumato.duration import microseconds
from sfumato.limits import check_extents

LONGEST = 2**60  # microseconds, about 36,000 years; the sum of two fits in int64

Duration = str | timedelta


@checks_call("sf.Rows(500)")
@dataclass(frozen=True)
class Rows:
    """Count window over uncertain tuples: the fewest newest tuples with `rows` existing ones.

    Parameters
    ----------
    rows
        Number of existing tuples in the window, ≥ 1.
    confidence
        Probability that the window contains them, in (0, 1].
    max_tuples
        Maximum number of tuples kept (None: no bound). Tuples evicted by this bound are counted as
        overflow; the confidence is not reached while they are missing.
    within
        Joins only: a time bound, "10 minutes" or a timedelta. A tuple is evicted when a tuple of
        its key that is at least this much later arrives from any stream. None: no time bound.

    Raises
    ------
    ValueError, TypeError
        For values out of range, and for other types.

    Notes
    -----
    References: Dallachiesa et al. (2015), sections 4 (W(U, w, α)) and 8.1: see the page of papers.

    Examples
    --------
    >>> sf.Rows(500, confidence=0.95, within="10 minutes").rows
    500
    """

    rows: int
    confidence: float = 0.95
    max_tuples: int | None = None
    within: Duration | None = field(default=None, metadata={"fingerprint": "added"})

    def __post_init__(self) -> None:
        if isinstance(self.rows, bool) or not isinstance(self.rows, int) or self.rows < 1:
            raise ValueError(f"`rows` must be a whole number of at least 1; got {self.rows!r}")
        if not (math.isfinite(self.confidence) and 0 < self.confidence <= 1):
            raise ValueError(
                f"`confidence` must lie in (0, 1], for example 0.95; got {self.confidence!r}"
            )
        if self.max_tuples is not None and self.max_tuples < self.rows:
            raise ValueError(
                f"`max_tuples` must be None or at least `rows` = {self.rows}; got {self.max_tuples}"
            )
        if self.within is not None:
            span_of("within", self.within)


@checks_call('sf.Range("5 minutes")')
@dataclass(frozen=True)
class Range:
    """Event-time window: extents of `length`, one every `slide`, aligned to 1970-01-01 UTC.

    Extent i holds the tuples with (i + 1) * slide - length <= event time < (i + 1) * slide.

    Parameters
    ----------
    length
        "5 minutes" or a timedelta, > 0 ("5 us" where event times are whole microseconds).
    slide
        As `length`; None: equal to `length` (tumbling extents). If shorter than `length`, extents
        overlap, and a row may be in at most 10,000 of them. If longer, tuples between two extents
        are in no extent.
    idle_timeout
        Processing time without arrivals after which open extents are emitted (None: never). Tuples
        of these extents that arrive later are late.
    empty
        Whether to emit a group's empty extents between two extents with tuples. A gap of more than
        1,000,000 extents is not emitted, but counted as `skipped`.

    Raises
    ------
    ValueError, TypeError
        For durations out of range, and for other types.

    Notes
    -----
    If event times are timestamps, extents are between 0001-01-02 and 9999-12-31 in UTC. A row with
    an extent outside this range, for example with the sentinel 9999-12-31, is invalid and counted.
    References: Kim et al. (2006), section 6, equation (6.1): see the page of papers.

    Examples
    --------
    >>> sf.Range("5 minutes", slide="30 seconds").slide_us
    30000000
    """

    length: Duration
    slide: Duration | None = None
    idle_timeout: Duration | None = None
    empty: bool = False

    def __post_init__(self) -> None:
        for name in ("length", "slide", "idle_timeout"):
            value = getattr(self, name)
            if value is not None or name == "length":
                span_of(name, value)
        if not isinstance(self.empty, bool):
            raise TypeError(f"`empty` must be True or False; got {self.empty!r}")
        check_extents(self.length_us, self.slide_us)

    @property
    def length_us(self) -> int:
        """Return `length` in microseconds."""
        return span_of("length", self.length)

    @property
    def slide_us(self) -> int:
        """Return `slide` in microseconds."""
        return self.length_us if self.slide is None else span_of("slide", self.slide)

    @property
    def idle_timeout_us(self) -> int | None:
        """Return `idle_timeout` in microseconds, or None."""
        return None if self.idle_timeout is None else span_of("idle_timeout", self.idle_timeout)


@dataclass(frozen=True)
class JoinWindow:
    """Window of one stream in a join, built from a user's `Rows` or `Range`. Not public; saved.

    rows, confidence, max_tuples : as for `Rows`; rows=None: any number
    span : `within` of `Rows` or `length` of `Range`; None: no time bound
    """

    rows: int | None = None
    confidence: float = 0.95
    max_tuples: int | None = None
    span: Duration | None = None

    def __post_init__(self) -> None:
        Rows(1 if self.rows is None else self.rows, self.confidence)
        _check_bound(self.max_tuples)
        if self.span is not None:
            span = timedelta(microseconds=span_of("span", self.span))
            object.__setattr__(self, "span", span)

    @property
    def span_us(self) -> int | None:
        """Return `span` in microseconds, or None."""
        return None if self.span is None else span_of("span", self.span)


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
        The oldest tuple is evicted while it exceeds `delta` with at least this probability, in (0,
        1].
    max_tuples
        Maximum number of tuples kept (None: no bound); tuples evicted by this bound are counted as
        overflow.

    Raises
    ------
    ValueError, TypeError
        For values out of range, and for other types.

    Notes
    -----
    References: Dallachiesa et al. (2015), section 8.1: see the page of papers.

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
        if _not_a_number(self.delta) or not (math.isfinite(self.delta) and self.delta >= 0):
            raise ValueError(f"`delta` must be a finite distance of at least 0; got {self.delta!r}")
        if not (isinstance(self.on, str) and self.on) and not is_column_object(self.on):
            raise TypeError(f"`on` must be the name of an attribute; got {self.on!r}")
        if _not_a_number(self.threshold) or not 0 < self.threshold <= 1:
            raise ValueError(
                f"`threshold` must lie in (0, 1], for example 0.5; got {self.threshold!r}"
            )
        _check_bound(self.max_tuples)


def _check_bound(most: Any) -> None:
    if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 1):
        raise ValueError(f"`max_tuples` must be None or at least 1; got {most!r}")


def window_of(given: Any) -> Any:
    """Return a window unchanged, or convert a duration (text or timedelta) to a Range."""
    return Range(given) if isinstance(given, str | timedelta) else given


def _not_a_number(value: Any) -> bool:
    return isinstance(value, bool) or not isinstance(value, (int, float))


def span_of(argument: str, duration: Any) -> int:
    """Return a duration, given as text or timedelta, in microseconds.

    Raises TypeError for a bare number (5 would mean five microseconds, rarely intended) and for
    other types, ValueError for a length out of range.
    """
    if isinstance(duration, int | float) and not isinstance(duration, bool):
        raise TypeError(
            f'`{argument}` must say its unit: {argument}="{duration} seconds" or a timedelta '
            f'("{duration} us" for microseconds); got the bare number {duration!r}'
        )
    if not isinstance(duration, str | timedelta):
        raise TypeError(
            f"`{argument}` must be text like '10 seconds' or a timedelta; got {duration!r}"
        )
    total = microseconds(argument, duration)
    if total > LONGEST:
        raise ValueError(f"`{argument}` must be at most 2**60 microseconds; got {duration!r}")
    return total
