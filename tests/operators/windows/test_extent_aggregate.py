"""Time extents: members, completion and counters by a simple simulation; results by worlds."""

from functools import partial

import numpy as np
import pytest

from extent_kinds import KINDS, Rows, shared
from extents import COUNT, check_against_worlds, check_equal, facts, feed, stream
from seeds import seeds
from sfumato.operators.distributions import discrete_distributions
from sfumato.operators.distributions.aggregate import Aggregate
from sfumato.operators.state.snapshot import SnapshotError
from sfumato.operators.windows.extent_aggregate import ExtentAggregate
from window_cases import ALL, random_tuples

LENGTHS = [(10, 10), (12, 4), (7, 3), (3, 10), (1, 1), (30, 2), (4, 5), (11, 10)]
every_kind = pytest.mark.parametrize("kind", KINDS)


@every_kind
@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("seed", seeds(8, 4))
def test_each_extent_is_emitted_once_with_its_rows_and_counts(seed, ordered, kind):
    rng = np.random.default_rng(seed)
    make, draw, own_counters = KINDS[kind]
    draw = partial(draw, wrong=0.3) if draw is shared else draw
    for length, slide in LENGTHS:
        n = int(rng.integers(1, 90))
        data = stream(rng, n, int(rng.integers(1, 5)), ordered)
        rows = draw(rng, data, int(rng.integers(1, 6)), most=1)
        for entry in rows.tuples:
            if rng.random() < 0.08:  # a row that does not exist, or a version that removes it
                entry.clear()
        expected, scopes = rows.simulate(length, slide, [bool(entry) for entry in rows.tuples])
        window = make(length, slide, COUNT, members=True, attributes=2)
        window, parts = rows.process(window, rng)
        assert facts(parts) == [(e, g, len(rows), p, late) for e, g, rows, p, late in expected]
        assert all((p.start == p.end - length).all() for p in parts)
        members = [
            p.members.tolist()[p.offsets[k] : p.offsets[k + 1]]
            for p in parts
            for k in range(len(p))
        ]
        assert kind != "corrected" or members == [inside for _, _, inside, _, _ in expected]
        assert list(map(sorted, members)) == [sorted(inside) for _, _, inside, _, _ in expected]
        counters = window.counters
        names = {name: name for name in ("late", "outside", "absent")} | own_counters
        for name, simulated in names.items():
            assert counters[name] == sum(getattr(s, simulated) for s in scopes.values()), name
        assert (counters["rows"], counters["held"]) == (n, 0)
        if kind != "usual":  # absent rows do not complete extents
            assert window.needed_ids().size <= (counters["absent"] if kind == "corrected" else 0)


@every_kind
@pytest.mark.parametrize("seed", seeds(12, 3))
def test_results_are_those_of_the_possible_worlds(seed, kind):
    rng = np.random.default_rng(100 + seed)
    make, draw, _ = KINDS[kind]
    shares = (0.25, 0.5, 0.875)
    for length, slide in LENGTHS:
        n = int(rng.integers(5, 28))
        data = stream(rng, n, 2, bool(seed % 2), spread=100)
        certain = float(rng.choice([0.0, 0.5, 1.0]))
        level = float(rng.choice([0.0, 1e6])) if kind == "usual" else 0.0
        rows = draw(rng, data, 3, most=2, certain=certain, level=level)
        expected, _ = rows.simulate(length, slide, [True] * n)
        window = make(length, slide, ALL, quantiles=shares, distribution=4)
        _, parts = rows.process(window, rng)
        check_against_worlds(parts, expected, data[2], rows.tuples, shares, rows.outcomes())


@pytest.mark.parametrize("kind", ["corrected", "shared"])
def test_rows_with_ids_of_their_own_have_the_usual_extents(kind):
    rng = np.random.default_rng(3)
    n = 90
    data = stream(rng, n, 3, False, spread=180)
    ids = np.where(rng.random(n) < 0.3, -1, np.arange(n))
    given = {"shared": ids} if kind == "shared" else {"versions": (ids, np.zeros(n, int))}
    usual = Rows(data, random_tuples(rng, n, 2))
    identified = Rows(data, usual.tuples, given)
    for length, slide in LENGTHS:
        options = {"empty": True, "quantiles": (0.5,)}
        _, expected = usual.process(ExtentAggregate(length, slide, ALL, **options), rng, False)
        _, found = identified.process(KINDS[kind][0](length, slide, ALL, **options), rng)
        check_equal(found, expected, 1e-7 if kind == "shared" else 1e-9)


def test_arguments_may_change_after_the_call():
    times, prob, values = np.array([1, 2]), np.array([0.5, 1.0]), np.array([[3.0], [4.0]])
    window = ExtentAggregate(10, 10, [Aggregate("sum", 0)])
    window.process(np.zeros(2, int), times, None, None, np.arange(3), prob, values)
    for array in (times, prob, values):
        array[:] = 9
    assert window.flush().results[0].mean.tolist() == [5.5]


def test_state_is_bounded_by_one_range_and_one_pane():
    rng = np.random.default_rng(9)
    n, length, slide = 30_000, 1000, 100
    times = np.sort(rng.integers(0, n, n))
    window = ExtentAggregate(length, slide, [Aggregate("avg", 0), Aggregate("max", 0)])
    largest = most = 0
    for low in range(0, n, 700):
        part = times[low : low + 700]
        e, x = rng.random(part.size), rng.normal(0, 1, (part.size, 1))
        window.process(np.zeros(part.size, int), part, None, None, np.arange(part.size + 1), e, x)
        largest = max(largest, len(window.snapshot()))
        most = max(most, window.counters["held"])
    assert most <= 1.15 * (length + slide)  # one tuple per microsecond on average
    assert largest <= 56 * most + 4000  # 4 fields, an offset, a probability and a value each
    assert window.nbytes < 1_200_000


def test_far_and_early_rows_are_refused_and_others_do_not_allocate_the_span_between():
    window = ExtentAggregate(10, 10, COUNT)
    with pytest.raises(ValueError, match="`event_time` must lie within"):
        feed(window, [2**61])
    feed(window, [-(2**60), 2**60])
    assert window.flush().held.tolist() == [1]
    assert window.nbytes < 10_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 10, COUNT), "`length` must be"),
        ((10, 1.5, COUNT), "`slide` must be"),
        ((10, 10, []), "`aggregates` must name at least one"),
    ],
)
def test_arguments_out_of_range_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        ExtentAggregate(*arguments)


def test_wrong_arrays_are_refused_and_change_nothing():
    window = ExtentAggregate(10, 10, [Aggregate("sum", 0)], members=True)
    good = {
        "group": np.zeros(1, int), "event_time": np.array([3]), "punctuation": None, "late": None,
        "offsets": np.array([0, 1]), "prob": np.ones(1), "values": np.ones((1, 1)),
    }  # fmt: skip
    bad = [
        ({"group": np.zeros(1)}, TypeError, "`group` must be an array of int64"),
        ({"prob": np.array([1.5])}, ValueError, "`prob` must have probabilities"),
        ({"prob": np.array([np.nan])}, ValueError, "`prob` must have probabilities"),
        ({"values": np.ones((1, 0))}, ValueError, "`values` must have one row"),
        ({"values": np.full((1, 1), -np.inf)}, ValueError, "`values` must be within"),
        ({"values": np.full((1, 1), 1e200)}, ValueError, "`values` must be within"),
        ({"offsets": np.array([0, 2])}, ValueError, "`prob` must have 2 entries"),
        ({"punctuation": np.zeros(2, int)}, ValueError, "`punctuation` must have 1 entries"),
    ]
    for change, error, message in bad:
        with pytest.raises(error, match=message):
            window.process(**{**good, **change})
    assert window.counters["rows"] == 0
    window.process(**good)
    with pytest.raises(SnapshotError):
        ExtentAggregate.restore(b"nothing")


def test_a_group_that_holds_nothing_is_as_one_that_never_had_a_tuple(monkeypatch):
    monkeypatch.setattr(discrete_distributions, "MAX_WORK", 0.0)  # quantiles are sampled
    rng = np.random.default_rng(3)
    times, probs = np.sort(rng.integers(0, 20, 14)), rng.uniform(0.2, 0.9, (2, 14))
    values = rng.normal(0, 1, (2, 14))

    def found(parts):
        window = ExtentAggregate(20, 10, [Aggregate("quantile", 0, 0.5)], seed=5, samples=30)
        out = []
        for shift, which in parts:
            arrays = (np.arange(15), probs[which], values[which][:, None])
            out.append(window.process(np.zeros(14, int), times + shift, None, None, *arrays))
        out.append(window.flush())
        assert not np.isnan(out[-1].results[0].error).any()
        return [value for part in out for value in part.results[0].mean.tolist()]

    assert found([(0, 0), (1000, 1)])[-3:] == found([(1000, 1)])
