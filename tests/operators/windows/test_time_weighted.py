"""Averages and integrals over time against possible worlds."""

import math
from fractions import Fraction

import numpy as np
import pytest

from extents import in_parts, simulated, stream
from seeds import seeds
from sfumato.operators.distributions.aggregate import Aggregate
from sfumato.operators.windows.extent_aggregate import ExtentAggregate
from sfumato.operators.windows.session_aggregate import SessionAggregate
from window_cases import random_tuples
from worlds import law_over, moments_of, worlds

ASKED = [Aggregate("time_avg", 0), Aggregate("count"), Aggregate("integral", 1)]
SECOND = 10**6


def integral_of(readings, start, end):
    """Return (integral, covered time) of a step function; readings : [(time, value)] in order."""
    total, covered = Fraction(0), 0
    for i, (time, value) in enumerate(readings):
        until = readings[i + 1][0] if i + 1 < len(readings) else end
        length = max(min(until, end) - max(time, start), 0)
        total, covered = total + Fraction(value) * length, covered + length
    return total, covered


def expected(tuples, times, attribute, start, end, averaged):
    """Return (mean, stddev, existence) over all worlds; tuples : in time order."""
    groups = [
        [(p, (t, v[attribute])) for p, v in tuple_] for t, tuple_ in zip(times, tuples, strict=True)
    ]

    def over_time(there):
        total, covered = integral_of([(t, v) for t, v in there if v is not None], start, end)
        return (total / covered if averaged else total / SECOND) if covered else None

    mean, variance, existence = moments_of(law_over(worlds(groups), over_time))
    if not existence:
        return math.nan, math.nan, 0.0
    return float(mean), math.sqrt(variance), float(existence)


def check_all(parts, tuples, times, groups, first, length, slide):
    """Compare every extent with the definition; first : each row's first extent, if any."""
    seen = 0
    for part in parts:
        for m in range(len(part)):
            start, end, group = int(part.start[m]), int(part.end[m]), int(part.group[m])
            used = [
                i for i in range(len(tuples))
                if groups[i] == group and i in first and first[i] * slide <= end
                and times[i] < end
            ]  # fmt: skip
            used.sort(key=lambda i: times[i])  # stable: ties stay in order of arrival
            for of, attribute in ((0, 0), (2, 1)):
                measured = part.results[of]
                want = expected(
                    [tuples[i] for i in used], [times[i] for i in used], attribute, start, end,
                    averaged=of == 0,
                )  # fmt: skip
                got = measured.mean[m], measured.stddev[m], measured.existence[m]
                scale = (end - start) / SECOND if of else 1
                np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9 * scale, err_msg=str(m))
                seen += 1
    return seen


@pytest.mark.parametrize("empty", [False, True])
@pytest.mark.parametrize("seed", seeds(6, 2))
def test_results_are_those_of_the_possible_worlds_for_any_cuts(seed, empty):
    rng, seen = np.random.default_rng(seed), 0
    for _ in range(12):
        slide = int(rng.integers(3, 12))
        length = slide + int(rng.choice([0, 0, slide, 5]))
        ordered = bool(rng.random() < 0.4)
        data = stream(rng, int(rng.integers(1, 16)), 4, ordered)
        tuples = random_tuples(rng, len(data[0]), attributes=2)
        window = ExtentAggregate(length, slide, ASKED, empty=empty, attributes=2)
        _, parts = in_parts(window, rng, data, tuples)
        _, scopes = simulated(length, slide, data, [True] * len(tuples))
        first = {i: extent for one in scopes.values() for i, extent in one.first.items()}
        seen += check_all(parts, tuples, data[2].tolist(), data[0], first, length, slide)
    assert seen > 50


def test_sessions_have_no_averages_over_time():
    with pytest.raises(ValueError, match="integral needs a time window"):
        SessionAggregate(3, None, [Aggregate("integral", 0)])
