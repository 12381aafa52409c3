"""Every engine-free operator keeps the laws of operators."""

import numpy as np
import pytest

from large_subjects import AT_SIZE
from operator_laws import LAWS, Subject, any_split, restart_anywhere
from operator_subjects import OTHER_SETTINGS, SUBJECTS
from seeds import seeds
from sfumato.operators.state.snapshot import SavedState, SnapshotError, pack, unpack


@pytest.mark.parametrize("seed", seeds(3))
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("name", SUBJECTS | OTHER_SETTINGS)
def test_every_operator_keeps_the_laws_of_operators(name, law, seed):
    subject = (SUBJECTS | OTHER_SETTINGS)[name]
    if law in subject.gaps:
        pytest.skip(subject.gaps[law])
    LAWS[law](subject, np.random.default_rng(seed))


class Totals:
    """Running totals per key; `broken` names the law that it does not keep."""

    def __init__(self, broken=None):
        self.broken, self.totals, self.ended = broken, {}, False

    def process(self, keys, values):
        totals = {} if self.broken == "any_split" else self.totals
        for i, key in enumerate(keys):
            one = 0 if self.broken == "keys_in_any_order" else int(key)
            totals[one] = totals.get(one, 0.0) + values[i]
            if self.broken == "inputs_untouched":
                values[i] = 0.0
            yield int(key), totals[one]

    def end(self):
        self.ended = True
        return []

    def snapshot(self):
        if self.broken == "goes_on_after_the_end":
            return ({} if self.ended else self.totals), self.broken
        if self.broken in (None, "damage_is_refused"):
            keys = np.array(sorted(self.totals), np.int64)
            totals = np.array([self.totals[key] for key in keys])
            state = SavedState(
                {"state": {}, "broken": self.broken}, {"keys": keys, "totals": totals}
            )
            return pack("totals", 1, state)
        return self.totals, self.broken  # a view, which further calls change

    @classmethod
    def restore(cls, saved):
        if isinstance(saved, bytes):
            state = unpack(saved, "totals", 1)
            keys, totals = state.arrays["keys"], state.arrays["totals"]
            if state.values["broken"] is None and (
                (keys.dtype, totals.dtype, keys.ndim) != (np.int64, np.float64, 1)
                or not keys.shape == totals.shape
                or not np.isfinite(totals).all()
            ):
                raise SnapshotError("these are no totals")
            saved = (
                dict(zip(keys.reshape(-1).tolist(), totals.reshape(-1).tolist(), strict=False)),
                None,
            )
        operator = cls(saved[1])
        operator.totals = saved[0] if saved[1] == "restart_anywhere" else dict(saved[0])
        return operator


@pytest.mark.parametrize("broken", [None, *LAWS])
def test_a_law_that_is_broken_is_seen(broken):
    def rows(rng, n):
        return {"key": rng.integers(0, 3, n), "value": rng.random(n)}

    def feed(operator, rows, places):
        whole = places.size and (np.diff(places) == 1).all()
        some = slice(places[0], places[-1] + 1) if whole else places  # a view, if possible
        return list(operator.process(rows["key"][some], rows["value"][some]))

    subject = Subject(lambda: Totals(broken), rows, feed, lambda operator: operator.end())
    for name, law in LAWS.items():
        if name != broken:
            continue
        with pytest.raises(AssertionError):
            law(subject, np.random.default_rng(1))
    if broken is None:
        for law in LAWS.values():
            law(subject, np.random.default_rng(1))


# With the few rows of the other test, a buffer never grows twice.
@pytest.mark.nightly
@pytest.mark.parametrize("seed", seeds(1))
@pytest.mark.parametrize("law", [any_split, restart_anywhere])
@pytest.mark.parametrize("name", AT_SIZE)
def test_operators_keep_their_laws_at_size(name, law, seed):
    subject, rows = AT_SIZE[name]
    law(subject, np.random.default_rng(seed), rows)
