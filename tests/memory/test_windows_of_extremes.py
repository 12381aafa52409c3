"""Windows of values and probabilities at the ends of their ranges, against possible worlds."""

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from memory_tables import tuples_of
from seeds import seeds
from worlds import aggregate_laws, moments_of

VALUES = (0.0, -0.0, 5e-324, 1e140, -1e140, 1.0, 1.0000001, -1.0, 1e16, 1e16 + 2, 0.1, 1e-160, None)
PROBABILITIES = (1e-300, 1e-16, 1e-9, 0.5, 0.3, 1 / 3, 1 - 1e-16, 1 - 1e-12, 1.0)
ASKED = {
    "count": "count(x)", "sum": "sum(x)", "avg": "avg(x)", "min": "min(x)", "max": "max(x)",
}  # fmt: skip


def aggregated(tuples, window, aggregates=ASKED):
    """Return the answers over tuples, [(prob, value), ...] each, one per microsecond."""
    alternatives = tuples_of(tuples, x=pa.float64())
    table = pa.table({"t": pa.array(range(len(tuples))), "alternatives": alternatives})
    return sf.window_aggregate(table, aggregates, window=window, order="t").to_pylist()


def drawn(rng):
    """Return a few tuples with few distinct values."""
    values = rng.choice(np.array(VALUES, dtype=object), rng.integers(1, 5))
    tuples = []
    for _ in range(rng.integers(1, 6)):
        chosen: list[float] = []
        for p in rng.choice(PROBABILITIES, rng.integers(1, 4)).tolist():
            if sum(chosen) + p <= 1.0:
                chosen.append(p)
        tuples.append([(p, rng.choice(values)) for p in chosen])
    return tuples


def exactly(alternatives):
    """Return probabilities as in the model: several that miss 1 by rounding are certain."""
    parts = [(Fraction(p), None if x is None else Fraction(x)) for p, x in alternatives]
    total = sum(p for p, _ in parts)
    certain = len(parts) > 1 and abs(1 - total) <= Fraction(2) ** -52 * len(parts)
    return [(p / total, x) for p, x in parts] if certain else parts


@pytest.mark.parametrize("seed", seeds(150))
def test_answers_are_those_of_the_worlds(seed):
    rng = np.random.default_rng(seed)
    tuples = drawn(rng)
    windows = (
        sf.Rows(int(rng.integers(1, 5)), float(rng.choice([1e-9, 0.5, 0.95, 1.0]))),
        sf.Range(f"{rng.integers(1, 6)} us"),
        sf.Delta(float(rng.choice([0.0, 1.0, 1e140])), on="x"),
    )
    for window in windows:
        for number, got in enumerate(aggregated(tuples, window)):
            if isinstance(window, sf.Range):
                part = tuples[max(got["window"]["start"], 0) : got["window"]["end"]]
            else:
                part = tuples[number + 1 - got["held"] : number + 1]
            most = window.rows if isinstance(window, sf.Rows) else None
            laws = aggregate_laws([(name, None) for name in ASKED], map(exactly, part), most)
            size = max((abs(x) for a in part for _, x in a if x is not None), default=0.0)
            for name, law in zip(ASKED, laws, strict=True):
                scale = len(part) if name == "count" else size
                check(got[name], moments_of(law), scale)


def check(got, expected, scale):
    mean, variance, existence = expected
    assert got["existence"] == pytest.approx(float(existence), abs=1e-12)
    if existence < 1e-14:  # rounding, not an outcome
        return
    assert got["mean"] == pytest.approx(float(mean), rel=0, abs=1e-9 * scale + 1e-320)
    assert got["stddev"] == pytest.approx(math.sqrt(variance), rel=0, abs=4e-8 * scale + 1e-150)


@pytest.mark.parametrize("spike", [1e9, 1e20, -9.96921e36])
def test_a_huge_value_leaves_no_error_in_later_windows(spike):
    rng = np.random.default_rng(0)
    values = 1e-3 * rng.random(400)
    values[[30, 150]] = spike
    rows = [[(1.0, x)] for x in values.tolist()]
    answers = aggregated(rows, sf.Rows(50))
    for number, got in enumerate(answers):
        part = values[max(number - 49, 0) : number + 1]
        assert got["sum"]["mean"] == pytest.approx(math.fsum(part), rel=1e-9)
        assert got["avg"]["mean"] == pytest.approx(math.fsum(part) / len(part), rel=1e-9)


def test_a_window_that_almost_never_has_a_row_has_an_average():
    (first, second, third) = aggregated(
        [[(1e-300, 3.0)], [(1.0, 3.0)], [(1e-300, 3.0)]], sf.Rows(4), {"mean": "avg(x)"}
    )
    assert first["mean"] == {"mean": 3.0, "stddev": 0.0, "existence": 1e-300}
    assert second["mean"] == third["mean"] == {"mean": 3.0, "stddev": 0.0, "existence": 1.0}


@pytest.mark.parametrize("unlikely", [1e-300, 1e-17])
def test_an_outcome_too_unlikely_to_notice_changes_no_extreme(unlikely):
    before = [[(0.9, 5.0)], [(0.5, 5.0)], [(0.5, -1.0)]]
    (*_, got) = aggregated([*before, [(unlikely, 1.0), (1.0 - 2**-53, 1.0)]], sf.Rows(2, 1.0))
    assert got["max"]["mean"] == pytest.approx(0.475 * 5.0 + 0.525, rel=1e-12)
