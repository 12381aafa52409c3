"""Found dependencies hold as stated, and dependencies that hold are found."""

from itertools import combinations, permutations

import numpy as np
import pytest

from sfumato.operators.imputation.dependency import Dependency
from sfumato.operators.imputation.discovery import NothingDiscovered, discover_dependencies
from sfumato.operators.imputation.imputer import Imputer


def related(n=150, seed=0):
    """Return columns in which c follows from a and b together, d from a alone, e from nothing."""
    rng = np.random.default_rng(seed)
    a, b, e = rng.random((3, n))
    return {"a": a, "b": b, "c": (a + b) / 2, "d": a**2, "e": e}


def pairs_by_definition(repository, dependency):
    """Return (number of pairs, differences of the dependent for pairs near on all determinants)."""
    scaled = {
        name: (column - column.min()) / (column.max() - column.min())
        for name, column in repository.items()
    }
    count, differences = 0, []
    for s, t in combinations(range(len(scaled["a"])), 2):
        count += 1
        if all(abs(scaled[x][s] - scaled[x][t]) <= e for x, e in dependency.determinants):
            differences.append(
                abs(scaled[dependency.dependent][s] - scaled[dependency.dependent][t])
            )
    return count, differences


def test_what_is_said_of_a_dependency_is_true_of_all_pairs():
    repository = related()
    found = discover_dependencies(repository, confidence=0.9)
    assert found
    for dependency in found:
        count, differences = pairs_by_definition(repository, dependency)
        inside = sum(x <= dependency.epsilon for x in differences)
        assert dependency.support == pytest.approx(len(differences) / count)
        assert dependency.confidence == pytest.approx(inside / len(differences))
        assert dependency.confidence >= 0.9
        assert dependency.spread == pytest.approx(max(differences))
        assert dependency.epsilon <= 0.1


def test_relations_are_found_and_nothing_else():
    found = discover_dependencies(related(), confidence=0.95)
    sets = {(dependency.names, dependency.dependent) for dependency in found}
    assert (("a", "b"), "c") in sets
    assert (("a",), "d") in sets
    assert (("d",), "a") in sets
    assert not any(dependent == "e" for _, dependent in sets)
    assert not any(names == ("e",) for names, _ in sets)


def test_each_epsilon_is_taken_unless_another_dependency_promises_as_much():
    found = discover_dependencies(related(), dependents=["d"], epsilons=[0.02, 0.01, 0.04])
    alone = [d for d in found if d.names == ("a",)]
    assert [dict(d.determinants)["a"] for d in alone] == [0.01, 0.02, 0.04]
    assert alone[0].epsilon < alone[1].epsilon < alone[2].epsilon
    for one, other in permutations(found, 2):
        bounds = dict(other.determinants)
        promised = all(e >= bounds.get(name, np.inf) for name, e in one.determinants)
        assert not (promised and one.epsilon <= other.epsilon)


def test_too_few_donors_rule_a_dependency_out():
    with pytest.warns(NothingDiscovered, match="`a`: too few pairs of rows are close"):
        assert discover_dependencies(related(), least_donors=200.0) == []
    assert discover_dependencies({"a": [1.0], "b": [2.0]}) == []


def test_a_search_that_finds_nothing_names_what_came_nearest():
    repository = related()
    with pytest.warns(NothingDiscovered) as told:
        found = discover_dependencies(repository, dependents=["d", "e"], epsilons=[0.05, 0.2])
    assert {dependency.dependent for dependency in found} == {"d"}
    words = str(told[0].message)
    assert "`e`: the closest candidate is within 0.05 on" in words
    assert "`d`" not in words
    nearest = words.partition("`e`: ")[2]
    names = nearest.partition(" on ")[2].partition(" (")[0].split(", ")
    share, pairs = nearest.partition(" (")[2].partition("% of ")[::2]
    near = Dependency(tuple((name, 0.05) for name in names), "e", 0.1)
    _, differences = pairs_by_definition(repository, near)
    inside = sum(x <= 0.1 for x in differences)
    assert float(share.split()[-1]) == pytest.approx(100 * inside / len(differences), abs=0.051)
    assert int(pairs.split()[0]) == len(differences)


def test_a_search_that_finds_something_for_all_is_silent(recwarn):
    assert discover_dependencies(related(), dependents=["c", "d"])
    assert not recwarn.list


def test_a_dependency_is_shown_without_numpys_types():
    found = discover_dependencies(related())
    assert found
    assert "np." not in repr(found)


def test_a_sample_is_drawn_by_its_seed():
    repository = related(500)
    one = discover_dependencies(repository, sample=100, seed=1)
    assert one == discover_dependencies(repository, sample=100, seed=1)
    assert [d.support for d in one] != [
        d.support for d in discover_dependencies(repository, sample=100, seed=2)
    ]


def test_what_is_found_serves_to_impute():
    repository = related(800)
    found = discover_dependencies(repository)
    imputer = Imputer(repository, found)
    objects = {name: column[:50].copy() for name, column in related(50, seed=9).items()}
    truth = objects["c"].copy()
    objects["c"][:] = np.nan
    done = imputer.impute(objects)
    place = imputer.attributes.index("c")
    means = np.add.reduceat(done.prob * done.values[:, place], done.offsets[:-1])
    assert np.abs(means - truth).max() < 0.1
    assert all(isinstance(dependency, Dependency) for dependency in found)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dependents": ["z"]}, "`dependents` must be columns"),
        ({"within": 0.0}, "`within` must be a positive"),
        ({"confidence": 0.0}, "`confidence` must be a share"),
        ({"epsilons": []}, "`epsilons` must be a list of finite"),
        ({"max_determinants": 0}, "`max_determinants` must be"),
    ],
)
def test_wrong_arguments_are_named(change, message):
    with pytest.raises(ValueError, match=message):
        discover_dependencies({"a": [1.0, 2.0], "b": [1.0, 2.0]}, **change)


def test_a_bound_is_rounded_up_from_what_it_is_on_paper():
    a = np.round(np.tile(np.arange(0.0, 1.01, 0.1), 12), 1)
    rows = {"a": a, "b": np.round(0.7 * a, 2)}  # neighbours differ by only .07
    scaling = {"a": (0.0, 1.0), "b": (0.0, 1.0)}
    found = discover_dependencies(
        rows, epsilons=(0.1,), dependents=["b"], scaling=scaling, confidence=1.0
    )
    assert [str(dependency) for dependency in found] == ["a -> b : 0.1 -> 0.07"]
    assert found[0].confidence == 1.0
