"""A reorder that forgets keys keeps little state; sources are not forgotten."""

import pytest

from sfumato.operators.disorder.control import DisorderControl
from sfumato.tables.disorder.table_reorder import ReorderTableConfig
from table_runs import table_of
from tables.test_forgotten_keys import CONTROLS

FORGET = 50


def config(control, forget_after: float | None = FORGET):
    return ReorderTableConfig(control=control, keys=1, forget_after=forget_after)


def rows_of(rows):
    keys, event, arrival = (list(column) for column in zip(*rows, strict=True))
    return table_of({"key": keys}, key0=keys, event=event, order0=arrival)


@pytest.mark.parametrize("control", CONTROLS.values(), ids=CONTROLS)
def test_state_shrinks_after_a_peak_of_keys(control):
    operator = config(control).make()
    keys = [(f"once {i}", i // 100, i // 100) for i in range(3000)]
    operator.process([(0, rows_of(keys))], 0)
    controllers, peak = operator.operator.controllers, len(operator.snapshot())
    states = len(controllers._states)
    assert states > 3000
    for batch in range(1, 9):
        last = [(f"once {i}", 100 * batch, 100 * batch) for i in (2998, 2999)]
        operator.process([(0, rows_of(last))], 0)
    assert len(operator.index) == 2
    assert len(controllers._states) < states / 100
    assert len(controllers.memory) < 20_000
    assert len(operator.snapshot()) < peak / 10


def test_sources_are_not_forgotten():
    with pytest.raises(ValueError, match="combined with `source`"):
        ReorderTableConfig(control=CONTROLS["slack"], keys=1, sources=1, forget_after=1.0)


def test_a_bound_on_all_keys_is_refused_because_it_would_depend_on_micro_batches():
    with pytest.raises(ValueError, match="`max_buffer_total` cannot be combined with `forget_a"):
        config(DisorderControl(slack=3, max_buffer_total=5))
