"""Several tasks that share a join give one task's answers in its order, and each does its part."""

from dataclasses import fields, replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from join_cases import random_stream
from seeds import examples
from sfumato.operators.joins.similarity_join import JoinAnswers, SimilarityJoin
from sfumato.windows import JoinWindow, Range, Rows


def sorted_as_one(answers):
    return answers.take(
        np.lexsort([answers.right, answers.left, answers.change < 0, answers.arrival])
    )


def assert_same(one, other):
    for field in fields(JoinAnswers):
        np.testing.assert_array_equal(getattr(one, field.name), getattr(other, field.name))


@given(
    seed=st.integers(0, 2**32 - 1),
    tasks=st.integers(2, 5),
    dimensions=st.integers(1, 4),
    keys=st.integers(1, 3),
    strategy=st.sampled_from(["nested", "index", "sort"]),
    output=st.sampled_from(["append", "changes"]),
    window=st.sampled_from(
        [Rows(6, 0.9), Rows(200), Range("40 seconds"), JoinWindow(30, span="2 minutes")]
    ),
)
@examples(60)
def test_several_tasks_give_the_answers_of_one(
    seed, tasks, dimensions, keys, strategy, output, window
):
    strategy = "index" if strategy == "sort" and dimensions > 1 else strategy
    arrivals = random_stream(seed, 240, dimensions, keys, drift=0.01)
    rng = np.random.default_rng(seed)
    arrivals = replace(arrivals, time=np.cumsum(rng.integers(0, 3_000_000, 240)))
    about = dimensions, 1.0, 0.1, window
    alone = SimilarityJoin(*about, strategy=strategy, output=output)
    crew = [
        SimilarityJoin(*about, strategy=strategy, output=output, task=i, tasks=tasks)
        for i in range(tasks)
    ]
    cuts = [0, *sorted(rng.integers(0, 240, 4).tolist()), 240]
    found = 0
    for begin, end in pairwise(cuts):
        part = arrivals.part(begin, end)
        whole = alone.process(part)
        found += len(whole)
        shared = [join.process(part) for join in crew]
        for answers in shared:
            assert (np.diff(answers.arrival) >= 0).all()
        assert_same(sorted_as_one(whole), sorted_as_one(JoinAnswers.concat(shared)))
        again = int(rng.integers(tasks))
        crew[again] = SimilarityJoin.restore(crew[again].snapshot())
        for side in (0, 1):
            live = np.concatenate([join.live_numbers(side) for join in crew])
            np.testing.assert_array_equal(np.unique(live), np.unique(alone.live_numbers(side)))
    assume(found)


def test_a_task_keeps_the_samples_of_its_own_tuples_only():
    arrivals = random_stream(1, 400, 2)
    crew = [SimilarityJoin(2, 1.0, 0.1, Rows(100), task=i, tasks=4) for i in range(4)]
    alone = SimilarityJoin(2, 1.0, 0.1, Rows(100))
    for join in [*crew, alone]:
        join.process(arrivals)
    kept = [join.tuples for join in crew]
    assert sum(held.prob.size for held in kept) == alone.tuples.prob.size
    for task, held in enumerate(kept):
        np.testing.assert_array_equal(held.number, alone.tuples.number)
        np.testing.assert_array_equal(held.existence, alone.tuples.existence)
        assert (held.number[np.diff(held.offsets) > 0] % 4 == task).all()


def test_samples_of_other_tasks_in_a_snapshot_are_refused():
    join = SimilarityJoin(1, 1.0, 0.1, Rows(10), task=0, tasks=2)
    join.process(random_stream(2, 30, 1))
    whole = SimilarityJoin(1, 1.0, 0.1, Rows(10))
    whole.process(random_stream(2, 30, 1))
    with pytest.raises(ValueError, match="tuples of other tasks must not have samples"):
        join.tuples = whole.tuples


@pytest.mark.parametrize("wrong", [(0, 0), (2, 2), (-1, 3), (0, 2.0), (True, 2)])
def test_a_task_is_one_of_several(wrong):
    with pytest.raises(ValueError, match="must be"):
        SimilarityJoin(1, 1.0, 0.1, Rows(10), task=wrong[0], tasks=wrong[1])
