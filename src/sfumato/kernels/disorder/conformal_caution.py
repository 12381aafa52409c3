"""When the punctuation stays farther back than the experts ask: what no threshold can know.

Thresholds are learned from rows that came, so they say nothing of what is still under way, and a
punctuation cannot be taken back. So rows wait longer

- *at the start*, for what delays would need if they were normal;
- while a stream is *young*: less event time has gone by than YOUNG times the 1 - d quantile of the
  lateness, so even the largest lateness seen has been cut off by the stream's own age.
  Then rows wait YOUNG times the largest lateness;
- in a *flurry*: late rows close together, while newer rows still come. Delays have changed, and
  every step on makes more of what is under way late. Until the flurry has been over for a while
  rows wait FREEZE times the middle one of the last three late rows' lateness. Not for rows much
  later than what is waited already: these come from an outage that is over;
- with a *lasting mode* of the delays, such as devices that send what they buffered a fixed time
  later: a shorter wait for a while would save little, as all rows of the mode that are under way
  then would be late. So rows wait at all times for the quantile of the lateness of the whole
  stream, at most the drop ratio. Either the guard has learned the mode (see `clock_guard`), or the
  largest lateness is flat (nearly the same for the share d and a part of it) and of rows from all
  over the stream. As it is flat, no fixed wait that holds the drop ratio is much shorter.
"""

import math

import numpy as np

from sfumato.kernels.compile import compiled
from sfumato.kernels.disorder.conformal_experts import FORGETFUL, rows_listed, tail_of
from sfumato.kernels.disorder.conformal_tail import quantile
from sfumato.kernels.disorder.state import NEVER

EARLY = 12.0  # expected late rows before the tails are known: until then, be cautious
CAUTION = 3.3  # standard deviations of the delays; from half of EARLY on it fades
NEWEST_DELAYS = 32  # of which these are taken
YOUNG = 1.3  # also how much longer than anything seen rows wait then
FLURRY = 4  # late rows of one clump
FREEZE = 1.25  # times their middle lateness is waited,
NEARLY = 3.0  # if that is less than so many times what is waited: not for an upload,
CALM = 0.5  # until so many rows, times drop ratio, without a late one,
STEADY = 0.9  # with a lasting mode, the quantile waited for, in drop ratios,
DEAREST = 0.05  # and its least share of that, where more rows were late than that,
DEBT, DEBT_SHARE = 20.0, 0.1  # by so many, and this share of the expected ones
FLAT, STILL_FLAT = 0.05, 0.1  # the lateness of a mode differs by at most this share,
PART = 8  # between the quantile for this part of the share and that for all of it
PERIODS = 4  # of the stream since the first row of the mode: each has at least
EVEN, STILL_EVEN = 0.5, 0.3  # this share of the rows of the mode that it would have on average
STEADY_LIFE = 60.0  # times the lateness: in a longer stream such rows are few
FEWEST = 32  # rows listed of a mode
LIVE = 4  # or until so many rows brought no newer event time: only stragglers come


@compiled
def learn_delay(delay, key):
    """Follow mean and variance of the newest delays, until the tails are known. O(1)."""
    weight = 1.0 / min(key.fed, NEWEST_DELAYS)
    change = delay - key.total
    key.total += weight * change
    key.squares = (1.0 - weight) * (key.squares + weight * change * change)


@compiled
def in_flurry(d, key):
    """Whether late rows just came close together, and newer rows as well. O(1)."""
    return (
        key.clump >= FLURRY
        and key.fed - key.last_late <= CALM / d
        and key.fed - key.newest_at <= LIVE
    )


@compiled
def middle(a, b, c):
    """The middle one of three."""
    return max(min(a, b), min(max(a, b), c))


@compiled
def look_for_mode(d, key, area):
    """Note whether the lateness of the whole stream shows a lasting mode. O(list)."""
    values, numbers = tail_of(FORGETFUL, key, area)
    rows = min(int(STEADY * d * rows_listed(FORGETFUL, d, key)), key.listed[FORGETFUL])
    if rows < FEWEST:
        return
    flat, even = (FLAT, EVEN) if key.steady == 0 else (STILL_FLAT, STILL_EVEN)
    key.steady = 0
    if values[rows // PART] - values[rows - 1] > flat * values[rows - 1]:
        return
    first = numbers[:rows].min()
    counts = np.zeros(PERIODS, np.int64)
    for number in numbers[:rows]:
        counts[(number - first) * PERIODS // (key.fed - first + 1)] += 1
    key.steady = int(counts.min() >= even * rows / PERIODS)


@compiled
def steady_share(d, key):
    """The share of rows that may come later than what is waited for a lasting mode. O(1)."""
    expected = STEADY * d * key.counted
    left = (expected - key.late_fed) / (DEBT + DEBT_SHARE * expected)
    return STEADY * d * min(max(1.0 + left, DEAREST), 1.0)


@compiled
def held_back(wanted, t, d, key, area):
    """The punctuation the experts ask for after a row that arrived at t, or an earlier one. O(1).

    d : drop ratio
    """
    expected = d * key.counted
    if expected < EARLY:
        share = min(1.0, 2.0 - 2.0 * expected / EARLY)
        wanted = min(wanted, t - math.ceil(key.total + share * CAUTION * math.sqrt(key.squares)))
    wait = 0.0
    if in_flurry(d, key):
        late = key.late_by
        lateness = middle(late[0], late[1], late[2])
        if lateness < NEARLY * (key.newest - key.punctuation):
            wait = max(wait, FREEZE * lateness)
    values, _ = tail_of(FORGETFUL, key, area)  # of the whole stream, behind the newest event time
    size = key.listed[FORGETFUL]
    asked = quantile(values, size, d * rows_listed(FORGETFUL, d, key)) if size > 0 else 0.0
    if key.newest - key.first_time < YOUNG * asked:
        wait = max(wait, YOUNG * key.largest_lateness)
    steady = key.steady == 1 and key.newest - key.first_time < STEADY_LIFE * asked
    if size > 0 and (steady or key.slow_bound != NEVER):
        rank = steady_share(d, key) * rows_listed(FORGETFUL, d, key)
        wait = max(wait, quantile(values, size, rank))
    return min(wanted, key.newest - int(wait)) if wait > 0.0 else wanted
