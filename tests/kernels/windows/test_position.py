"""T_j, the probability of being among the w newest existing tuples, against a plain recursion."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sfumato.kernels.windows.count.count_boundary import inside_probabilities
from window_reference import count_law

PROBABILITIES = st.sampled_from([0.0, 1.0, 0.5, 0.25, 1e-12, 0.3, 0.95]) | st.floats(0.0, 1.0)


def ask(existence, first, last, rows):
    integers = (np.asarray(values, dtype=np.int64) for values in (first, last))
    return inside_probabilities(np.asarray(existence, dtype=np.float64), *integers, rows)


@given(
    st.lists(PROBABILITIES, min_size=1, max_size=60),
    st.integers(1, 30),
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=25),
    st.sampled_from(["as they come", "rising", "falling", "same newest"]),
)
def test_positions_are_those_of_the_recursion_in_any_order(existence, rows, ranges, order):
    n = len(existence)
    ranges = [(min(a, b, n), min(max(a, b), n)) for a, b in ranges]
    if order == "same newest":
        ranges = [(a, n) for a, _ in ranges]
    elif order != "as they come":
        ranges.sort(key=lambda r: (r[1], r[0]), reverse=order == "falling")
    got = ask(existence, [a for a, _ in ranges], [b for _, b in ranges], rows)
    expected = [count_law(existence[a:b], rows)[:rows].sum() for a, b in ranges]
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-14)
    assert (got <= 1.0).all()


def test_thousands_of_tuples_stay_within_the_stated_error():
    existence = np.random.default_rng(4).random(1000)
    first = np.arange(0, 1001, 50)
    got = ask(existence, first, np.full(first.size, 1000), 400)
    expected = [count_law(existence[i:], 400)[:400].sum() for i in first]
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-13)
