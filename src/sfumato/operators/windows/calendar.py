"""Event time as positions, in which calendar units (local days or months) have equal length.

A local day has 23, 24 or 25 hours, and a month 28 to 31 days. In positions, extents of days or
months nevertheless have a fixed length.
"""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np

from sfumato.operators.arrays import Ints

DAY_US = 86_400_000_000
UNIT_SPANS_US = {"day": 3 * DAY_US, "month": 34 * DAY_US}  # longer than any unit in any time zone
UNIT_DTYPES = {"day": "datetime64[D]", "month": "datetime64[M]"}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# 0001-01-02 and 9999-12-31 in UTC: Python and pandas can display these dates in any time zone.
FIRST_US, LAST_US = -62_135_510_400_000_000, 253_402_214_400_000_000


class Calendar:
    """The units of a calendar: unit i spans the positions [i * span, (i + 1) * span).

    unit : "day" or "month"    zone : name of the time zone
    origin : number of unit 0, counted from the unit of 1970-01-01
    offset : local time from a unit's date to its start, in microseconds

    A time in unit i has the position i * span plus the time since the unit's start, except that a
    unit's last microsecond has the last position of its span. Positions therefore have the order of
    their times, and a unit ends where its span ends.
    """

    def __init__(self, unit: str, zone: str, origin: int = 0, offset: int = 0) -> None:
        self.span, self.origin, self.offset = UNIT_SPANS_US[unit], origin, offset
        self._unit, self._zone = UNIT_DTYPES[unit], ZoneInfo(zone)
        self._units = self._starts = np.empty(0, np.int64)  # known units and their starts

    def starts(self, units: Ints) -> Ints:
        """Return each unit's start: the first microsecond with its local date and `offset`."""
        new = np.setdiff1d(units, self._units)
        if new.size:
            dates = (new + self.origin).astype(self._unit).astype("datetime64[us]")
            local = dates.astype(np.int64) + self.offset
            known = np.concatenate([self._units, new])
            starts = np.concatenate([self._starts, [self._first_time(at) for at in local.tolist()]])
            order = np.argsort(known)
            self._units, self._starts = known[order], starts[order].astype(np.int64)
        return self._starts[np.searchsorted(self._units, units)]

    def positions(self, times: Ints) -> Ints:
        """Return the positions of times from FIRST_US to LAST_US."""
        dates = (times - self.offset).astype("datetime64[us]").astype(self._unit)
        about = dates.astype(np.int64) - self.origin
        low, high = int(about.min(initial=0)), int(about.max(initial=0))
        near = np.arange(low, high + 1) if high - low < times.size else np.unique(about)
        self.starts(np.unique(near[:, None] + np.arange(-1, 3)))  # zones are within a day of UTC
        place = np.searchsorted(self._starts, times, side="right") - 1
        unit, start, following = self._units[place], self._starts[place], self._starts[place + 1]
        within = np.where(times == following - 1, self.span - 1, times - start)
        return unit * self.span + within

    def times(self, positions: Ints) -> Ints:
        """Return the times at positions; past a unit's end, the time is its last microsecond."""
        unit, within = np.divmod(positions, self.span)
        start = self.starts(unit)
        last = np.maximum(self.starts(unit + 1) - 1, start)
        return np.minimum(start + within, last)

    def _first_time(self, local: int) -> int:
        """Return the first time at which the zone's clocks show at least `local` microseconds.

        A date outside Python's range has the UTC offset of the nearest date within the range.
        """
        given = EPOCH + timedelta(microseconds=min(max(local, FIRST_US), LAST_US))
        before, after = (
            _microseconds(self._zone.utcoffset(given.replace(fold=fold, tzinfo=self._zone)))
            for fold in (0, 1)
        )
        low, high = local - after, local - before
        if before >= after:
            return high
        while high - low > 1:  # clocks were set forward past `local`; bisect for the change
            middle = (low + high) // 2
            moment = EPOCH + timedelta(microseconds=middle)
            shown = _microseconds(moment.astimezone(self._zone).utcoffset())
            low, high = (low, middle) if middle + shown >= local else (middle, high)
        return high


def _microseconds(offset: timedelta | None) -> int:
    assert offset is not None
    return offset // timedelta(microseconds=1)
