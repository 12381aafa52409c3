"""Errors that rows share, in windows over tables: ensembles, calibrations, and worlds by id."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import sfumato as sf
from seeds import seeds
from worlds import aggregate_laws, moments_of

ASKED = {"n": "count(*)", "s": "sum(x)", "a": "avg(x)", "lo": "min(x)", "hi": "max(x)",
         "mid": "quantile(x, 0.5)", "sd": "stddev(x)", "last": "last(x)"}  # fmt: skip
OF_NUMPY = {
    "n": len, "s": np.sum, "a": np.mean, "lo": np.min, "hi": np.max,
    "mid": lambda x: np.quantile(x, 0.5, method="inverted_cdf"),
    "sd": lambda x: np.std(x, ddof=1), "last": lambda x: x[-1],
}  # fmt: skip


def uncertain(rows):
    """Return rows with the values x and their probabilities w as alternatives."""
    alternatives = sf.alternatives(rows.x, rows.w, "x").to_pandas()
    return rows.drop(columns=["x", "w"]).assign(alternatives=alternatives.to_numpy())


def test_each_member_of_an_ensemble_is_one_world():
    rng = np.random.default_rng(1)
    members = rng.normal(20, 3, (40, 8)).round(3)
    rows = pd.DataFrame({"hour": np.arange(40), "run": 0, "x": members.tolist()})
    rows["w"] = [[1 / 8] * 8] * 40
    ensemble = uncertain(rows)
    found = sf.window_aggregate(
        ensemble, ASKED, window=sf.Range("10 us"), order="hour", shared="run",
        quantiles=[0.25, 0.9], distribution=8,
    )  # fmt: skip
    assert len(found) == 4
    for place, row in enumerate(found.itertuples()):
        inside = members[10 * place : 10 * place + 10]
        for name, function in OF_NUMPY.items():
            values = np.array([function(inside[:, m]) for m in range(8)])
            got = getattr(row, name)
            assert got["existence"] == 1
            np.testing.assert_allclose(got["mean"], values.mean(), rtol=1e-12)
            np.testing.assert_allclose(got["stddev"], values.std(), rtol=1e-9, atol=1e-9)
            known, counts = np.unique(values.round(9), return_counts=True)
            shown = [(of["value"], of["prob"]) for of in got["distribution"]]
            np.testing.assert_allclose(shown, np.stack([known, counts / 8], axis=1), rtol=1e-9)
            for q in (25, 90):
                expected = np.quantile(values, q / 100, method="inverted_cdf")
                np.testing.assert_allclose(got[f"q{q}"], expected, rtol=1e-12)


def calibrated(rng, n=60):
    """Return readings with their device's offset, and independent readings without a device."""
    offset, weights = np.array([-0.5, 0.0, 1.0]), [0.25, 0.5, 0.25]
    device = rng.choice(["a", "b", None], n)
    reading = rng.integers(0, 40, n) / 4
    made = np.sort(rng.integers(0, 100, n))
    return pd.DataFrame(
        {
            "device": device,
            "room": rng.choice(["hall", "attic"], n),
            "made": made,
            "arrival": made + rng.integers(0, 12, n),
            "x": [(offset + of).tolist() for of in reading],
            "w": [weights] * n,
        }
    ).sort_values("arrival", kind="stable")


@pytest.mark.parametrize("seed", seeds(6, 2))
def test_windows_of_calibrated_devices_have_the_results_of_possible_worlds(seed):
    rows = calibrated(np.random.default_rng(seed))
    ordered = sf.reorder(rows, event_time="made", arrival="arrival", slack=12)
    tuples = uncertain(ordered)
    found = sf.window_aggregate(
        tuples, ASKED, window=sf.Range("10 us"), order="made", key="room", shared="device"
    )
    assert len(found) > 10
    calls = [("count", None), ("sum", None), ("avg", None), ("min", None), ("max", None),
             ("quantile", 0.5), ("stddev", None), ("last", None)]  # fmt: skip
    checked = 0
    for row in found.itertuples():
        start = row.window["start"]
        inside = ordered[(ordered.made // 10 * 10 == start) & (ordered.room == row.room)]
        if len(inside) > 7 or inside.made.duplicated().any():  # few worlds, and one newest row
            continue
        groups = [
            [(Fraction(p), Fraction(x)) for p, x in zip(r.w, r.x, strict=True)]
            for r in inside.itertuples()
        ]
        devices = [of if isinstance(of, str) else None for of in inside.device]  # pandas 3: NaN
        laws = aggregate_laws(calls, groups, shared=devices)
        for name, law in zip(ASKED, laws, strict=True):
            mean, variance, existence = moments_of(law)
            got = getattr(row, name)
            assert abs(got["existence"] - existence) < 1e-12
            if existence:
                assert abs(got["mean"] - mean) < 1e-9
                assert abs(got["stddev"] ** 2 - variance) < 1e-9
        checked += 1
    assert checked > 3


def readings(**more):
    """Return windows over a device whose weights change within one, and one that changes later."""
    rows = pd.DataFrame(
        {
            "device": ["a", "a", "a", "b", None, "b"],
            "made": [1, 2, 3, 4, 5, 11],
            "x": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0, 7.0], [0.0, 8.0], [9.0], [4.0]],
            "w": [[0.5, 0.5], [0.25, 0.75], [0.5, 0.25, 0.25], [0.5, 0.5], [1.0], [1.0]],
        }
    )
    tuples = uncertain(rows)
    return sf.window_aggregate(
        tuples, {"s": "sum(x)"}, window=sf.Range("10 us"), order="made", shared="device", **more
    )


def test_rows_with_other_weights_are_counted_and_emitted_where_asked():
    found = readings(missed=True)
    results, missed = sf.split_missed(found)
    assert [(row.held, row.s["mean"]) for row in results.itertuples()] == [(3, 14.5), (1, 4.0)]
    assert missed[["made", "reason"]].to_numpy().tolist() == [[2, "unequal"], [3, "unequal"]]
    counts = sf.ops.counters(found)["sfumato_window_1"]
    assert (counts["rows"], counts["unequal"], counts["late"]) == (6, 2, 0)
    members = readings(with_rows=True)
    assert members.made.tolist() == [1, 4, 5, 11]


def test_rounding_errors_of_weights_do_not_tell_rows_apart():
    single = float(np.float32(1 / 3))
    weights = [[1 / 3] * 3, [1 - 2 / 3, 1 / 3, 1 / 3], [single, single, 1 / 3], [0.333333333] * 3]
    assert len(set(map(tuple, weights))) == 4
    rows = pd.DataFrame({"at": range(4), "run": 0, "x": [[0.0, 1.0, 2.0]] * 4, "w": weights})
    found = sf.window_aggregate(
        uncertain(rows), {"s": "sum(x)"}, window="4 us", order="at", shared="run", distribution=3
    )
    assert found["held"].tolist() == [4]
    shown = [(of["value"], of["prob"]) for of in found["s"][0]["distribution"]]
    np.testing.assert_allclose(shown, [(0, 1 / 3), (4, 1 / 3), (8, 1 / 3)], rtol=1e-6)


def test_existence_is_shared_by_rows_without_alternatives():
    rows = pd.DataFrame({"run": [1, 1, 1], "at": [1, 2, 3], "x": [1.0, 2.0, 4.0]})
    rows["existence"] = 0.25
    found = sf.window_aggregate(
        rows, {"n": "count(*)", "a": "avg(x)"}, window=sf.Range("10 us"), order="at", shared="run",
        distribution=9,
    )  # fmt: skip
    n, a = found.n[0], found.a[0]
    assert [(of["value"], of["prob"]) for of in n["distribution"]] == [(0.0, 0.75), (3.0, 0.25)]
    assert (a["existence"], a["mean"], a["stddev"]) == (0.25, pytest.approx(7 / 3), 0.0)


def test_answers_over_shared_errors_are_not_taken_as_independent():
    sums = readings(distribution=4)
    sums["alternatives"] = [of["distribution"] for of in sums.pop("s")]
    with pytest.raises(ValueError, match="windows over shared errors may share readings"):
        sf.window_aggregate(sums, {"m": "max(value)"}, window=sf.Rows(2), order="held")


def test_alternatives_that_lost_their_number_are_refused():
    tuples = uncertain(calibrated(np.random.default_rng(5)))
    for fewer in (sf.where(tuples, "x > 3"), sf.prune(tuples, top=2)):
        with pytest.raises(ValueError, match="matches alternatives by their number"):
            sf.window_aggregate(
                fewer, {"s": "sum(x)"}, window=sf.Range("10 us"), order="made", shared="device"
            )


def test_worlds_drawn_by_the_shared_column_have_the_same_results():
    rng = np.random.default_rng(5)
    tuples = uncertain(calibrated(rng).assign(device="a"))
    asked = {"window": sf.Range("100 us"), "order": "made"}
    exact = sf.window_aggregate(tuples, {"s": "sum(x)"}, shared="device", **asked)
    drawn = sf.draw_worlds(tuples, 4000, source="calibration", id="device")
    sums = sf.window_aggregate(drawn, {"s": "sum(x)"}, key="world", **asked)
    assert sums.s.nunique() == 3
    assert abs(sums.s.mean() - exact.s[0]["mean"]) < 0.1 * exact.s[0]["stddev"]
    assert abs(sums.s.std() / exact.s[0]["stddev"] - 1) < 0.05
