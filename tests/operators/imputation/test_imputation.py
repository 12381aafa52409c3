"""Imputed distributions equal the definition for any gaps, ties and edges."""

import inspect
from collections import Counter, defaultdict
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seeds import examples
from sfumato.kernels.imputation.dependency_choice import PRESENT
from sfumato.kernels.imputation.imputation import share_limits
from sfumato.kernels.imputation.repository import ATTRIBUTE_INFO
from sfumato.operators.imputation.dependency import Dependency
from sfumato.operators.imputation.imputer import IMPUTATION_REASONS, Imputer
from sfumato.operators.imputation.lattice import (
    build_lattice,
    combine,
    correlation_dimension,
    expected_donors,
)
from sfumato.operators.state.snapshot import SnapshotError
from worlds import worlds

NAMES = "abcdefghij"
WHOLE = (0.0, 1.0)  # a scaling that changes no value


def plain(*arguments, **options):
    """Return an imputer with the method of E, which the definition below describes."""
    return Imputer(*arguments, **{"method": "plain", **options})


# The definition, written plainly.


def on_paper(value):
    """Return the decimal number that a float stands for."""
    return Fraction(str(round(float(value), 9)))


def donors_of(repository, dependency, scaling, one):
    """Return rows near the object on every determinant, as decimals; None if one is missing."""
    rows = range(len(repository["a"]))
    for name, epsilon in dependency.determinants:
        if not np.isfinite(one[name]):
            return None
        span = Fraction(scaling[name][1]).limit_denominator(10**6)  # the span of one-digit decimals
        near = Fraction(str(epsilon)) * span
        mine, column = on_paper(one[name]), repository[name]
        rows = [s for s in rows if abs(on_paper(column[s]) - mine) <= near]
    return list(rows)


def impute_by_definition(imputer, repository, one):
    """Return ({values: probability}, reason) of one object; {} if it cannot be imputed."""
    chosen, lost = {}, []
    if any(np.isinf(one[name]) for name in imputer.attributes):
        return {}, "not finite"
    for name in imputer.attributes:
        if not np.isnan(one[name]):
            continue
        chosen[name], present = None, False
        for rule in imputer.combinations:
            if rule.dependency.dependent != name:
                continue
            found = donors_of(repository, rule.dependency, imputer.scaling, one)
            present |= found is not None
            if found is not None and len(found) >= imputer.least_donors:
                chosen[name] = found
                break
        if chosen[name] is None and imputer.fallback == "marginal":
            chosen[name] = list(range(len(repository["a"])))
        if chosen[name] is None:
            lost.append("no donors" if present else "no dependency with its determinants present")
    if lost:
        return {}, max(lost, key=IMPUTATION_REASONS.index)
    law = defaultdict(Fraction)
    together = set.intersection(*map(set, chosen.values())) if chosen else set()
    if imputer.joint and len(chosen) > 1 and together:
        draws = [({name: repository[name][s] for name in chosen}, Fraction(1, len(together)))
                 for s in together]  # fmt: skip
    else:
        laws = [
            [(Fraction(c, len(rows)), (name, v))
             for v, c in Counter(repository[name][s] for s in rows).items()]
            for name, rows in chosen.items()
        ]  # fmt: skip
        draws = [(dict(picked), p) for p, picked in worlds(laws)]
    for values, p in draws:
        law[tuple(float(values.get(name, one[name])) for name in imputer.attributes)] += p
    return law, "imputed" if chosen else "complete"


def random_case(data, most_rows=60, dimensions=10):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    d, n = data.draw(st.integers(2, dimensions)), data.draw(st.integers(1, most_rows))
    names = NAMES[:d]
    base = rng.random((n, 1))
    rows = np.round((base + rng.random((n, d))) / 2, 1)  # ties, and rows at the edges of boxes
    repository = dict(zip(names, rows.T.copy(), strict=True))
    dependencies = []
    for _ in range(data.draw(st.integers(0, 5))):
        size = int(rng.integers(1, min(3, d - 1) + 1))
        *x, y = rng.permutation(d)[: size + 1]
        bounds = rng.integers(0, 5, size) / 10
        pairs = tuple((names[a], float(e)) for a, e in zip(x, bounds, strict=True))
        dependencies.append(Dependency(pairs, names[y], 0.1))
    objects = rows[rng.integers(0, n, 6)] + rng.integers(-1, 2, (6, d)) / 10
    for row in objects:
        row[rng.permutation(d)[: rng.integers(0, min(3, d) + 1)]] = np.nan
    objects[rng.random(objects.shape) < 0.05] = rng.choice([-np.inf, np.inf])
    objects[-1] = np.nan
    if d > 3:
        objects[-1, 3:] = 0.5
    return repository, dependencies, objects


@given(st.data())
@examples(120)
def test_imputed_distributions_are_those_of_the_definition(data):
    repository, dependencies, objects = random_case(data)
    scaling = dict.fromkeys(repository, WHOLE) if data.draw(st.booleans()) else None
    names, kept = list(repository), data.draw(st.integers(1, len(repository)))
    names = names if data.draw(st.booleans()) else names[:kept]
    imputer = plain(
        repository,
        [each for each in dependencies if each.dependent in names],
        names,
        joint=data.draw(st.booleans()),
        fallback=data.draw(st.sampled_from(["marginal", "reject"])),
        least_donors=data.draw(st.integers(1, 3)),
        scaling=scaling,
    )
    before = objects.copy()
    done = imputer.impute(objects)
    np.testing.assert_array_equal(objects, before)
    for i, values in enumerate(objects):
        one = dict(zip(repository, values.tolist(), strict=True))
        law, reason = impute_by_definition(imputer, repository, one)
        part = slice(done.offsets[i], done.offsets[i + 1])
        got = [tuple(row) for row in done.values[part].tolist()]
        assert len(set(got)) == len(got)
        assert set(got) == set(law)
        for row, p in zip(got, done.prob[part].tolist(), strict=True):
            assert abs(Fraction(p) - law[row]) <= 1e-12
        assert IMPUTATION_REASONS[done.reason[i]] == reason
        known = ~np.isnan(values[: len(names)])
        assert reason == "not finite" or (done.rules_used[i] == PRESENT).tolist() == known.tolist()
    assert sum(done.counts.values()) == len(objects)


@given(st.data())
@examples(25)
def test_an_object_is_imputed_the_same_in_any_batch_and_after_saving(data):
    repository, dependencies, objects = random_case(data, dimensions=5)
    method = data.draw(st.sampled_from(["plain", "calibrated"]))
    imputer = Imputer(
        repository, dependencies, joint=data.draw(st.booleans()), max_alternatives=7, method=method
    )
    again = Imputer.from_bytes(imputer.to_bytes())
    assert again.combinations == imputer.combinations
    assert again.scaling == imputer.scaling
    whole = imputer.impute(objects)
    for i in range(len(objects)):
        one = again.impute(objects[i : i + 1])
        part = slice(whole.offsets[i], whole.offsets[i + 1])
        np.testing.assert_array_equal(one.values, whole.values[part])
        np.testing.assert_array_equal(one.prob, whole.prob[part])
        for field in ("rules_used", "reason", "donors", "spread", "beyond", "error", "joint"):
            np.testing.assert_array_equal(getattr(one, field)[0], getattr(whole, field)[i])


# The chosen rule, and what is reported about it.

REPOSITORY = {
    "a": [0.0, 0.1, 0.2, 1.0],
    "b": [0.0, 0.5, 0.5, 1.0],
    "c": [1.0, 2.0, 2.0, 5.0],
}


@pytest.mark.parametrize("epsilon", [0.1, 0.2, 0.3, 0.7])
def test_rows_at_just_epsilon_are_donors_on_both_sides_and_those_beyond_are_not(epsilon):
    steps = np.round(np.arange(0.0, 3.0, 0.1), 1)  # in float64, 0.4 - 0.3 > 0.1 and 0.3 - 0.2 < 0.1
    for shift, span in ((0.0, 1.0), (-7.3, 1.0), (1.7, 10.0)):
        a = np.round(steps * span + shift, 12)
        imputer = plain(
            {"a": a, "b": np.arange(a.size)}, [f"a -> b : {epsilon} -> 1"], "b",
            scaling={"a": (shift, span)},
        )  # fmt: skip
        done = imputer.impute(np.column_stack([a, np.full(a.size, np.nan)]))
        k = round(epsilon * 10)
        near = [min(i + k, a.size - 1) - max(i - k, 0) + 1 for i in range(a.size)]
        assert done.donors[:, 0].tolist() == near


def test_donors_too_far_apart_for_the_epsilon_are_reported():
    imputer = plain(REPOSITORY, ["a -> c : 0.2 -> 0.1"])  # 1 ... 2 in an extent of 4
    done = imputer.impute([[0.0, 0.0, np.nan], [0.2, 0.0, np.nan], [1.0, 0.0, np.nan]])
    assert done.beyond[:, 2].tolist() == [True, True, False]
    assert not done.beyond[:, :2].any()


# Fewer alternatives.


def merged_by_definition(points, weight, most, span):
    """Return groups of points: the widest group is halved until there are `most` groups."""
    groups = [list(range(len(points)))]

    def extent(group):
        widths = [
            (max(points[i][a] for i in group) - min(points[i][a] for i in group)) / s
            for a, s in enumerate(span)
        ]
        return max(widths), -widths.index(max(widths))

    while len(groups) < min(most, len(points)):
        place = max(range(len(groups)), key=lambda g: (extent(groups[g])[0], -g))
        group = groups[place]
        axis = -extent(group)[1]
        low, high = min(points[i][axis] for i in group), max(points[i][axis] for i in group)
        middle = low + (high - low) * 0.5
        left = [i for i in group if points[i][axis] <= middle and points[i][axis] < high]
        groups[place : place + 1] = [left, [i for i in group if i not in left]]
    result = []
    for group in groups:
        total = sum(weight[i] for i in group)
        mean = [sum(weight[i] * points[i][a] for i in group) / total for a in range(len(span))]
        result.append((mean, total, group))
    return result


@given(st.data())
@examples(60)
def test_near_values_are_merged_with_their_probabilities(data):
    seed, most = data.draw(st.integers(0, 2**32 - 1)), data.draw(st.integers(1, 12))
    rng = np.random.default_rng(seed)
    rows = np.round(rng.random((40, 3)) ** 3, 2) * [1.0, 10.0, 100.0]
    names, joint = ["a", "b", "c"], data.draw(st.booleans())
    objects = np.array([[0.5, np.nan, np.nan if joint else 3.0]])
    exact = plain(rows, [], names=names, joint=joint).impute(objects)
    imputer = plain(rows, [], names=names, joint=joint, max_alternatives=most)
    done = imputer.impute(objects)
    axes = [1, 2] if joint else [1]
    span = [imputer.scaling[names[a]][1] for a in axes]
    points, weight = exact.values[:, axes].tolist(), exact.prob.tolist()
    expected = merged_by_definition(points, weight, most, span)
    np.testing.assert_allclose(done.values[:, axes], [e[0] for e in expected], rtol=1e-12)
    np.testing.assert_allclose(done.prob, [e[1] for e in expected], atol=1e-12)
    moved = [
        max(abs(points[i][k] - mean[k]) for mean, _, group in expected for i in group)
        for k in range(len(axes))
    ]
    np.testing.assert_allclose(done.error[0, axes], moved, rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(done.prob @ done.values, exact.prob @ exact.values, rtol=1e-12)


@given(st.data())
def test_independent_attributes_share_the_alternatives_they_may_have(data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    most = data.draw(st.integers(1, 100))
    rows = rng.random((30, 4))
    rows[:, 0] = rng.integers(0, 2, 30)
    imputer = plain(rows, [], names="abcd", max_alternatives=most)
    objects = np.full((2, 4), np.nan)
    objects[1, 3] = 0.0
    done = imputer.impute(objects)
    assert (np.diff(done.offsets) <= most).all()
    for i in range(2):
        assert done.prob[done.offsets[i] : done.offsets[i + 1]].sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize(
    ("sizes", "missing", "most", "limits"),
    [
        ([2, 50, 50], [True, True, True], 50, [2, 5, 5]),
        ([2, 50, 50], [False, True, True], 60, [0, 7, 8]),
        ([2, 3, 3], [True, True, True], 2**62, [2, 3, 3]),
    ],
)
def test_small_attributes_keep_all_their_values(sizes, missing, most, limits):
    about = np.zeros(3, ATTRIBUTE_INFO)
    about["size"] = sizes
    share_limits(about, np.array(missing), most)
    assert about["limit"].tolist() == limits


def test_a_product_beyond_all_bounds_is_merged_and_says_so():
    rows = np.random.default_rng(0).random((2000, 3))
    imputer = plain(rows, [], names="abc", max_alternatives=100_000)
    done = imputer.impute([[np.nan, np.nan, 0.0], [np.nan, 0.0, 0.0]])
    assert np.diff(done.offsets).tolist() == [256 * 256, 2000]
    assert (done.error[0, :2] > 0).all()
    assert not done.error[1].any()


# Lattices and the cost model.


def test_combining_takes_all_determinants_and_the_smaller_epsilons():
    combined = combine(
        [
            Dependency.parse("a, b -> c : 0.1, 0.2 -> 0.3"),
            Dependency.parse("b, d -> c : 0.1, 1 -> 1"),
        ]
    )
    assert str(combined) == "a, b, d -> c : 0.1, 0.1, 1 -> 0.3"
    with pytest.raises(ValueError, match="the same dependent"):
        combine([Dependency.parse("a -> b : 1 -> 1"), Dependency.parse("a -> c : 1 -> 1")])


def test_levels_go_down_and_within_them_likely_rules_go_first():
    texts = ["a -> z : 1 -> 1", "b -> z : 1 -> 1", "c -> z : 1 -> 1"]
    donors = {"a": 5.0, "b": 0.5, "c": 3.0, "a,b": 0.2, "a,c": 2.0, "b,c": 0.7, "a,b,c": 9.0}
    combinations, left_out = build_lattice(
        [Dependency.parse(text) for text in texts], lambda d: donors[",".join(d.names)], 100
    )
    order = [",".join(rule.dependency.names) for rule in combinations]
    assert order == ["a,b,c", "a,c", "b,c", "a,b", "c", "a", "b"]
    assert left_out == 0


def test_a_lattice_over_its_cap_keeps_the_top_and_the_single_rules_and_says_what_it_left_out():
    texts = [f"{name} -> z : 1 -> 1" for name in "abcdefgh"]
    dependencies = [Dependency.parse(text) for text in texts]
    combinations, left_out = build_lattice(dependencies, lambda d: 1.0 + (d.names[0] == "b"), 20)
    assert len(combinations) == 20
    assert [len(r.parts) for r in combinations] == [8] + [7] * 8 + [6] * 3 + [1] * 8
    assert left_out == 2**8 - 1 - 20
    tiny, _ = build_lattice(dependencies, lambda d: 1.0, 8)
    assert [len(r.parts) for r in tiny] == [1] * 8


def test_a_combination_that_asks_the_same_is_tried_once():
    texts = ["a -> z : 0.1 -> 1", "a -> z : 0.2 -> 1"]
    combinations, _ = build_lattice([Dependency.parse(text) for text in texts], lambda d: 1.0, 100)
    assert str(combinations[0].dependency) == "a -> z : 0.1 -> 1"
    assert (len(combinations[0].parts), combinations[0].expected) == (2, 1.0)
    assert len(combinations) == 2


def test_the_correlation_dimension_is_that_of_the_set():
    rng = np.random.default_rng(0)
    line = np.repeat(rng.random((20_000, 1)), 3, axis=1)
    assert correlation_dimension(line) == pytest.approx(1.0, abs=0.1)
    assert correlation_dimension(rng.random((20_000, 2))) == pytest.approx(2.0, abs=0.15)
    assert correlation_dimension(np.zeros((10, 2))) == 0.0
    assert correlation_dimension(np.zeros((1, 2))) == 0.0


def test_expected_donors_are_near_the_true_number_for_uniform_rows():
    rng = np.random.default_rng(1)
    points = rng.random((20_000, 2))
    dependency = Dependency.parse("a, b -> c : 0.02, 0.05 -> 1")
    near = np.abs(points[:300, None] - points[None]) <= [0.02, 0.05]
    true = near.all(axis=2).sum(axis=1).mean()
    assert expected_donors(dependency, 20_000, correlation_dimension(points)) == pytest.approx(
        true, rel=0.5
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dependencies": ["a -> z : 1 -> 1"]}, "dependent must be one of"),
        ({"dependencies": ["z -> c : 1 -> 1"]}, "determinants must be columns"),
        ({"attributes": ["c", "c"]}, "`attributes` must be one or more different columns"),
        ({"attributes": []}, "`attributes` must be one or more different columns"),
        ({"joint": 1}, "`joint` must be True or False"),
        ({"max_alternatives": 0}, "`max_alternatives` must be an integer"),
        ({"fallback": "mean"}, "`fallback` must be one of marginal, reject"),
        ({"scaling": {"a": (0.0, 0.0)}}, "`scaling` of `a`"),
        ({"scaling": {"z": (0.0, 1.0)}}, "`scaling` names"),
        ({"least_donors": 0}, "`least_donors` must be"),
        ({"repository": {"a": [1.0], "c": [np.nan]}}, "only complete rows"),
        ({"repository": {"a": [1.0], "c": [1.0, 2.0]}}, "columns of the same length"),
        ({"repository": [[1.0, 2.0]]}, "needs `names` for its columns"),
    ],
)
def test_wrong_arguments_are_named(change, message):
    given = {"repository": REPOSITORY, "dependencies": ["a -> c : 1 -> 1"], **change}
    with pytest.raises(ValueError, match=message):
        plain(**given)


def test_wrong_values_and_bytes_are_named():
    imputer = plain(REPOSITORY, [])
    with pytest.raises(ValueError, match=r"`values` must have shape \(n, 3\)"):
        imputer.impute([[1.0]])
    with pytest.raises(ValueError, match="`values` must have all of"):
        imputer.impute({"a": [1.0]})
    with pytest.raises(SnapshotError):
        Imputer.from_bytes(imputer.to_bytes()[:-1])


def test_help_lists_every_argument():
    given = {"joint", "max_alternatives", "fallback", "method", "least_donors"}
    assert given < set(inspect.signature(Imputer).parameters)
