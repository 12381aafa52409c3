"""When extents are emitted and with which rows: punctuations, late rows, gaps, idle scopes."""

import itertools

import numpy as np
import pytest

from extents import COUNT, certain, feed
from seeds import seeds
from sfumato.operators.distributions.aggregate import Aggregate
from sfumato.operators.windows.extent_aggregate import ExtentAggregate


def test_after_idle_a_row_joins_the_open_extents():
    window = ExtentAggregate(20, 10, COUNT)
    assert feed(window, [3, 12], np.array([2, 11])).end.tolist() == [10]
    assert window.idle([7]).end.size == 0  # no such scope
    found = window.idle()
    assert found.end.tolist() == [20, 30]
    assert found.held.tolist() == [2, 1]
    assert found.punctuation.tolist() == [29, 29]
    assert feed(window, [19, 29, 30], np.array([30, 30, 31])).end.size == 0
    assert window.counters["late"] == 1  # 19: [20, 40) is the first open extent
    found = window.flush()
    assert (found.end.tolist(), found.held.tolist()) == ([40, 50], [2, 1])


def test_only_idle_scopes_complete_their_extents():
    window = ExtentAggregate(10, 10, COUNT)
    window.process(np.arange(2), np.array([1, 2]), None, None, *certain([1, 2]))
    assert window.idle([1]).group.tolist() == [1]
    assert window.flush().group.tolist() == [0]


def test_rows_of_two_controllers_are_counted_as_out_of_order():
    # A union of two frames, each reordered: punctuations decrease.
    window = ExtentAggregate(10, 10, COUNT)
    feed(window, [5, 12, 2, 14], np.array([6, 13, 3, 14]))
    assert window.counters["out_of_order"] == 1
    restored = ExtentAggregate.restore(window.snapshot())
    feed(restored, [13], np.array([20]))  # above its last punctuation, but not above the frame's
    assert restored.counters["out_of_order"] == 2


def test_empty_extents_between_two_with_tuples_are_emitted_on_request():
    window = ExtentAggregate(10, 5, [*COUNT, Aggregate("avg", 0)], empty=True)
    found = feed(window, [-7, 31], values=[2, 3])
    assert (found.end.tolist(), found.held.tolist()) == ([-5, 0], [1, 1])
    found = window.flush()
    assert found.end.tolist() == [5, 10, 15, 20, 25, 30, 35, 40]
    assert found.held.tolist() == [0, 0, 0, 0, 0, 0, 1, 1]
    assert found.results[0].mean.tolist() == found.held.tolist()
    assert found.results[1].existence.tolist() == found.held.tolist()
    assert np.isnan(found.results[1].mean[:6]).all()


def test_a_long_gap_has_no_empty_extents():
    window = ExtentAggregate(1, 1, COUNT, empty=True)
    feed(window, [0, 5, 10**15])
    found = window.flush()
    assert found.end.tolist() == [10**15 + 1]
    assert window.counters["held"] == 0
    assert window.counters["skipped"] == 10**15 - 6


def test_a_gap_counts_as_skipped_from_one_extent_too_many_on():
    for most, skipped, ends in [(3, 0, [1, 2, 3, 4, 5]), (2, 3, [1, 5])]:
        window = ExtentAggregate(1, 1, COUNT, empty=True, most_empty=most)
        assert [*feed(window, [0, 4, 5]).end, *window.flush().end][: len(ends)] == ends
        assert window.counters["skipped"] == skipped


@pytest.mark.parametrize("most", [1, 3])
@pytest.mark.parametrize("seed", seeds(4, 2))
@pytest.mark.parametrize("is_certain", [False, True])
def test_a_bounded_number_of_empty_extents_is_emitted_around_those_with_tuples(
    most, seed, is_certain
):
    # The first `most` after each extent with tuples and before the first, up to the last complete.
    rng = np.random.default_rng(seed)
    time = np.sort(rng.integers(0, 200, 24)) - rng.integers(0, 4, 24)
    group, scope = rng.integers(0, 3, 24), np.zeros(24, int)
    time, punctuation = np.sort(time), np.sort(time) - 1
    options = {"empty": True, "most_empty": most, "earliest": -20, "certain": is_certain}

    def run(cuts):
        window, found = ExtentAggregate(10, 5, COUNT, **options), []
        for rows in np.split(np.arange(24), cuts):
            given = group[rows], time[rows], punctuation[rows], None, *certain(np.ones(rows.size))
            found.append(window.process(*given, scope=scope[rows]))
            window = ExtentAggregate.restore(window.snapshot())
        found.append(window.flush())
        listed = [
            one for of in found
            for one in zip(of.group, of.end, of.held, of.punctuation, strict=True)
        ]  # fmt: skip
        return [tuple(map(int, one)) for one in listed], window.counters["skipped"]

    found, skipped = run([])
    expected, left_out = {}, 0
    closed = (int(time[-1]) + 10) // 5
    for g in range(3):
        full = [
            e for e in range(-4, closed + 1) if ((group == g) & (time // 5 * 5 < 5 * e)
            & (time >= 5 * e - 10)).any()
        ]  # fmt: skip
        after = {e + i for e in full for i in range(1, most + 1)}
        before = {full[0] - i for i in range(1, most + 1)}
        for e in {*full, *after, *before}:
            if -2 <= e <= closed:
                inside = (group == g) & (time >= 5 * e - 10) & (time < 5 * e)
                expected[g, 5 * e] = int(inside.sum())
        left_out += sum(max(0, later - e - 1 - most) for e, later in itertools.pairwise(full))
    assert {(g, end): held for g, end, held, _ in found} == expected
    assert (len(found), skipped) == (len(expected), left_out)
    for _ in range(3):
        cuts = np.sort(rng.integers(0, 25, 3))
        again, also_skipped = run(cuts)
        assert (again, also_skipped) == (found, skipped)
