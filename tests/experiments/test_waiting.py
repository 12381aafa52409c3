"""The waits of rows under a sequence of punctuations, and the best fixed watermark."""

import numpy as np

from experiments.disorder.waiting import fixed_watermark, least_slack, waiting


def test_waits_are_from_arrival_to_the_arrival_that_lets_the_row_out():
    #        event     1 4 0 9    a watermark 2 behind the newest: -1 2 2 7
    #        arrival   1 5 7 9    row 1 waits until 5, row 4 until 9; row 0 is late; row 9 waits
    event, arrival = np.array([1, 4, 0, 9]), np.array([1, 5, 7, 9])
    punctuation = fixed_watermark(event, 2)
    assert punctuation.tolist() == [-1, 2, 2, 7]
    result = waiting(event, arrival, punctuation)
    assert (result.rows, result.late, result.waiting) == (4, 1, 1)
    assert result.mean == (4 + 4) / 2


def test_a_row_at_the_watermark_is_not_late():
    event, arrival = np.array([1, 4, 2, 9]), np.array([1, 5, 7, 9])
    result = waiting(event, arrival, fixed_watermark(event, 2))
    assert (result.rows, result.late, result.waiting) == (4, 0, 1)
    assert result.mean == (4 + 4 + 0) / 3


def test_the_least_slack_lets_just_so_many_rows_be_late():
    rng = np.random.default_rng(5)
    event = np.sort(rng.integers(0, 10_000, 500)) - rng.integers(0, 300, 500)
    arrival = np.arange(500)
    for late in (0, 1, 7, 50):
        slack = least_slack(event, late)
        assert waiting(event, arrival, fixed_watermark(event, slack)).late <= late
        if slack:
            assert waiting(event, arrival, fixed_watermark(event, slack - 1)).late > late
