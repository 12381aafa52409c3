"""How long rows wait for their place in order, and the best fixed watermark in hindsight."""

from dataclasses import dataclass

import numpy as np

from sfumato.operators.arrays import Ints


@dataclass(frozen=True)
class Waiting:
    """The effect of a sequence of punctuations on a stream; waits are in microseconds."""

    rows: int
    late: int
    waiting: int
    mean: float
    p99: float
    buffer: float

    @property
    def drop_ratio(self) -> float:
        return self.late / self.rows


def waiting(event_time: Ints, arrival: Ints, punctuation: Ints) -> Waiting:
    """Judge punctuations, one after each arrival; int64[n] microseconds in order of arrival.

    A row waits from its own arrival to the first arrival, possibly its own, whose punctuation is at
    or above its event time. It is late, and does not wait, if the punctuation before its arrival is
    above its event time.
    """
    before = np.concatenate([[np.iinfo(np.int64).min], punctuation[:-1]])
    late, n = event_time < before, len(event_time)
    release = np.maximum(np.searchsorted(punctuation, event_time), np.arange(n))
    out = ~late & (release < n)
    waits = arrival[release[out]] - arrival[out]
    leaving = np.bincount(release[~late], minlength=n + 1)[:n]
    return Waiting(
        rows=n,
        late=int(late.sum()),
        waiting=int((~late & ~out).sum()),
        mean=float(waits.mean()) if len(waits) else 0.0,
        p99=float(np.percentile(waits, 99)) if len(waits) else 0.0,
        buffer=float((np.cumsum(~late) - np.cumsum(leaving)).mean()),
    )


def fixed_watermark(event_time: Ints, slack: int) -> Ints:
    """Return punctuations that stay `slack` microseconds behind the largest event time."""
    return np.maximum.accumulate(event_time) - slack


def least_slack(event_time: Ints, late: int) -> int:
    """Return the least slack (microseconds) of a fixed watermark with at most `late` late rows."""
    # A row is late if the watermark before it, newest - slack, is above its event time.
    newest = np.maximum.accumulate(event_time)
    behind = np.concatenate([[-1], newest[:-1] - event_time[1:]])
    if late >= len(behind):
        return 0
    return max(int(np.partition(behind, -late - 1)[-late - 1]), 0)
