"""A bound on the held rows of all keys: against a loop over the rows."""

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers import NEVER
from operators.disorder.test_reordered_keys import many_keys
from seeds import examples
from sfumato.operators.disorder.reorder import Reorder

WAITS = {
    "only the total": {},
    "slack": {"slack": 6},
    "fixed": {"max_delay": 60},
    "conformal": {"drop_ratio": 0.02},
    "bounded keys": {"max_delay": 200, "max_buffer": 3},
}
every_wait = pytest.mark.parametrize("waits", WAITS.values(), ids=WAITS.keys())


def one_row_at_a_time(keys, event, arrival, delay, total):
    """Return ({key: [(number, late, punctuation), ...]}, held rows) for a fixed delay and total."""
    reached, held, out = defaultdict(lambda: NEVER), [], defaultdict(list)
    newest = defaultdict(lambda: NEVER)

    def release(key):
        leaving = sorted(row for row in held if row[1] == key and row[0] <= reached[key])
        out[key] += [(number, False, reached[key]) for _, _, number in leaving]
        held[:] = [row for row in held if row not in leaving]

    for number, (key, time) in enumerate(zip(keys.tolist(), event.tolist(), strict=True)):
        late, before = time < reached[key], reached[key]
        newest[key] = max(newest[key], time)
        if delay is not None:
            reached[key] = max(reached[key], newest[key] - delay)
        if late:
            out[key].append((number, True, before))
        else:
            held.append((time, key, number))
        release(key)
        if len(held) > total:
            oldest = min(held)[0]
            for other in {row[1] for row in held if row[0] == oldest}:
                reached[other] = oldest
                release(other)
    return out, len(held)


def by_key(out):
    found = defaultdict(list)
    for number, late, punctuation, key in zip(
        out.number, out.late, out.punctuation, out.key, strict=True
    ):
        found[int(key)].append((int(number), bool(late), int(punctuation)))
    return found


@pytest.mark.parametrize("delay", [None, 0, 150])
@examples(40)
@given(stream=many_keys(), total=st.integers(1, 30))
def test_rows_are_released_as_by_a_loop_over_the_rows(delay, stream, total):
    waits = {} if delay is None else {"max_delay": delay}
    reorder = Reorder(max_buffer_total=total, guard=False, **waits)
    out = reorder.process(*stream)
    expected, held = one_row_at_a_time(*stream, delay, total)
    assert by_key(out) == {key: rows for key, rows in expected.items() if rows}
    assert reorder.held_count == held


@every_wait
@examples(30)
@given(stream=many_keys(), total=st.integers(1, 40))
def test_the_total_of_one_key_is_max_buffer(waits, stream, total):
    _, event, arrival = stream
    stream = np.zeros(len(event), np.int64), event, arrival
    least = min(total, waits.get("max_buffer", total))
    bounded = Reorder(**{**waits, "max_buffer": least}).process(*stream)
    of_all = Reorder(max_buffer_total=total, **waits).process(*stream)
    assert by_key(of_all) == by_key(bounded)


@examples(30)
@given(stream=many_keys(), total=st.integers(1, 20), cut=st.integers(0, 250))
def test_forgotten_keys_free_their_rows(stream, total, cut):
    reorder = Reorder(max_delay=500, max_buffer_total=total)
    parts = [reorder.process(*(x[:cut] for x in stream))]
    parts.append(reorder.forget(np.unique(stream[0][:cut])[:2]))
    parts.append(reorder.process(*(x[cut:] for x in stream)))
    assert reorder.held_count <= total
    parts.append(reorder.flush())
    numbers = np.concatenate([part.number for part in parts])
    assert sorted(numbers.tolist()) == list(range(len(stream[0])))


def test_a_clock_in_the_future_does_not_block_the_other_keys():
    n, rng = 4_000, np.random.default_rng(3)
    keys = np.arange(n) % 8
    arrival = 10**12 + 1_000_000 * np.arange(n)
    event = arrival - rng.integers(0, 20_000_000, n)
    event[(keys == 3) & (rng.random(n) < 0.1)] += 10**15
    reorder = Reorder(drop_ratio=0.01, max_buffer_total=50)
    out = reorder.process(keys, event, arrival)
    assert reorder.held_count <= 50
    late = np.bincount(out.key[out.late], minlength=8)
    assert out.punctuation.max() < arrival[-1]
    assert late[[0, 1, 2, 4, 5, 6, 7]].max() < 0.15 * n / 8
    assert late[3] < 0.3 * n / 8


def test_a_total_with_sources_is_refused():
    with pytest.raises(ValueError, match="`max_buffer_total` and `source` cannot be combined"):
        Reorder(max_buffer_total=5, by_source=True)
