"""Disorder control: estimate the progress of event time from the rows that arrived."""

from __future__ import annotations

from typing import Any

import numpy as np

from sfumato.operators.arrays import Ints, grouped
from sfumato.operators.disorder.control import DisorderControl
from sfumato.operators.disorder.controllers import Controllers
from sfumato.operators.disorder.rows import NO_CODES, checked_times
from sfumato.operators.state.declared import Part
from sfumato.operators.state.stateful import Operator


class Punctuator(Operator):
    """Estimator of punctuations: after each arrival, the event time up to which rows are complete.

    Parameters
    ----------
    drop_ratio
        DRATIO, the share of rows that may be late, in (0, 0.5]. The estimator "conformal" (default)
        assumes nothing about delays and adapts to the share of late rows so far; "normal" assumes
        normal delays and exponential gaps
    slack
        SLACK, in place of `drop_ratio`: the number of rows in a sort buffer
    max_delay
        In place of `drop_ratio` and `slack`: microseconds between the punctuation and the newest
        event time
    estimator
        "conformal", "normal", "max" (MAX, the largest delay so far) or "sent" (rows carry their
        punctuations). The last two need no `drop_ratio`, `slack` or `max_delay`
    max_buffer
        BSIZE, the largest number of held rows; overrides the estimator. Without other options, rows
        are held until the buffer is full
    rounding
        Rounding of n_p in the normal measure: "ceiling" (cautious) or "floor" (as in the paper)
    averaged
        Whether to use the averaged variant of "max"
    guard
        Whether to guard against implausible event times: rows with such times do not update the
        estimator, a full buffer does not advance the punctuation to them, and stale rows are late.
        Without the guard, the estimators are exactly as in the papers, and punctuations may
        exceed the newest event time
    max_ahead, max_behind
        microseconds; a row is late if its event time is more than `max_ahead` after or more than
        `max_behind` before its arrival. Such rows have no other effect

    Raises
    ------
    ValueError, TypeError
        For parameters that are out of range or cannot be combined.

    Notes
    -----
    The punctuation never decreases. A row is late if its event time is below the punctuation at its
    arrival, or if the guard judges it stale. With the guard, no row of an ordered stream is late,
    even if event times are equal.

    Memory: O(slack), O(n_p) or a bounded sample (conformal), plus O(max_buffer).
    More: page research/conformal-delay of the documentation.

    References
    ----------
    Kim et al. (2006), sections 4 and 5. https://doi.org/10.1109/CIT.2006.33

    Examples
    --------
    >>> punctuator = Punctuator(slack=1)
    >>> punctuator.extend(np.array([10, 30, 20]), np.array([11, 31, 32]))[1:].tolist()
    [10, 20]
    """

    kind, version = "punctuator", 9
    config: DisorderControl
    state = {"controllers": Part()}

    def __init__(
        self,
        drop_ratio: float | None = None,
        *,
        slack: int | None = None,
        estimator: str | None = None,
        max_buffer: int | None = None,
        rounding: str = "ceiling",
        averaged: bool = False,
        guard: bool = True,
        max_delay: int | None = None,
        max_ahead: int | None = None,
        max_behind: int | None = None,
    ) -> None:
        waits = drop_ratio, slack, estimator, max_buffer, rounding, averaged, guard, max_delay
        self.config = DisorderControl(*waits, max_ahead, max_behind)
        self.controllers = Controllers(self.config)
        self.controllers.grow(1)

    @classmethod
    def from_config(cls, config: DisorderControl, **_: Any) -> Punctuator:
        own = {name: of for name, of in vars(config).items() if name != "max_buffer_total"}
        return cls(**own)

    def extend(
        self, event_time: np.ndarray, arrival: np.ndarray, sent: Ints = NO_CODES
    ) -> np.ndarray:
        """Return the punctuation after each of the next arrivals, continuing from earlier calls.

        event_time, arrival : int64[n] microseconds (or datetime64), in order of arrival; a row
            with an earlier arrival than its predecessor is processed and counted as out of order
        sent : with estimator "sent", int64[n] microseconds, the int64 minimum for rows without a
            punctuation
        Returns int64[n] microseconds, the int64 minimum while no punctuation is known.
        Raises TypeError or ValueError for wrong dtypes, shapes or lengths.
        Cost: O(log slack) or O(1) amortised per row (millions of rows per second).
        """
        return self.extend_with_late(event_time, arrival, sent)[0]

    def extend_with_late(
        self, event_time: np.ndarray, arrival: np.ndarray, sent: Ints = NO_CODES
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return (punctuation int64[n], late bool[n]); see `extend`."""
        event_time, arrival = checked_times(event_time, arrival)
        sent = self.controllers.checked_sent(sent, len(event_time))
        one = grouped(np.zeros_like(event_time))
        judged = self.controllers.extend(one, event_time, arrival, sent=sent)
        return judged.after, judged.late

    @property
    def punctuation(self) -> int:
        """Current punctuation, int64 microseconds; the int64 minimum while none is known."""
        return int(self.controllers.punctuation_of(np.zeros(1, np.int64))[0])

    @property
    def counters(self) -> dict[str, int]:
        """Counts of rows: rows, late, stale, future, forced, after_idle, out_of_order."""
        return self.controllers.counters
