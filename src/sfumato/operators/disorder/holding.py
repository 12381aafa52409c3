"""What a reorder holds back, and since when: figures for whoever watches it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sfumato.kernels.disorder.state import NEVER
from sfumato.operators.disorder.reorder import Ints, Reorder

AWAITED = -1  # as a source: one that is expected and has not spoken


class Holding(NamedTuple):
    """Microseconds, None where nothing is known.

    oldest : least event time held     punctuation : the least of the keys that hold rows or just
    had some     lag : how far it is, of the key where this is most, behind the newest row held
    slowest : code of the source that holds the oldest row back, or AWAITED
    """

    oldest: int | None = None
    punctuation: int | None = None
    lag: int | None = None
    slowest: int | None = None


def holding(reorder: Reorder, present: Ints) -> Holding:
    """What is held now. present : keys that just had rows.

    Rows that the guard set aside, ahead of all clocks, are held too but are no newest row.
    Cost: of the rows held.
    """
    waiting = reorder.waiting
    keys = np.union1d(waiting.key, present)
    if not len(keys):
        return Holding()
    punctuation = reorder.punctuations()[keys]
    known = punctuation != NEVER
    least = int(punctuation[known].min()) if known.any() else None
    if not len(waiting.number):
        return Holding(None, least, None if least is None else 0)
    newest = punctuation.copy()
    credible = waiting.event_time <= reorder.controllers.horizon[waiting.source]
    at = np.searchsorted(keys, waiting.key[credible])
    np.maximum.at(newest, at, waiting.event_time[credible])
    lags = newest[known] - punctuation[known]
    oldest = int(waiting.event_time.argmin())
    return Holding(
        int(waiting.event_time[oldest]),
        least,
        int(lags.max()) if len(lags) else None,
        _slowest(reorder, waiting.key[oldest]) if reorder.config.by_source else None,
    )


def _slowest(reorder: Reorder, key: np.int64) -> int | None:
    """The source with the least punctuation of those that count for a key."""
    sources = reorder.sources
    if sources.awaited[key]:
        return AWAITED
    members, _ = sources.members(np.array([key]))
    if not len(members):
        return None
    return int(members[reorder.controllers.punctuation[members].argmin()])
