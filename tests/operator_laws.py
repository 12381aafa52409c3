"""Laws that every operator keeps.

A subject defines how an operator is made, which rows it may get, and how it answers some of them.
A gap explains why a law does not apply to it.
"""

import copy
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from damages import damaged
from sfumato.operators.state.snapshot import SnapshotError


@dataclass(frozen=True)
class Subject:
    """make : a new operator    rows : (rng, n) to arrays by name; "key": the rows' keys, if any

    feed : (operator, rows, places) to answers to the rows at places, each (key, comparable value)
    finish : (operator) to the answers at the end of the stream
    counts : (operator) to its counters over all keys
    restore : (operator, snapshot) to the saved operator
    any_key_first : answers to different keys come in any order
    gaps : name of a law to the reason why it does not apply
    released : rows come from a disorder controller, with the columns that decide their order
    """

    make: Callable[[], Any]
    rows: Callable[[np.random.Generator, int], dict[str, Any]]
    feed: Callable[[Any, dict[str, Any], np.ndarray], list[tuple[int, Any]]]
    finish: Callable[[Any], list[tuple[int, Any]]] = lambda operator: []
    counts: Callable[[Any], Any] = lambda operator: None
    restore: Callable[[Any, bytes], Any] = lambda operator, data: type(operator).restore(data)
    any_key_first: bool = False
    gaps: Mapping[str, str] = field(default_factory=dict)
    released: bool = False


def answers_to(subject, rows, order, cuts=(), restarts=()):
    """Return (answers, counts) of rows in this order, cut into calls, with restarts at some."""
    operator, answers = subject.make(), []
    for number, places in enumerate(np.split(order, sorted(cuts))):
        if number in restarts:
            dying, operator = operator, subject.restore(operator, operator.snapshot())
            subject.feed(dying, rows, places)  # further calls must not change what was saved
        answers += subject.feed(operator, rows, places)
    answers += subject.finish(operator)
    if subject.any_key_first:
        answers.sort(key=lambda answer: answer[0])
    return answers, subject.counts(operator)


def any_split(subject, rng, n=80):
    """Answers do not depend on how the rows are cut into calls."""
    rows, order = subject.rows(rng, n), np.arange(n)
    whole = answers_to(subject, rows, order)
    assert answers_to(subject, rows, order, np.arange(1, n)) == whole
    for _ in range(3):
        assert answers_to(subject, rows, order, rng.integers(0, n, rng.integers(1, 9))) == whole
    assert whole[0]


def restart_anywhere(subject, rng, n=80):
    """An operator that was saved and restored continues as if nothing had happened."""
    rows, order = subject.rows(rng, n), np.arange(n)
    for _ in range(4):
        cuts = rng.integers(0, n, rng.integers(1, 7))
        restarts = set(np.flatnonzero(rng.random(len(cuts) + 1) < 0.7).tolist())
        whole = answers_to(subject, rows, order, cuts)
        assert whole[0]
        assert answers_to(subject, rows, order, cuts, restarts) == whole


def keys_in_any_order(subject, rng, n=80):
    """A key's answers do not depend on the rows of other keys, nor on rows between its own."""
    rows = subject.rows(rng, n)
    whole = by_key(answers_to(subject, rows, np.arange(n))[0])
    assert len(whole) > 1
    blocks = np.argsort(rows["key"], kind="stable")
    assert by_key(answers_to(subject, rows, blocks)[0]) == whole
    mixed = np.empty(n, int)
    mixed[np.argsort(rng.permutation(rows["key"]), kind="stable")] = blocks
    assert by_key(answers_to(subject, rows, mixed, [n // 3])[0]) == whole
    for key in whole:
        alone, _ = answers_to(subject, rows, np.flatnonzero(rows["key"] == key))
        assert by_key(alone) == {key: whole[key]}


def inputs_untouched(subject, rng, n=80):
    """Inputs are not written to, neither during a call nor later."""
    rows = subject.rows(rng, n)
    before = copy.deepcopy(rows)
    answers_to(subject, rows, np.arange(n), [n // 3], {1})
    for name, value in before.items():
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(rows[name], value)
        else:
            assert rows[name].equals(value)


def goes_on_after_the_end(subject, rng, n=80):
    """After the end of a stream, more rows may come; an operator saved there continues equally."""
    rows = subject.rows(rng, n)
    parts = np.split(np.arange(n), [n // 3, 2 * n // 3])

    def ended(restarts):
        operator, answers = subject.make(), []
        for number, places in enumerate(parts):
            answers += subject.feed(operator, rows, places)
            answers += subject.finish(operator)
            if number in restarts:
                operator = subject.restore(operator, operator.snapshot())
        return by_key(answers), subject.counts(operator)

    once = ended(())
    assert once[0]
    assert ended((0,)) == once
    assert ended((0, 1)) == once


def any_order_within_a_call(subject, rng, n=80):
    """Rows carry their order: rows of one call may be shuffled, both in a micro-batch and in a
    static frame."""
    rows = subject.rows(rng, n)
    n = len(rows["key"])
    whole = answers_to(subject, rows, np.arange(n))
    assert whole[0]
    for _ in range(3):
        assert answers_to(subject, rows, rng.permutation(n)) == whole
        cuts = np.sort(rng.integers(0, n, rng.integers(1, 9)))
        order = np.concatenate([rng.permutation(p) for p in np.split(np.arange(n), cuts)])
        assert answers_to(subject, rows, order, cuts) == whole


def damage_is_refused(subject, rng, n=80):
    """A snapshot with damaged state is refused, or gives an operator that runs.

    The operator may report that rows do not fit its state (ValueError). It never fails otherwise,
    and kernels, which check bounds in tests, never read outside their arrays.
    """
    rows, order = subject.rows(rng, n), np.arange(n)
    before, after = np.split(order, [n // 2])
    operator, refused = subject.make(), 0
    subject.feed(operator, rows, before)
    data = operator.snapshot()
    for _ in range(40):
        try:
            one = subject.restore(operator, damaged(data, rng))
        except SnapshotError:
            refused += 1
            continue
        with suppress(ValueError):
            subject.feed(one, rows, after)
            subject.finish(one)
            one.snapshot()
    assert refused > 0


LAWS = {
    law.__name__: law
    for law in (
        any_split,
        restart_anywhere,
        keys_in_any_order,
        inputs_untouched,
        goes_on_after_the_end,
        damage_is_refused,
    )
}


def by_key(answers):
    """Return each key's answers, in their order."""
    found: dict[int, list] = {}
    for key, answer in answers:
        found.setdefault(int(key), []).append(answer)
    return found


def exactly(*columns):
    """Return rows of number columns as bytes, which compare bit for bit, NaN included."""
    return [b"".join(np.asarray(x).tobytes() for x in row) for row in zip(*columns, strict=True)]
