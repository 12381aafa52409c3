"""Rows by key are those of a plain list, however many and however far apart their keys are."""

from __future__ import annotations

import numpy as np
import pytest

from seeds import seeds
from sfumato.operators.disorder.rows import ByKey, WaitingRows


@pytest.mark.parametrize("seed", seeds(4))
@pytest.mark.parametrize("keys", [1, 50, 3_000, 10**12])
def test_rows_held_are_found_by_their_keys(keys, seed):
    rng = np.random.default_rng(seed)
    held, plain, number = ByKey(WaitingRows), {}, 0
    for _ in range(30):
        n = int(rng.integers(0, 400))
        low = int(rng.integers(0, keys))  # chunks begin at other keys
        key = rng.integers(low, keys, n)
        numbers = number + np.cumsum(rng.integers(1, 4, n))
        number += 4 * n
        held.add(WaitingRows(numbers, key, key, numbers * 10, numbers, np.zeros(n, bool)))
        plain.update(zip(numbers.tolist(), key.tolist(), strict=True))
        some = np.concatenate(
            [rng.choice(list(plain.values()) or [0], 50), rng.integers(0, keys, 9)]
        )
        wanted = np.unique(some)
        found = held.of(wanted)
        expected = sorted((plain[one], one) for one in plain if plain[one] in set(wanted.tolist()))
        got = sorted(zip(found.rows.key.tolist(), found.rows.number.tolist(), strict=True))
        assert got == expected
        by_key = np.argsort(found.rows.key, kind="stable")
        same = np.diff(found.rows.key[by_key]) == 0
        assert (np.diff(found.rows.number[by_key])[same] > 0).all()
        leaving = rng.random(len(found.place)) < 0.7
        held.remove(found, leaving)
        for one in found.rows.number[leaving].tolist():
            del plain[one]
        assert len(held) == len(plain)
    rows = held.rows
    assert sorted(rows.number.tolist()) == sorted(plain)
    assert rows.key.tolist() == [plain[one] for one in rows.number.tolist()]
