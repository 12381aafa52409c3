"""Where the disorder controllers keep what they know of one key: names of array places.

One key's state is four arrays, so that compiled code can change it in place and a snapshot is a
copy: `ints` int64[INTS] and `reals` float64[REALS] (the names below), `area` int64[] (what the
estimator remembers, its layout is the estimator's) and `held` int64[3, capacity] (event times,
arrival numbers and marks of the rows held, a heap, only with a bound on the buffer).
"""

from __future__ import annotations

import numpy as np

NEVER = np.iinfo(np.int64).min  # no punctuation is known

SLACK, NORMAL, LARGEST, AVERAGED, CONFORMAL = range(5)  # estimators

# ints: common
COUNT = 0  # rows that arrived
LATE = 1  # of them late on arrival
FUTURE = 2  # of them set aside by the guard
FORCED = 3  # arrivals at which a full buffer pushed the punctuation
EXPELLED = 4  # rows set aside that left a full buffer as late
PUNCTUATION = 5
HELD = 6  # rows in the heap `held`
LAST_ARRIVAL = 7
BOUND = 8  # the guard's smallest credible delay
GUARDED = 9  # 1 once BOUND is known
SIZE = 10  # entries of the estimator's main sequence in `area`
HEAD = 11  # place of the oldest in a ring
LIMIT = 12  # wanted length of VSeq
NEWEST = 13  # largest event time fed to the estimator
BASE = 14  # delays are summed relative to it
TURN = 15  # rows since the sums were refreshed, or rows of the present block
LARGEST_DELAY = 16
FED = 17  # rows fed to the estimator
CHOSEN = 18  # the expert followed
THINNING = 19  # one event time in so many is in the sample
LEVEL = 20  # rows for which `area` has room
CLOCK = 21  # the latest arrival of any row
OUT_OF_ORDER = 22  # rows that arrived before the clock
ASIDE = 23  # rows set aside in the heap `held`
NEWEST_BEFORE = 24  # largest event time fed of arrivals before the present stamp
CLUMPS = 25  # groups of late rows
LAST_LATE = 26  # the latest late row, as a number among those fed
LATE_BEFORE = 27  # late rows when the estimator last looked
LATE_STEERED = 28  # late rows at the last steering
STRIDE = 29  # one row in so many is listed by the experts that forget nothing
EXPERTS = 12
PUNCTUATION_OF = 30  # of each expert
LISTED = PUNCTUATION_OF + EXPERTS  # length of each expert's tail list
LATE_OF = LISTED + EXPERTS  # rows that would have been late for each expert
HELD_OF = LATE_OF + EXPERTS  # sampled event times beyond each expert's punctuation
WINDOW = HELD_OF + EXPERTS  # the guard's rings: delays, then arrivals
RECENT = 64  # length of each
INTS = WINDOW + 2 * RECENT

# reals
SUM, SUM_LOW, SQUARES, SQUARES_LOW = range(4)  # of VSeq, double-double
BLOCKS, BLOCK_SUM = 4, 5  # averaged variant of the largest delay
RECENT_ROWS = 6  # discounted number of rows
FOLLOWED = 7  # the threshold in force
THRESHOLD_OF = 8  # each expert's threshold
RECENT_LATE_OF = THRESHOLD_OF + EXPERTS  # discounted rows late for it
WAITED_OF = RECENT_LATE_OF + EXPERTS  # discounted sum of rows held times microseconds
SLOPE_OF = WAITED_OF + EXPERTS  # log of its list's slope, smoothed
WAITED_THEN = SLOPE_OF + EXPERTS  # WAITED_OF the expert followed, when it was chosen
REALS = WAITED_THEN + 1
