"""U-Topk for tuples with alternatives, and the order of equally probable tuples."""

from itertools import permutations

import numpy as np
import pytest

import sfumato as sf
from sfumato.operators.ranking.ranked_items import checked_items
from sfumato.operators.ranking.semantics import Semantics, TooManyVectorsError
from sfumato.operators.ranking.top_k_windows import TopKWindows


@pytest.mark.parametrize("n", [3, 4, 10, 50])
def test_u_topk_does_not_depend_on_how_many_alternatives_stand_for_a_value(n):
    """A tuple whose alternatives are split into n equal parts has the same vectors."""
    base = [[(0.6, 9.0), (0.4, 2.0)], [(0.9, 5.0)], [(0.5, 7.0), (0.3, 1.0)]]
    split = [[(p / n, s) for p, s in alternatives for _ in range(n)] for alternatives in base]
    for k in (1, 2, 3):
        answers = []
        for tuples in (base, split):
            owner = np.repeat(np.arange(3), [len(t) for t in tuples])
            prob, score = zip(*(pair for t in tuples for pair in t), strict=True)
            answers.append(sf.engine_free.u_topk(score, prob, tuples=owner, k=k))
        assert answers[0].indices.tolist() == answers[1].indices.tolist()
        assert answers[0].probability == pytest.approx(answers[1].probability, abs=1e-12)


def test_a_search_that_finds_no_vector_says_what_to_write():
    rng = np.random.default_rng(0)
    owner = np.repeat(np.arange(40), 10)
    with pytest.raises(TooManyVectorsError, match='Write semantics="pk_topk" or "u_kranks"'):
        sf.engine_free.u_topk(rng.normal(size=400), np.full(400, 0.1), tuples=owner, k=12)


ALL = [
    Semantics("pk_topk"),
    Semantics("pt_k", probability=1.0),
    Semantics("u_topk"),
    Semantics("prf", weights=(1.0, 1.0, 1.0, 1.0)),
]


def spread(mean, width, n, rng):
    """Return n equally probable scores around a mean, in random order."""
    return rng.permutation(mean + width * (np.arange(n) - (n - 1) / 2))


@pytest.mark.parametrize("semantics", ALL, ids=lambda s: s.name)
@pytest.mark.parametrize("n", [1, 3, 7, 20])
def test_at_most_k_certain_tuples_rank_by_expected_score(semantics, n):
    rng = np.random.default_rng(n)
    means, widths = [62.1, 60.0, 61.8], [0.01, 0.5 if n > 1 else 0.0, 0.05]
    for order in permutations(range(3)):
        for ascending in (False, True):
            scores = [spread(means[i], widths[i], n, rng) for i in order]
            items = checked_items(
                np.concatenate(scores), np.full(3 * n, 1 / n), None, np.repeat(range(3), n),
                ascending=ascending,
            )  # fmt: skip
            if semantics.name == "u_topk" and n > 1:
                continue  # a vector defines the order
            found = semantics.rank(items, np.array([3, 4]))
            by_mean = sorted(range(3), key=lambda place: means[order[place]], reverse=not ascending)
            assert found.tuples.tolist() == [*by_mean, *by_mean]
            if semantics.name in ("pk_topk", "pt_k"):
                assert found.value.tolist() == [1.0] * 6


def test_equal_probabilities_tie_even_if_they_are_sums():
    """0.1 + 0.2 ties with 0.3, as do thirds in any order: expected score, then arrival, decides."""
    scores = [1.0, 1.0, 9.0, 3.0, 3.0, 3.0]
    prob = [0.1, 0.2, 0.3, 0.1, 0.1, 0.1]
    owner = [0, 0, 1, 2, 2, 2]
    items = checked_items(scores, prob, None, owner)
    assert Semantics("pk_topk").rank(items, np.array([3])).tuples.tolist() == [1, 2, 0]
    items = checked_items(scores, prob, None, owner, ascending=True)
    assert Semantics("pk_topk").rank(items, np.array([3])).tuples.tolist() == [0, 2, 1]


@pytest.mark.parametrize("ascending", [False, True])
def test_windows_ranked_together_order_ties_as_one_window_does(ascending):
    rng = np.random.default_rng(1)
    for n in (1, 4, 20):
        score = np.concatenate([spread(m, 0.3, n, rng) for m in rng.permutation(6)])
        given = {"scores": score, "prob": np.full(6 * n, 1 / n), "offsets": n * np.arange(7)}
        found = []
        for plain in (True, False):
            window = TopKWindows(
                {"all": (8, 10)}, length=100, start=0, ascending=ascending,
                semantics="pk_topk" if plain else Semantics("prf", weights=(1.0,) * 8),
            )  # fmt: skip
            window.extend(range(6), **given)
            found.append(window.advance(10).id.tolist())
        means = score.reshape(6, n).mean(axis=1)
        assert found[0] == found[1]
        assert found[0] == np.argsort(means if ascending else -means).tolist()
