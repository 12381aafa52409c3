"""Disorder control: how far event time has come, judged from the rows that arrived."""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from sfumato.operators.disorder.control import DisorderControl
from sfumato.operators.disorder.controllers import Controllers
from sfumato.operators.disorder.rows import checked
from sfumato.operators.state.declared import Declaration, Part
from sfumato.operators.state.stateful import Operator

ONE = np.zeros(1, np.int64)  # the only controller's code


class Punctuator(Operator):
    """Estimates, after each arrival, up to which event time the stream is complete.

    The punctuation never moves back. A row is late if its event time is below the punctuation in
    force when it arrives, or if the guard finds it stale. With the guard no row of a stream in
    order is late, also where event times tie.

    drop_ratio : DRATIO, the share of rows that may be late, in (0, 0.5]; with estimator
        "conformal" (the default: no assumption on the delays, the share is steered by what was
        late so far) or "normal" (normal delays and exponential gaps)
    slack : SLACK, instead: a sort buffer of so many rows
    max_delay : or: the newest event time less so many microseconds
    estimator : "conformal", "normal", or "max": the largest delay seen (MAX), which needs none
        of them
    max_buffer : BSIZE, rows held at most; wins over the estimator. Without any of the others rows
        are held until the buffer is full
    rounding : of the normal measure's n_p, "ceiling" (cautious) or "floor" (as printed in C)
    averaged : the averaged variant of "max"
    guard : rows with incredible event times neither feed the estimator nor let a full buffer
        push the punctuation to them; stale ones are late. Without it the estimators are those of
        the papers, and their punctuations may pass the newest event time

    Memory: O(slack) or O(n_p) or a bounded sample (conformal), and O(max_buffer), reached only as
    rows arrive.  Raises ValueError or TypeError for parameters that are out of range or exclude
    each other.  Source: paper C; conformal: see `kernels.disorder.conformal_delay`.

    >>> punctuator = Punctuator(slack=1)
    >>> punctuator.extend(np.array([10, 30, 20]), np.array([11, 31, 32]))[1:].tolist()
    [10, 20]
    """

    kind, version = "punctuator", 6
    config: DisorderControl
    state: ClassVar[Mapping[str, Declaration]] = {"controllers": Part()}

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
    ) -> None:
        self.config = DisorderControl(
            drop_ratio, slack, estimator, max_buffer, rounding, averaged, guard, max_delay
        )
        self.controllers = Controllers(self.config)
        self.controllers.grow(1)

    def extend(self, event_time: np.ndarray, arrival: np.ndarray) -> np.ndarray:
        """Punctuations after each of the next arrivals; the state goes on from call to call.

        event_time, arrival : int64[n] microseconds (or datetime64), in order of arrival; where
            arrival decreases the row is processed as it comes and counted as out of order
        Returns int64[n] microseconds, the int64 minimum while no punctuation is known.
        Raises TypeError or ValueError for other dtypes, shapes or lengths.
        Cost: O(log slack) or O(1) amortised a row (millions of rows a second).
        """
        return self.extend_with_late(event_time, arrival)[0]

    def extend_with_late(
        self, event_time: np.ndarray, arrival: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """(punctuation int64[n], late bool[n]): as `extend`, and which of the rows are late."""
        event_time, arrival = checked(event_time, arrival, [])
        starts = np.array([0, len(event_time)])
        return self.controllers.extend(ONE, starts, event_time, arrival)[:2]

    @property
    def punctuation(self) -> int:
        """The punctuation in force, int64 microseconds; the int64 minimum while there is none."""
        return int(self.controllers.punctuation[0])

    @property
    def counters(self) -> dict[str, int]:
        """rows, late, stale, future, forced, after_idle, out_of_order; see `Controllers`."""
        return self.controllers.counters
