"""Top-k answers against the definition: all possible worlds, and a plain recursion per tuple."""

from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seeds import examples
from sfumato import engine_free
from sfumato.operators.ranking.top_k import pk_topk, prfe, rank_probabilities
from worlds import worlds

ERROR = 1e-12

# Tables 1-3 of D; R2 and R3 exclude each other, as do R5 and R6.
SPEED = [80, 65, 45, 30, 50, 25]
CHANCE = [0.3, 0.4, 0.5, 1.0, 0.8, 0.2]
RULES = [-1, 2, 2, -1, 5, 5]
TOP_2 = [0.3, 0.4, 0.38, 0.202, 0.704, 0.014]
TOP_3 = [0.3, 0.4, 0.5, 0.784, 0.8, 0.146]  # D prints .173 for R6, but its own worlds sum to .146


class Case:
    """Items in rules, in exact fractions, and all their possible worlds."""

    def __init__(self, groups, owners, scores, descending=True):
        """groups : lists of items that exclude each other; owners : every item's tuple."""
        self.groups, self.owners, self.scores = groups, owners, scores
        self.prob = {item: p for group in groups for item, p in group}
        self.size, self.tuples = len(scores), max(owners, default=-1) + 1
        self.descending, sign = descending, -1 if descending else 1
        self.key = lambda item: (sign * scores[item], item)
        self.rule = np.full(self.size, -1)
        for number, group in enumerate(groups):
            for item, _ in group:
                self.rule[item] = number

    def worlds(self):
        """Yield (existing items in rank order, probability) for every world."""
        for chance, there in worlds([[(p, i) for i, p in group] for group in self.groups]):
            yield sorted(there, key=self.key), chance

    def arguments(self):
        prob = [float(self.prob[i]) for i in range(self.size)]
        return {
            "scores": self.scores,
            "prob": prob,
            "exclusive": self.rule,
            "tuples": self.owners,
            "ascending": not self.descending,
        }


@st.composite
def cases(draw):
    """Draw up to 7 items, with rules of any mass up to 1, tuples with alternatives, and ties."""
    sizes = draw(st.lists(st.integers(1, 4), max_size=4).filter(lambda sizes: sum(sizes) <= 7))
    items = iter(draw(st.permutations(range(sum(sizes)))))
    owners, groups, tuples = [0] * sum(sizes), [], 0
    for size in sizes:
        weights = draw(st.lists(st.integers(1, 9), min_size=size, max_size=size))
        total = sum(weights) + draw(st.sampled_from([0, 0, 1, 5, 50]))
        groups.append([(next(items), Fraction(weight, total)) for weight in weights])
        for place, (item, _) in enumerate(groups[-1]):
            tuples += place == 0 or draw(st.booleans())
            owners[item] = tuples - 1
    scores = draw(st.lists(st.integers(0, 5), min_size=len(owners), max_size=len(owners)))
    return Case(groups, owners, scores, draw(st.booleans()))


def close(got, exact):
    got, exact = np.array(got, dtype=float), np.array(exact, dtype=float)
    np.testing.assert_allclose(got, exact, rtol=0, atol=ERROR)


def ranks_by_worlds(case):
    """Return Pr(rank of tuple t = j + 1) at [t][j], and expected ranks, by definition."""
    law = [[Fraction(0)] * (case.size + 1) for _ in range(case.tuples)]
    mean = [Fraction(0)] * case.tuples
    for world, chance in case.worlds():
        rank = {case.owners[item]: place for place, item in enumerate(world)}
        for t in range(case.tuples):
            mean[t] += chance * rank.get(t, len(world))
            if t in rank:
                law[t][rank[t]] += chance
    return law, mean


def test_the_tables_of_d_with_their_erratum():
    both = engine_free.top_k_probabilities(SPEED, CHANCE, RULES, k=[2, 3])
    close(both, np.transpose([TOP_2, TOP_3]))
    close(engine_free.top_k_probabilities(SPEED, CHANCE, RULES, k=2), TOP_2)
    assert sorted(pk_topk(SPEED, CHANCE, RULES, k=3).indices + 1) == [3, 4, 5]  # Q1 of D
    assert sorted(pk_topk(SPEED, CHANCE, RULES, k=2).indices + 1) == [2, 5]  # Q2 of D


@examples(400)
@given(cases(), st.data())
def test_top_k_probabilities_are_those_of_the_possible_worlds(case, data):
    ks = data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=10))
    law, _ = ranks_by_worlds(case)
    exact = [[sum(row[:k]) for k in ks] for row in law]
    got = engine_free.top_k_probabilities(**case.arguments(), k=ks)
    assert got.shape == (case.tuples, len(ks))
    if case.tuples:
        close(got, exact)
    for column, k in enumerate(ks):
        close(engine_free.top_k_probabilities(**case.arguments(), k=k), got[:, column])


@examples(300)
@given(cases(), st.integers(1, 8))
def test_every_ranking_is_that_of_the_possible_worlds(case, k):
    law, mean = ranks_by_worlds(case)
    got = case.arguments()
    if case.tuples:
        padded = [(row + [Fraction(0)] * k)[:k] for row in law]
        close(rank_probabilities(**got, k=k), padded)
        close(engine_free.expected_ranks(**got), mean)
        omega = [Fraction(3, 2), Fraction(-1), Fraction(0), Fraction(7)][:k]
        weighed = [sum(w * p for w, p in zip(omega, row, strict=False)) for row in law]
        close(engine_free.prf(**got, weights=[float(w) for w in omega]), weighed)
        powers = [sum(Fraction(3, 10) ** (j + 1) * p for j, p in enumerate(row)) for row in law]
        close(prfe(**got, alpha=0.3), powers)
    ranks = engine_free.u_kranks(**got, k=k)
    for j in range(k):
        best = max((row[j] if j < len(row) else 0 for row in law), default=0)
        close(ranks.probability[j], best)
        assert (ranks.indices[j] == -1) == (best == 0)
        if best:
            close(law[ranks.indices[j]][j], best)


@examples(300)
@given(cases(), st.integers(1, 8))
def test_the_likeliest_tuples_are_sorted_by_their_probability(case, k):
    got = case.arguments()
    values = engine_free.top_k_probabilities(**got, k=k)
    best = pk_topk(**got, k=k)
    assert best.indices.size == min(k, case.tuples)
    close(best.probability, np.sort(values)[::-1][:k])
    close(best.probability, values[best.indices])  # a sum that misses 1 by rounding is 1
    enough = engine_free.pt_k(**got, k=k, probability=0.25)
    assert set(enough.indices) == set(np.flatnonzero(values >= 0.25))
    assert (np.diff(enough.probability) <= 1e-12).all()  # equal up to rounding is a tie


@examples(500)
@given(cases(), st.integers(1, 8), st.booleans(), st.booleans())
def test_u_topk_is_the_most_probable_vector_of_the_possible_worlds(case, k, full, as_items):
    owners = range(case.size) if as_items else case.owners
    got = case.arguments()
    if as_items:  # each item is a tuple
        del got["tuples"]
    vectors = defaultdict(Fraction)
    for world, chance in case.worlds():
        if len(world) >= k or not full:
            vectors[tuple(owners[item] for item in world[:k])] += chance
    answer = engine_free.u_topk(**got, k=k, full=full)
    if not vectors:
        assert (answer.indices.size, answer.probability) == (0, 0.0)
        return
    assert answer.indices.size == k or not full
    close(answer.probability, max(vectors.values()))
    close(answer.probability, vectors[tuple(answer.indices)])
    close(np.exp(answer.log_probability), answer.probability)


def plain(prob, rule, k, positions):
    """Return Pr_k at some rank positions, each from scratch by D, (1) and (2), in 80-bit floats."""
    out = []
    for x in positions:
        above = defaultdict(np.longdouble)
        for i in range(x):
            if rule[i] != rule[x]:
                above[rule[i]] += np.longdouble(prob[i])
        law = np.zeros(k, dtype=np.longdouble)
        law[0] = 1
        for mass in above.values():
            law[1:] = law[1:] * (1 - min(mass, 1)) + law[:-1] * min(mass, 1)
            law[0] *= 1 - min(mass, 1)
        out.append(prob[x] * float(law.sum()))
    return np.array(out)


def many(n, seed, kind):
    """Return probabilities and rules of n items in rank order."""
    rng = np.random.default_rng(seed)
    prob, rule = 1.0 - rng.random(n), np.arange(n)
    if kind == "pairs":  # consecutive items, as D pairs icebergs
        first = np.flatnonzero(prob[:-1] + prob[1:] <= 1.0)[::2]
        rule[first + 1] = rule[first]
    if kind == "long rules":  # 30 members each, spread over the ranks, some of total mass 1
        rule = rng.permutation(n) % (n // 30)
        mass = np.bincount(rule, weights=prob)
        prob = prob / (mass * rng.choice([1.0, 1.25], mass.size))[rule]
    if kind == "rare":
        prob *= 0.02
    if kind == "certain":
        prob[rng.random(n) < 0.5] = 1.0
    if kind == "nearly certain pairs":  # factors near 1 or 0, which division would lose
        rule = np.arange(n) // 2
        prob = np.where(np.arange(n) % 2, 1e-9, 1 - 1e-9)
    return prob, rule


@pytest.mark.parametrize(
    "kind", ["single", "pairs", "long rules", "rare", "certain", "nearly certain pairs"]
)
@pytest.mark.parametrize(("n", "k"), [(400, 7), (1000, 100), (1000, 450), (6000, 30)])
def test_thousands_of_items_agree_with_the_plain_recursion(kind, n, k):
    prob, rule = many(n, n + k, kind)
    positions = np.unique([*np.linspace(0, n - 1, 12).astype(int), k - 1, k, k + 1, 3 * k])
    positions = positions[positions < n]
    expected = plain(prob, rule, k, positions)
    scores = -np.arange(n, dtype=float)
    one = engine_free.top_k_probabilities(scores, prob, rule, k=k)
    some = engine_free.top_k_probabilities(scores, prob, rule, k=list(range(k, 0, -max(k // 9, 1))))
    by_rank = engine_free.prf(scores, prob, rule, weights=np.ones(k))
    for got in (one, some[:, 0], by_rank):
        close(got[positions], expected)


def test_the_order_of_input_does_not_matter_without_ties():
    prob, rule = many(5000, 3, "pairs")
    shuffled = np.random.default_rng(4).permutation(5000)
    scores = -np.arange(5000.0)
    expected = engine_free.top_k_probabilities(scores, prob, rule, k=50)
    got = engine_free.top_k_probabilities(scores[shuffled], prob[shuffled], rule[shuffled], k=50)
    np.testing.assert_array_equal(got, expected[shuffled])


def test_items_that_cannot_matter_are_not_needed_but_tie_with_others_in_order():
    scores = np.repeat([3.0, 2.0, 1.0], 2000)  # only the first of 2,000 ties can be in the top
    got = engine_free.top_k_probabilities(scores, np.full(6000, 0.5), k=10)
    expected = plain(np.full(6000, 0.5), np.arange(6000), 10, range(60))
    close(got[:60], expected)
    assert got[1000:].max() == 0.0


def test_probable_items_at_the_end_of_improbable_ones_are_found():
    prob = np.r_[np.full(9000, 1e-6), np.full(1000, 1.0)]  # the mean misleads about the first items
    got = engine_free.top_k_probabilities(-np.arange(10_000.0), prob, k=3)
    close(got[9000:9003], plain(prob, np.arange(10_000), 3, [9000, 9001, 9002]))
    assert got[9003] == 0.0


def test_without_items_there_are_no_values():
    assert engine_free.top_k_probabilities([], [], k=3).shape == (0,)
    assert engine_free.expected_ranks([], []).shape == (0,)
    assert engine_free.prf([], [], weights=[1.0]).shape == (0,)


def test_a_rule_of_mass_one_up_to_rounding_is_certain():
    tenths = [0.1] * 9 + [0.1 + 5e-10]
    got = engine_free.top_k_probabilities(-np.arange(11.0), [*tenths, 1.0], [7] * 10 + [-1], k=1)
    assert got[10] == 0.0
    vector = engine_free.u_topk(-np.arange(11.0), [*tenths, 1.0], [7] * 10 + [-1], k=2)
    assert vector.indices.tolist() == [9, 10]


def test_a_vector_too_improbable_for_a_float_keeps_its_logarithm():
    answer = engine_free.u_topk(-np.arange(5000.0), np.full(5000, 0.4), k=1500)
    assert answer.probability == 0.0
    assert -4000 < answer.log_probability < -1000


def test_inputs_are_not_changed():
    arrays = [np.array(SPEED, float), np.array(CHANCE), np.array(RULES)]
    copies = [array.copy() for array in arrays]
    for array in arrays:
        array.flags.writeable = False
    engine_free.top_k_probabilities(*arrays, k=2)
    engine_free.u_topk(*arrays, k=2)
    for array, copy in zip(arrays, copies, strict=True):
        np.testing.assert_array_equal(array, copy)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"prob": [0.5, 0.0, 0.5]}, r"`prob` .* got 0.0 at index 1"),
        ({"prob": [0.5, 1.1, 0.5]}, r"`prob` .* got 1.1 at index 1"),
        ({"prob": [0.5, float("nan"), 0.5]}, r"`prob` .* got nan at index 1"),
        ({"prob": [0.5, 0.5]}, "`prob` must have 3 entries, one per score; got 2"),
        ({"prob": [[0.5]]}, "`prob` must have one dimension"),
        ({"scores": [1, 2, float("inf")]}, "`scores` must be finite; got inf at index 2"),
        ({"scores": ["a", "b", "c"]}, "`scores` must be an array of numbers"),
        ({"exclusive": [4, 4, 4]}, "rule 4 exclude each other"),
        ({"exclusive": [10**15, 10**15, 10**15]}, "rule 1000000000000000 exclude each other"),
        ({"exclusive": [0.5, 1.0, 2.0]}, "`exclusive` must be integers"),
        ({"exclusive": [1]}, "`exclusive` must have 3 entries"),
        ({"tuples": [0, 0, 0]}, "tuple 0 exclude each other"),
        ({"tuples": [0, 2, 2]}, "without gaps"),
        ({"tuples": [0, -1, 1]}, "without gaps"),
        ({"tuples": [0, 0, 1], "exclusive": [3, 4, 3]}, "tuple 0 has alternatives in different"),
        ({"k": 0}, "`k` must be an integer of at least 1"),
        ({"k": 2.5}, "`k` must be an integer of at least 1"),
        ({"k": True}, "`k` must be an integer of at least 1"),
        ({"k": []}, "`k` must be an integer or a list"),
    ],
)
def test_errors_name_the_argument_and_its_value(change, words):
    arguments = {"scores": [3, 2, 1], "prob": [0.4, 0.6, 0.5], "k": 2, **change}
    with pytest.raises(ValueError, match=words):
        engine_free.top_k_probabilities(**arguments)


def test_errors_of_the_other_rankings():
    with pytest.raises(ValueError, match="`probability` must be a number in"):
        engine_free.pt_k([1], [1], k=1, probability=0)
    with pytest.raises(ValueError, match="`alpha` must be a number in"):
        prfe([1], [1], alpha=1.5)
    with pytest.raises(ValueError, match="`weights` must be a list of finite numbers"):
        engine_free.prf([1], [1], weights=[])
    with pytest.raises(ValueError, match="`k` must be"):
        engine_free.u_topk([1], [1], k=-1)
