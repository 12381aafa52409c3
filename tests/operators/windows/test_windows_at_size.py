"""Windows of hundreds of tuples against plain NumPy, with all combinations of aggregates."""

from itertools import pairwise

import numpy as np
import pytest

from large_subjects import long_tuples
from operator_subjects import chosen
from seeds import seeds
from sfumato.operators.distributions.aggregate import Aggregate
from sfumato.operators.windows.count.count_window_aggregate import CountWindowAggregate
from sfumato.operators.windows.delta_window_aggregate import DeltaWindowAggregate
from sfumato.operators.windows.extent_aggregate import ExtentAggregate
from window_reference import Window

COUNT, VALUES, SUM, AVG, MAX, MIN = (
    Aggregate("count"), *(Aggregate(of, 0) for of in ("count", "sum", "avg", "max", "min"))
)  # fmt: skip
NOT_AVERAGED = [COUNT, VALUES, SUM, MAX, MIN]
ASKED = [*NOT_AVERAGED, AVG]


def stream(seed, n, **options):
    rng = np.random.default_rng(seed)
    cuts = np.cumsum(rng.pareto(0.7, n).astype(int) + 1)  # a few rows per call, or very many
    return long_tuples(rng, n, **options), [0, *cuts[cuts < n].tolist(), n]


def fed(window, rows, cuts):
    """Return (held tuples, parts of results per aggregate) of a window fed in these parts."""
    parts = []
    for begin, end in pairwise(cuts):
        some = np.arange(begin, end)
        parts.append(window.process(rows["key"][some], *chosen(rows, some)))
    held = np.concatenate([part.held for part in parts])
    return held, list(zip(*(part.results for part in parts), strict=True))


def column(parts, name):
    return np.concatenate([getattr(part, name) for part in parts])


def tuples_of(rows, places):
    begin, flat = rows["offsets"], rows["values"][:, 0]
    return [(rows["prob"][begin[i] : begin[i + 1]], flat[begin[i] : begin[i + 1]]) for i in places]


def check(window, got, place):
    """Compare each aggregate's results at one place with the recursion.

    got : {aggregate: {column: array}}
    """
    for aggregate, expected in ((COUNT, window.count()), (VALUES, window.values()),
                                (SUM, window.sum())):  # fmt: skip
        mean, variance = expected
        assert got[aggregate]["mean"][place] == pytest.approx(float(mean), rel=1e-9, abs=1e-9)
        deviation = got[aggregate]["stddev"][place]
        assert deviation**2 == pytest.approx(float(variance), rel=1e-7, abs=1e-8)
    if AVG in got and not any(np.isnan(value).any() for _, value in window.tuples):
        mean, _, existence = window.average()
        assert got[AVG]["mean"][place] == pytest.approx(float(mean), rel=1e-9, abs=1e-9)
        assert got[AVG]["existence"][place] == pytest.approx(float(existence), abs=1e-12)
    for aggregate, sign in ((MAX, 1), (MIN, -1)):
        (none,) = window.none_beyond(sign, [-sign * np.inf])
        assert got[aggregate]["existence"][place] == pytest.approx(float(1 - none), abs=1e-12)


def results(parts):
    names = ("mean", "stddev", "existence")
    return {
        of: {name: column(part, name) for name in names}
        for of, part in zip(ASKED[: len(parts)], parts, strict=True)
    }


@pytest.mark.nightly
@pytest.mark.parametrize("seed", seeds(1))
@pytest.mark.parametrize(
    "options", [{}, {"missing": 0.0}, {"missing": 0.95}, {"missing": 0.97, "most": 1}, {"most": 12}]
)
def test_count_windows_at_size_are_those_of_the_recursion(options, seed):
    n, size = 500, 100
    rows, cuts = stream(seed, n, **options)
    asked = ASKED if options.get("missing") == 0.0 else NOT_AVERAGED
    held, parts = fed(CountWindowAggregate(size, 0.9, asked), rows, cuts)
    got = results(parts)
    for i in np.random.default_rng(seed).choice(n, 20, replace=False):
        window = Window(tuples_of(rows, range(i + 1 - held[i], i + 1)), size)
        check(window, got, i)


@pytest.mark.nightly
@pytest.mark.parametrize("missing", [0.0, 0.5])
def test_delta_windows_at_size_are_sums_over_what_they_hold(missing):
    rows, cuts = stream(5, 900, missing=missing)
    held, parts = fed(DeltaWindowAggregate(12.0, 0, ASKED), rows, cuts)
    assert held.max() > 100
    for i in range(50, 900, 47):
        check(Window(tuples_of(rows, range(i + 1 - held[i], i + 1))), results(parts), i)


@pytest.mark.nightly
@pytest.mark.parametrize("missing", [0.0, 0.5])
def test_extents_at_size_are_sums_over_what_they_hold(missing):
    rows, cuts = stream(6, 1_500, keys=2, missing=missing)
    window, found = ExtentAggregate(3_000, 700, ASKED), []
    for begin, end in pairwise(cuts):
        some = np.arange(begin, end)
        given = rows["key"][some], rows["time"][some], None, None, *chosen(rows, some)
        found.append(window.process(*given))
    found.append(window.flush())
    assert sum(map(len, found)) > 80
    for extents in found:
        got = results([[measured] for measured in extents.results]) if len(extents) else {}
        for x in range(0, len(extents), 3):
            time = rows["time"]
            inside = (extents.start[x] <= time) & (time < extents.end[x])
            places = np.flatnonzero(inside & (rows["key"] == extents.group[x]))
            assert extents.held[x] == places.size
            check(Window(tuples_of(rows, places)), got, x)


@pytest.mark.nightly
@pytest.mark.parametrize("make", [
    lambda asked, **laws: CountWindowAggregate(80, 0.9, asked, **laws),
    lambda asked, **laws: DeltaWindowAggregate(4.0, 0, asked, **laws),
])  # fmt: skip
def test_other_aggregates_change_no_mean(make):
    rows, cuts = stream(7, 300, missing=0.0)
    plain = [column(part, "mean") for part in fed(make(ASKED), rows, cuts)[1]]
    for aggregate, expected in zip(ASKED, plain, strict=True):
        alone = fed(make([aggregate]), rows, cuts)[1]
        with_distributions = fed(
            make([aggregate], quantiles=(0.1,), distribution=9, samples=9), rows, cuts
        )[1]
        np.testing.assert_array_equal(
            column(alone[0], "mean"), column(with_distributions[0], "mean")
        )
        close = 1e-12 if aggregate == COUNT else 0.0  # counted together with another sum
        np.testing.assert_allclose(column(alone[0], "mean"), expected, rtol=close)
