"""Answers from moments and laws: what was asked for of both."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from sfumato.kernels.laws.finite_law import all_moments, all_quantiles, shorten_all
from sfumato.operators.laws.aggregate import Floats, Measured
from sfumato.operators.windows.moving_aggregates import Moments
from sfumato.operators.windows.window_groups import join
from sfumato.operators.windows.window_laws import Laws


@dataclass(frozen=True)
class Wanted:
    """quantiles : float64[q], shares of the laws to report; distribution : most entries, or None"""

    quantiles: Floats
    distribution: int | None

    @property
    def laws(self) -> bool:
        """Whether more than means and deviations is asked for."""
        return bool(self.quantiles.size or self.distribution)

    def measured(self, moments: Moments | None, laws: Iterable[Laws] | None) -> Measured:
        """One aggregate's answers; without moments they are those of the laws."""
        if laws is None:
            assert moments is not None
            k = moments[0].size
            return Measured(*moments, np.empty((k, 0)), np.full(k, np.nan))
        parts, at = [], 0
        for some in laws:
            begin, at = at, at + some.error.size
            parts.append(self._of(some, _some(moments, begin, at) if moments else _own(some)))
        return join(parts, np.arange(at), self.quantiles.size, self.distribution)

    def _of(self, laws: Laws, moments: Moments) -> Measured:
        quantiles = all_quantiles(laws.places, laws.prob, laws.value, self.quantiles)
        if self.distribution is None:
            return Measured(*moments, quantiles, laws.error)
        short = shorten_all(laws.places, laws.prob, laws.value, self.distribution)
        return Measured(*moments, quantiles, laws.error, *short)


def _some(moments: Moments, begin: int, end: int) -> Moments:
    mean, stddev, existence = (x[begin:end] for x in moments)
    return mean, stddev, existence


def _own(laws: Laws) -> Moments:
    of = all_moments(laws.places, laws.prob, laws.value)
    return of[:, 0], np.sqrt(of[:, 1]), of[:, 2]
