"""The conformal estimator on streams that were not used to choose its constants."""

import pytest

from benchmarks import fresh_traces
from sfumato.operators.disorder.punctuator import Punctuator

DROP_RATIO = 0.01


@pytest.mark.nightly
def test_less_than_one_percent_of_fresh_streams_drop_more_rows_than_wanted():
    missed, judged = [], 0
    for _, name, rows, seed, (event, arrival) in fresh_traces.fresh((710_000, 720_000, 730_000)):
        if fresh_traces.hard(name) or fresh_traces.apart(event, DROP_RATIO):
            continue
        late = Punctuator(DROP_RATIO).extend_with_late(event, arrival)[1]
        judged += 1
        if late.mean() > fresh_traces.MISSED * DROP_RATIO:
            missed.append((name, rows, seed, late.mean()))
    assert judged > 200
    assert len(missed) < judged / 100, missed
