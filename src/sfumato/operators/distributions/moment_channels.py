"""Attributes whose moments are kept for aggregates."""

from collections.abc import Sequence

import numpy as np

from sfumato.kernels.distributions.mergeable_moments import (
    AVG_OF,
    BOUNDARY_OF,
    COUNT_OF,
    MOMENT_SUMS,
    NODE_SUMS,
    SUM_OF,
    MomentPartials,
)
from sfumato.kernels.distributions.tuples import existences, tuple_moments
from sfumato.kernels.windows.extents import ChannelMeasures
from sfumato.operators.distributions.aggregate import Aggregate, Floats
from sfumato.operators.state.tuple_batch import TupleBatch

MEASURE_CODES = {"count": COUNT_OF, "sum": SUM_OF, "avg": AVG_OF, "boundary_sum": BOUNDARY_OF}
EXTREMES = {"min": -1.0, "max": 1.0}


class Channels:
    """Channels for some aggregates: averaged attributes first, count(*) last.

    what, channel : int64[r], the measure (-1 for functions without moments) and its channel
    extremes : (sign, attribute) of each min and max
    extreme : position in `extremes` per aggregate, -1 for other functions
    """

    def __init__(self, aggregates: Sequence[Aggregate]) -> None:
        def attributes(*functions: str) -> set[int]:
            return {
                a.attribute for a in aggregates
                if a.function in functions and a.attribute is not None
            }  # fmt: skip

        averaged = attributes("avg")
        self.attributes = sorted(averaged) + sorted(attributes(*MEASURE_CODES) - averaged)
        self.averages = len(averaged)
        self.count = len(self.attributes) + 1
        what, channel = [], []
        for aggregate in aggregates:
            what.append(MEASURE_CODES.get(aggregate.function, -1))
            known = what[-1] >= 0 and aggregate.attribute is not None
            place = self.attributes.index(aggregate.attribute) if known else -1  # type: ignore[arg-type]
            channel.append(place if known else self.count - 1)
        self.what, self.channel = np.array(what, np.int64), np.array(channel, np.int64)
        pairs = [(EXTREMES.get(a.function, 0.0), a.attribute or 0) for a in aggregates]
        self.extremes = sorted({pair for pair in pairs if pair[0]})
        self.extreme = [self.extremes.index(pair) if pair[0] else -1 for pair in pairs]

    @property
    def measures(self) -> ChannelMeasures:
        """The channels of the aggregates as kernel input."""
        signs, attributes = np.array(self.extremes).reshape(-1, 2).T
        extreme = np.array(self.extreme, np.int64)
        return ChannelMeasures(
            self.what, self.channel, extreme, signs.copy(), attributes.astype(np.int64)
        )

    def tuple_moments(self, batch: TupleBatch) -> tuple[Floats, bool]:
        """Return moments, float64[channels, 3, n], and whether a value to average is uncertain."""
        result = np.zeros((self.count, 3, batch.size))
        for c, attribute in enumerate(self.attributes):
            tuple_moments(batch.offsets, batch.prob, batch.values[attribute], result[c])
        result[-1, 0] = existences(batch.offsets, batch.prob)
        e = result[: self.averages, 0]
        return result, bool(((e > 0.0) & (e < 1.0)).any())

    def empty_partials(self, slots: int, nodes: bool) -> MomentPartials:
        """Return empty partials for `slots` slots. Unless `nodes`, allocate one row of nodes."""
        rows = slots if nodes else 1
        sums = np.zeros((slots, self.count), MOMENT_SUMS)
        return MomentPartials(sums, np.empty((rows, self.averages), NODE_SUMS))
