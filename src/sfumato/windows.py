"""Window configurations: frozen, and checked when they are made."""

import math
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from sfumato.calls import checks_call
from sfumato.duration import microseconds
from sfumato.limits import check_extents

LONGEST = 2**60  # microseconds, some 36,000 years: sums of two stay within int64

Duration = str | timedelta


@checks_call("sf.Rows(500)")
@dataclass(frozen=True)
class Rows:
    """Uncertain count window: the fewest newest tuples that hold `rows` existing ones.

    rows : how many existing tuples the window is to hold, ≥ 1
    confidence : the probability with which it holds them, in (0, 1]
    max_tuples : at most so many tuples are kept (None: no bound); tuples evicted by this
        bound are counted as overflow, and the confidence is not reached while they are missing
    within : of joins only, "10 minutes" or a timedelta: the window is bounded by time as well. A
        tuple leaves once a tuple of its key comes, from any stream, that is at least this much
        later (None: the window has no bound by time)

    Raises ValueError for a value out of range, TypeError for other types. Source: A, sections 4
    (W(U, w, α)) and 8.1.

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
    """Window by event time: extents of `length`, one every `slide`, aligned to 1970-01-01 UTC.

    Extent i holds the tuples with (i + 1) * slide - length <= event time < (i + 1) * slide.

    length : "5 minutes" or a timedelta, > 0 ("5 us" where event times are whole microseconds)
    slide : as `length`; None: as long as `length` (extents tumble). Shorter than `length`:
        extents overlap, and a row may be in at most 10,000 of them; longer: tuples between two
        extents are in none
    idle_timeout : processing time without arrivals after which the open extents are completed
        (None: never); tuples of them that come later are late
    empty : whether a group's extents without a tuple, between two that have one, are emitted too.
        Of a gap of more than 1,000,000 extents none does; they are counted as `skipped`

    Where event times are timestamps, extents lie between 0001-01-02 and 9999-12-31 in UTC: a row of
    which an extent does not, as one with a sentinel such as 9999-12-31, is invalid and counted.

    Raises ValueError for durations out of range, TypeError for other types.
    Source: C, section 6, equation (6.1).

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

    @staticmethod
    def upgraded(saved: dict[str, Any]) -> dict[str, Any]:
        """The fields as they are saved now; they were whole microseconds once."""
        return {name: _spelled(value) for name, value in saved.items()}

    @property
    def length_us(self) -> int:
        """`length` in microseconds."""
        return span_of("length", self.length)

    @property
    def slide_us(self) -> int:
        """`slide` in microseconds."""
        return self.length_us if self.slide is None else span_of("slide", self.slide)

    @property
    def idle_timeout_us(self) -> int | None:
        """`idle_timeout` in microseconds, or None."""
        return None if self.idle_timeout is None else span_of("idle_timeout", self.idle_timeout)


@dataclass(frozen=True)
class JoinWindow:
    """The window of a stream in a join, from users' `Rows` or `Range`. Not public; saved in state.

    rows, confidence, max_tuples : as for `Rows`; rows=None: any number
    span : `within` of `Rows` or `length` of `Range`, as a timedelta; None: no bound by time

    Raises ValueError for a value out of range, TypeError for other types.
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

    @staticmethod
    def upgraded(saved: dict[str, Any]) -> dict[str, Any]:
        """The fields as they are saved now; the span was whole microseconds once."""
        return {name: _spelled(v) if name == "span" else v for name, v in saved.items()}

    @property
    def span_us(self) -> int | None:
        """`span` in microseconds."""
        return None if self.span is None else span_of("span", self.span)


@checks_call('sf.Delta(50, on="speed")')
@dataclass(frozen=True)
class Delta:
    """Attribute-delta window: the newest tuples, as long as none is too far from the oldest.

    delta : the largest distance allowed between the oldest tuple's value and any other's, >= 0
    on : name of the attribute
    threshold : the oldest tuple is evicted while it breaks this with at least this probability,
        in (0, 1]
    max_tuples : at most so many tuples are kept (None: no bound); tuples evicted by this bound are
        counted as overflow

    Raises ValueError for a value out of range, TypeError for other types.  Source: A, section 8.1.

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
        if not isinstance(self.on, str) or not self.on:
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
    """A window as it is; a duration, text or timedelta, as the Range that it is meant for."""
    return Range(given) if isinstance(given, str | timedelta) else given


def _not_a_number(value: Any) -> bool:
    return isinstance(value, bool) or not isinstance(value, (int, float))


def span_of(argument: str, duration: Any) -> int:
    """Microseconds of a duration given as text or as a timedelta.

    A bare number is refused: 5 would be five microseconds, and hardly ever meant. Raises TypeError
    for it and for other types, ValueError for a length out of range.
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


def _spelled(saved: Any) -> Any:
    """Whole microseconds as text; anything else as it is."""
    return f"{saved} microseconds" if type(saved) is int else saved
