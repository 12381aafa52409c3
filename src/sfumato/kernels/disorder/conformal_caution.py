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
  later than what is waited already: these come from an outage that is over.
"""

import math

from sfumato.kernels.compile import compiled
from sfumato.kernels.disorder.conformal_experts import FORGETFUL, rows_listed, tail_of
from sfumato.kernels.disorder.conformal_tail import quantile

EARLY = 12.0  # expected late rows before the tails are known: until then, be cautious
CAUTION = 3.3  # standard deviations of the delays; from half of EARLY on it fades
NEWEST_DELAYS = 32  # of which these are taken
YOUNG = 1.3  # also how much longer than anything seen rows wait then
FLURRY = 4  # late rows of one clump
FREEZE = 1.25  # times their middle lateness is waited,
NEARLY = 3.0  # if that is less than so many times what is waited: not for an upload,
CALM = 0.5  # until so many rows, times drop ratio, without a late one,
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
def held_back(wanted, t, d, key, area):
    """The punctuation the experts ask for after a row that arrived at t, or an earlier one. O(1).

    d : drop ratio
    """
    expected = d * key.fed
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
    return min(wanted, key.newest - int(wait)) if wait > 0.0 else wanted
