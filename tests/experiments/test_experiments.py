"""Experiments on Lian and Chen, Chen, and Ren: their algorithms, repeatable numbers, verdicts."""

from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from experiments.catalogue import experiments
from experiments.datasets import scaled
from experiments.experiment import Setting
from experiments.incomplete_joins import pairs_judged
from experiments.incomplete_joins.earlier_dependencies import (
    Discovery,
    discovered,
    imputer_of,
    with_gaps,
    with_history,
)
from experiments.incomplete_joins.incomplete_streams import complete_rows, split
from experiments.incomplete_joins.pairs import (
    certain_join,
    f_score,
    found,
    fused_join,
    separate_join,
)
from experiments.multi_top_k import loads_judged, plan_loads, planning
from experiments.multi_top_k.plain_planners import dynamic_program, greedy_program
from experiments.multi_top_k.plain_top_k import top_k_from_scratch
from experiments.multi_top_k.query_load import carried_out
from experiments.multi_top_k.ranked_windows import Point, icebergs, window
from experiments.record import run
from experiments.uncertain_joins import pruning
from experiments.uncertain_joins.uncertain_objects import distance_for, radii, streams
from experiments.uncertain_joins.wop_and_grid import Matching, grid_join, scan_join
from sfumato.operators.joins.similarity_join import SimilarityJoin
from sfumato.operators.ranking.timetable import timetable
from sfumato.operators.ranking.top_k import top_k_probabilities
from sfumato.windows import Rows

AUTHORS = {"A": "Dallachiesa", "B": "Lian", "C": "Kim", "D": "Chen", "E": "Ren"}
CHEAP = ("A4", "A5", "A9", "C7", "D7", "D13", "D17", "DT9", "E2")


@cache
def quick_rows(name: str, repetition: int, data: Path) -> pd.DataFrame:
    """Return the rows of a quick run of a cheap experiment; each repetition runs it again."""
    return run(experiments()[name], Setting(quick=True, data=data)).rows


@pytest.mark.parametrize("name", CHEAP)
@pytest.mark.nightly
def test_a_second_run_gives_the_same_numbers_but_for_timings(name, data_folder):
    first, second = (
        rows[[column for column in rows if not column.endswith("_seconds")]]
        for rows in (quick_rows(name, 0, data_folder), quick_rows(name, 1, data_folder))
    )
    assert first.shape[1] >= 2
    pd.testing.assert_frame_equal(first, second)


@pytest.mark.nightly
@pytest.mark.parametrize("name", CHEAP)
def test_charts_are_legal_and_their_axes_have_titles(name, data_folder):
    rows = quick_rows(name, 0, data_folder)
    drawn = experiments()[name].chart(rows).to_dict()
    assert name in str(drawn["title"])
    for axis in axes(drawn):
        assert axis.get("title"), axis
    assert experiments()[name].judge(rows).because


def axes(chart):
    """Yield all x and y encodings within a chart, except interval ends, which share an axis."""
    for key, value in chart.items():
        if key in ("x", "y") and isinstance(value, dict) and "field" in value:
            if not value["field"].endswith(("low", "high")):
                yield value
        elif isinstance(value, dict):
            yield from axes(value)
        elif isinstance(value, list):
            for each in value:
                if isinstance(each, dict):
                    yield from axes(each)


def test_every_experiment_says_what_it_claims_and_where():
    known = experiments()
    wanted = [*(f"B{i}" for i in range(7, 12)), *(f"D{i}" for i in range(7, 18)), "DT9"]
    assert {*wanted, *(f"E{i}" for i in range(1, 7))} <= set(known)
    for experiment in known.values():
        assert experiment.claim.endswith((".", ")"))
        assert experiment.source.startswith(AUTHORS[experiment.name[0]])


@pytest.mark.parametrize("d", [1, 2, 3, 5])
@pytest.mark.parametrize("alpha", [0.1, 0.6])
def test_wop_grid_and_the_library_find_the_same_pairs(d, alpha):
    rng = np.random.default_rng(d)
    centres = scaled(np.cumsum(rng.normal(size=(120, d)), axis=0))
    pair = streams(rng, centres, ("rU", "rG"), (0.0, 0.2), 60, 12)
    rows, begin, share = 15, 15, alpha - 0.5 / 144
    within = distance_for(rng, pair, rows, 0.5, 0.05)
    matching = Matching(rows, begin, within, share)
    found = scan_join(pair.x, pair.y, matching)
    by_grid, counts = grid_join(pair.x, pair.y, matching, 4)
    assert {tuple(row) for row in by_grid.tolist()} == {tuple(row) for row in found.tolist()}
    assert len(found) > 5
    # x[t] is compared with the 15 newest earlier y, and y[t] with the 15 newest x, including x[t].
    assert counts.pairs == 2 * 15 * 45
    assert counts.by_object + counts.by_sample + len(found) <= counts.pairs

    join = SimilarityJoin(d, within, share, Rows(rows, 1.0), strategy="nested", alternatives=False)
    join.process(pair.arrivals(0, begin))
    answers = join.process(pair.arrivals(begin, 60))
    on_left = answers.arrival % 2 == 0
    other = np.where(on_left, answers.right, answers.left)
    assert sorted(zip(answers.arrival + 2 * begin, other, strict=True)) == sorted(
        map(tuple, found.tolist())
    )


def test_the_distance_is_the_one_at_which_the_wanted_share_of_pairs_match():
    rng = np.random.default_rng(3)
    pair = streams(rng, rng.random((1_200, 2)), ("rU", "rU"), (0.0, 0.05), 600, 40)
    within = distance_for(rng, pair, 200, 0.5, 0.02)
    found = scan_join(pair.x, pair.y, Matching(200, 400, within, 0.5))
    assert len(found) / (2 * 200 * 200) == pytest.approx(0.02, rel=0.3)


@pytest.mark.parametrize("law", ["rU", "rG"])
def test_radii_stay_in_their_range_about_its_middle(law):
    drawn = radii(np.random.default_rng(1), 20_000, law, 0.02, 0.06)
    assert drawn.size == 20_000
    assert drawn.min() >= 0.02
    assert drawn.max() <= 0.06
    assert drawn.mean() == pytest.approx(0.04, abs=5e-4)


def test_top_k_from_scratch_agrees_with_the_library_and_samples_its_own_tuples():
    rng = np.random.default_rng(2)
    prob, rule = 1.0 - rng.random(90), np.arange(90)
    for i in range(0, 89, 3):
        if prob[i] + prob[i + 1] <= 1.0:
            rule[i + 1] = rule[i]
    every = top_k_from_scratch(prob, rule, 7, 0, 1)
    wanted = top_k_probabilities(-np.arange(90.0), prob, rule, k=7)
    np.testing.assert_allclose(every, wanted, rtol=0, atol=1e-13)
    some = top_k_from_scratch(prob, rule, 7, 2, 5)
    np.testing.assert_array_equal(some[2::5], every[2::5])
    assert not some[np.arange(90) % 5 != 2].any()


def test_the_papers_planners_cost_what_the_librarys_do():
    # The examples of Chen et al. (2013), sections 6 to 8: Query Example 1 and 2.
    for f, k, dp, ga in (
        ((2, 3, 5), (3, 4, 5), Fraction(9, 4), Fraction(9, 4)),
        ((30, 51, 60), (2, 3, 4), Fraction(7, 60), Fraction(7, 60)),
        ((1, 2, 3), (2, 3, 9), Fraction(14, 3), Fraction(11, 2)),
    ):
        bounds, costs = np.array(f), np.array(k)
        assert dynamic_program(bounds, costs) == pytest.approx(float(dp), rel=1e-12)
        assert greedy_program(bounds, costs) == pytest.approx(float(ga), rel=1e-12)
    rng = np.random.default_rng(5)
    for _ in range(30):
        drawn = list(
            zip(rng.integers(1, 50, 8).tolist(), rng.integers(1, 60, 8).tolist(), strict=True)
        )
        groups = timetable(drawn, "inco")
        plain = np.array(groups.bounds), np.array(groups.ks)
        assert dynamic_program(*plain) == pytest.approx(timetable(drawn, "dp").cost_per_unit)
        assert greedy_program(*plain) == pytest.approx(timetable(drawn, "greedy").cost_per_unit)


def test_a_machine_that_keeps_up_is_never_late_and_answers_as_planned():
    drawn = [(3, 2), (4, 3), (5, 5)]
    for plan, answers in (("none", 50 + 33 + 20), ("dp", 25 * (1 + 1 + 1 + 1 + 1))):
        table = timetable(drawn, plan)
        load = carried_out(table, lambda k: 1e-9 * k, 100.5)
        assert load.lateness == pytest.approx(0.0, abs=1e-6)
        assert load.work == pytest.approx(table.cost_per_unit * 1e-9)
        # DP runs (2, both lower groups) and (4, all): five answers in four seconds.
        assert load.answers * 100.5 == pytest.approx(answers, abs=2)


def test_a_machine_that_cannot_keep_up_makes_the_answers_late():
    # One query every 2 s whose run takes 3 s: starts at 2, 5, 8, ..., all but the first 1 s late.
    load = carried_out(timetable([(1, 2)], "none"), lambda k: 3.0, 30.0)
    assert load.work == 1.5
    assert load.answers == pytest.approx(10 / 30)
    assert load.lateness == pytest.approx(9.0)


def test_windows_of_icebergs_obey_their_rules(data_folder):
    setting = Setting(data=data_folder)
    score, prob, rule, none = icebergs(setting, setting.rng(1), 3_000)
    assert none is None
    assert (score >= 0).all()
    assert np.bincount(rule, prob, minlength=3_000).max() <= 1.0
    assert np.bincount(rule).max() == 2
    assert window(setting, Point("streams", n=500, streams=5))[3].max() == 4


def test_streams_and_repository_share_no_row(data_folder):
    setting = Setting(quick=True, data=data_folder)
    for name in ("gas", "weather"):
        values = complete_rows(setting, name)
        assert values.min() == 0.0
        assert values.max() == 1.0
        values[:, 0] = np.arange(len(values))  # so that rows can be identified
        objects = split(setting.rng(1), values, 50, 100, 500)
        assert len(objects.complete) == 200
        assert objects.first == 100
        assert not set(objects.complete[:, 0]) & set(objects.repository[:, 0])
        gaps = with_gaps(setting.rng(2), objects.complete, 2)
        assert (np.isnan(gaps).sum(axis=1) == 2).all()


def test_what_the_repository_knew_before_comes_from_its_own_rows():
    values = np.random.default_rng(4).random((400, 3))
    objects = split(np.random.default_rng(1), values, 20, 30, 300)
    rows = objects.repository_with_history(np.random.default_rng(2), 1)
    assert len(objects.lent) - 6 <= len(rows) <= len(objects.lent)
    # Each row is a lent row, with values of earlier rows of its stream, and with their true ages.
    times = np.concatenate([np.arange(objects.begin), np.arange(objects.begin + 70, 400)])
    where = {tuple(row): place for place, row in enumerate(objects.others)}
    for row in rows:
        place = where[tuple(row[:3])]
        assert place in objects.lent
        for a in range(3):
            [before] = np.flatnonzero(objects.others[:, a] == row[3 + a])
            assert (place - before) % 2 == 0
            assert np.log2(1 + times[place] - times[before]) == pytest.approx(row[6 + a])
            assert times[place] - times[before] > 0


def test_dependencies_far_wider_than_the_tightest_are_left_out():
    rng = np.random.default_rng(1)
    a = rng.random(600)
    rows = np.column_stack([a, a + rng.normal(0, 0.001, 600), rng.random(600)])
    tight, every = (
        discovered(rows, ("a", "b", "c"), 1, Discovery(history=False, tight=factor))
        for factor in (2.0, np.inf)
    )
    assert set(tight) < set(every)
    assert {d.determinants[0][0] for d in tight if d.dependent == "a"} == {"b"}
    # The attribute that nothing determines keeps all its dependencies.
    assert len([d for d in tight if d.dependent == "c"]) == len(
        [d for d in every if d.dependent == "c"]
    )


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["gas", "weather"])
def test_with_earlier_values_imputing_at_once_and_imputing_first_find_the_same_pairs(
    name, data_folder
):
    setting = Setting(quick=True, data=data_folder)
    objects = split(setting.rng(1), complete_rows(setting, name), 60, 80, 1_000)
    gaps = with_gaps(setting.rng(2), objects.complete, 2)
    names, n = ("a", "b", "c", "d"), len(gaps)
    rows = objects.repository_with_history(setting.rng(3), 2)
    imputer = imputer_of(rows, names, 1, Discovery(tight=np.inf))
    assert any("earlier a" in str(d) for d in imputer.dependencies)
    known = with_history(gaps, gaps, objects.at, objects.side)
    at_once, first = (
        found(join(imputer, objects.side, known, 0.2, 0.4, 60), objects.first, n)[0]
        for join in (fused_join, separate_join)
    )
    assert at_once.size > 50
    np.testing.assert_array_equal(at_once, first)


@pytest.mark.parametrize("first", [0, 10, 90])
def test_windows_filled_without_matching_give_the_pairs_of_the_whole_join(first):
    values = np.random.default_rng(3).random((150, 2))
    sides = (np.arange(150) % 2).astype(np.uint8)
    pairs, _ = found(certain_join(sides, values, 0.2, 30), first, 150)
    numbers = []
    for i in range(first, 150):
        held = [j for j in range(i) if sides[j] != sides[i]][-30:]
        for j in held:
            if np.linalg.norm(values[i] - values[j]) <= 0.2:
                left, right = (i, j) if sides[i] == 0 else (j, i)
                numbers.append(left // 2 * 2**31 + right // 2)
    assert len(numbers) > 20
    assert pairs.tolist() == sorted(numbers)


def test_f_score_of_some_pairs():
    found, true = np.array([1, 2, 3]), np.array([2, 3, 4, 5, 6])
    assert f_score(found, true) == pytest.approx(2 * (2 / 3) * (2 / 5) / (16 / 15))
    nothing = np.empty(0, np.int64)
    assert f_score(nothing, nothing) == 1.0
    assert f_score(found, nothing) == 0.0


def pruned_rows(by_object: float, by_sample: tuple[float, float]) -> pd.DataFrame:
    about = {"data": "sensor_rUrG", "largest_radius": 0.02}
    return pd.DataFrame(
        [
            {**about, "alpha": alpha, "part": part, "percent": percent}
            for alpha, sampled in zip((0.1, 0.9), by_sample, strict=True)
            for part, percent in zip(
                pruning.PARTS, (by_object, sampled, 100 - by_object - sampled), strict=True
            )
        ]
    )


def timed_rows(grid: tuple[float, float], scan: float) -> pd.DataFrame:
    about = {"data": "sensor_rUrU", "pruned": 0.95}
    return pd.DataFrame(
        [
            {**about, "alpha": alpha, "method": method, "timestamp_seconds": seconds}
            for alpha, by_grid in zip((0.1, 0.9), grid, strict=True)
            for method, seconds in zip(pruning.METHODS, (by_grid, scan, 1e-4), strict=True)
        ]
    )


def test_verdicts_on_pruning_and_its_gain():
    share = pruning.judge_pruned
    assert share(pruned_rows(86, (6, 9))).status == "reproduced"
    assert share(pruned_rows(86, (9, 6))).status == "differs"
    assert share(pruned_rows(96, (0.1, 2))).status == "differs"
    assert share(pruned_rows(40, (1, 2))).status == "refuted"

    def gain(*rows):
        return pruning.judge_times(timed_rows(*rows), "alpha", (100.0, 10_000.0), 0.01).status

    assert gain((2e-3, 1e-3), 0.5) == "reproduced"
    assert gain((1e-3, 2e-3), 0.5) == "differs"  # the trend
    assert gain((2e-3, 1e-3), 0.02) == "differs"  # the gain
    assert gain((2e-2, 1e-2), 5.0) == "differs"  # the time
    assert gain((2e-3, 1e-3), 1e-3) == "refuted"


def load_rows(**changes: tuple[float, float, float, float]) -> pd.DataFrame:
    """Build cost, work, seconds per answer and lateness of each plan, at two points."""
    plans = {
        "DP": (1.0, 0.1, 0.1, 0.0),
        "GA": (1.0, 0.1, 0.1, 0.0),
        "INCO": (1.5, 0.15, 0.2, 0.0),
        "IN": (2.0, 0.2, 0.3, 1.0),
        "NS": (3.0, 0.3, 0.4, 2.0),
        plan_loads.OURS: (1.0, 1e-4, 0.1, 0.0),
        **changes,
    }
    names = ("cost", "work_seconds", "per_answer_seconds", "late_seconds")
    return pd.DataFrame(
        [
            {"x": x, "plan": plan, **dict(zip(names, values, strict=True))}
            | {"work_seconds": values[1] * x}
            for x in (20, 100)
            for plan, values in plans.items()
        ]
    )


def test_verdicts_on_the_cost_of_plans():
    def status(**changes):
        return loads_judged.judge_loads(load_rows(**changes), "x", loads_judged.ORDER).status

    assert status() == "reproduced"
    assert status(GA=(1.3, 0.13, 0.1, 0.0)) == "differs"
    assert status(INCO=(1.5, 0.15, 0.05, 0.0)) == "differs"
    assert status(INCO=(1.5, 0.15, 0.2, 5.0)) == "differs"
    assert status(NS=(0.9, 0.09, 0.4, 2.0)) == "refuted"


def test_verdicts_on_planning_times():
    def status(dp, ga):
        rows = [
            {"longest": longest, "plan": plan, "planning_seconds": seconds}
            for plan, both in (("DP (Algorithm 1)", dp), ("GA (Algorithm 2)", ga), ("DP, ours", ga))
            for longest, seconds in zip((10_000, 40_000), both, strict=True)
        ]
        return planning.judge_planning(pd.DataFrame(rows)).status

    assert status((1e-2, 1e-1), (1e-5, 2e-5)) == "reproduced"
    assert status((1e-2, 1e-1), (2e-5, 1e-5)) == "differs"
    assert status((1e-5, 2e-5), (1e-2, 1e-1)) == "refuted"


@pytest.mark.parametrize(
    ("ratios", "status"),
    [((5.5, 7.0), "reproduced"), ((4.8, 7.0), "differs"), ((3.0, 4.0), "refuted")],
)
def test_verdicts_on_what_sharing_saves(ratios, status):
    rows = [
        {"queries": x, "family": family, "ratio": ratio, "low": ratio - 0.1, "high": ratio + 0.1,
         "bound": np.log2(x), "met": 0.5, "table_9": planning.TABLE_9[x]}
        for family in ("uu", "gu")
        for x, ratio in zip((40, 100), ratios, strict=True)
    ]  # fmt: skip
    assert planning.judge_saved(pd.DataFrame(rows)).status == status


@pytest.mark.parametrize(
    ("separate", "status"),
    [((2.0, 2.0), "reproduced"), ((0.5, 4.0), "differs"), ((0.5, 0.6), "refuted")],
)
def test_verdicts_on_incomplete_joins_go_by_time_alone(separate, status):
    about = {"true_pairs": 1_000, "held": 882, "lent": 2_066, "short": True, "overlapping": True}
    for score in (0.6, 0.9):
        ways = {
            pairs_judged.FUSED: (score, 1.0),
            pairs_judged.SEPARATE: (score, None),
            pairs_judged.OURS: (0.84, 0.1),
            pairs_judged.OURS_SEPARATE: (0.84, 0.4),
            **dict.fromkeys(("kNN", "interpolation", "last value", "mean"), (0.7, 0.5)),
        }
        rows = [
            {"data": "gas", "alpha": alpha, "stretch": stretch, "way": way,
             "f_score": f + 0.01 * stretch, "arrival_seconds": s or seconds, **about}
            for alpha, seconds in zip((0.1, 0.9), separate, strict=True)
            for stretch in (0, 1, 2)
            for way, (f, s) in ways.items()
        ]  # fmt: skip
        verdict = pairs_judged.judge(pd.DataFrame(rows))
        assert verdict.status == status
        assert f"{pairs_judged.OURS} 0.850 ± 0.025" in verdict.because
        assert "gas (882 and 2,066)." in verdict.because
