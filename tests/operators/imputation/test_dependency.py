"""The text form of a dependency: parsing, printing, and errors for wrong text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.operators.imputation.dependency import Dependency, DependencyError, as_dependencies

names = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=8)
bounds = st.floats(0, 1e300, allow_nan=False)


@given(st.lists(st.tuples(names, bounds), min_size=2, max_size=5, unique_by=lambda p: p[0]))
def test_a_dependency_is_read_again_from_its_text(pairs):
    *determinants, (dependent, epsilon) = pairs
    written = Dependency(tuple(determinants), dependent, epsilon)
    assert Dependency.parse(str(written)) == written


def test_the_text_is_as_in_the_documents():
    dependency = Dependency.parse("A,B -> C : 0.05, 0.1 -> 0.2")
    assert dependency == Dependency((("A", 0.05), ("B", 0.1)), "C", 0.2)
    assert str(dependency) == "A, B -> C : 0.05, 0.1 -> 0.2"
    assert dependency.names == ("A", "B")


def test_determinants_have_no_order_and_knowledge_is_not_compared():
    one = Dependency((("A", 1), ("B", 2)), "C", 3, confidence=0.5)
    other = Dependency((("B", 2), ("A", 1)), "C", 3)
    assert one == other
    assert len({one, other}) == 1
    assert one != Dependency((("A", 1), ("B", 2)), "C", 4)


@pytest.mark.parametrize(
    ("text", "position", "expected"),
    [
        ("", 0, "name of an attribute"),
        ("A B C : 1 -> 2", 6, "`->` after a determinant"),
        ("A, -> C : 1 -> 2", 3, "name of an attribute"),
        ("A -> : 1 -> 2", 5, "name of an attribute"),
        ("A -> C 1 -> 2", 9, "`:` after the dependent"),
        ("A,B -> C : 1 -> 2", 11, "expected 2 epsilons"),
        ("A -> C : x -> 2", 9, "expected an epsilon"),
        ("A -> C : -1 -> 2", 9, "expected an epsilon"),
        ("A -> C : 1 -> inf", 14, "expected an epsilon"),
        ("A -> C : 1", 10, "`->` after an epsilon"),
        ("A -> C : 1 ->", 13, "expected an epsilon"),
        ("A -> C : 1 -> 2 rest", 16, "the end"),
        ("A -> A : 1 -> 2", 0, "must not name an attribute twice"),
        ("A,A -> B : 1,1 -> 2", 0, "must not name an attribute twice"),
        ("`A -> B : 1 -> 2", 0, "name of an attribute"),
    ],
)
def test_a_wrong_text_is_told_with_its_place(text, position, expected):
    with pytest.raises(DependencyError, match=expected) as caught:
        Dependency.parse(text)
    assert caught.value.position == position
    assert str(caught.value).endswith(f"{text}\n  {' ' * position}^")


def test_two_dependencies_in_a_text_are_marked_where_the_second_begins():
    with pytest.raises(DependencyError, match=r"\(pass several dependencies as a list\)") as caught:
        Dependency.parse("A -> B : 1 -> 2\nB -> C : 1 -> 2")
    *_, text, mark = str(caught.value).splitlines()
    assert text[mark.index("^") :] == "B -> C : 1 -> 2"


@pytest.mark.parametrize("epsilon", [-1, float("nan"), float("inf"), "near"])
def test_an_epsilon_is_finite_and_not_negative(epsilon):
    with pytest.raises(ValueError, match="epsilon of `A`"):
        Dependency((("A", epsilon),), "B", 1)
    with pytest.raises(ValueError, match="epsilon of `B`"):
        Dependency((("A", 1),), "B", epsilon)


def test_a_dependency_has_a_determinant_and_names():
    with pytest.raises(ValueError, match="at least one attribute"):
        Dependency((), "B", 1)
    with pytest.raises(ValueError, match="non-empty"):
        Dependency((("", 1),), "B", 1)


def test_texts_and_dependencies_may_be_mixed():
    dependency = Dependency.parse("A -> B : 1 -> 2")
    assert as_dependencies(["A -> B : 1 -> 2", dependency]) == [dependency, dependency]
    assert as_dependencies("A -> B : 1 -> 2") == [dependency]
    with pytest.raises(TypeError, match="must be a string"):
        as_dependencies([3])
