"""The simple estimators of the delay to wait for, and the bound on the buffer.

MAX: the punctuation trails the clock by the largest delay seen (and the averaged variant), or
the newest event time by a delay that is given.
"""

import math

from sfumato.kernels.compile import compiled
from sfumato.kernels.disorder.state import NO_TIME

DELAYS_PER_TERM = 20  # rows whose largest delay is one term of the average


@compiled
def largest_step(tau, t, averaged, key):
    """Punctuation t - D after a row, D the largest delay t - tau so far or an average of maxima.

    With t - min delay as the newest event time this is the newest event time less the largest
    difference of delays. It never forgets: one slow row holds all later rows for as long.
    `averaged`: D is the mean over all blocks of DELAYS_PER_TERM rows of the block's largest delay
    (the present block included), which forgets slowly and drops about 3 % on normal delays.
    O(1).  Source: Srivastava & Widom (PODS 2004) as C section 7 describes the measure.
    """
    delay = t - tau
    if key.fed == 1:
        key.turn = 0
        key.blocks = key.block_sum = 0.0
    if key.fed == 1 or delay > key.largest_delay:
        key.largest_delay = delay
    if not averaged:
        return t - key.largest_delay
    key.turn += 1
    mean = (key.block_sum + key.largest_delay) / (key.blocks + 1.0)
    if key.turn == DELAYS_PER_TERM:
        key.block_sum += key.largest_delay
        key.blocks += 1.0
        key.turn = 0
        key.largest_delay = -(1 << 62)
    return t - math.ceil(mean)


@compiled
def fixed_step(tau, max_delay, key):
    """Punctuation after a row: the newest event time less `max_delay`, int64 microseconds. O(1)."""
    key.newest = tau if key.fed == 1 else max(key.newest, tau)
    return key.newest - max_delay


SHORTEST_VSEQ = 30  # of VSeq
LONGEST_VSEQ = 16_384  # of VSeq, where theta is so small that the measure would ask for more


@compiled
def add_exactly(high, low, value, value_low):
    """The double-double (high, low) + (value, value_low).  Error: 2**-104 of the largest partial
    sum.  Source: Knuth."""
    total = high + value
    part = total - high
    error = (high - (total - part)) + (value - part) + low + value_low
    renewed = total + error
    return renewed, error - (renewed - total)


@compiled
def add_delay(delay, sign, key):
    """Add (or with sign -1 remove) a delay in the sums of VSeq; error as `add_exactly`."""
    value = float(delay)
    key.total, key.total_low = add_exactly(key.total, key.total_low, sign * value, 0.0)
    square = value * value
    big = 134217729.0 * value  # Dekker's splitting: the square and its rounding error
    high = big - (big - value)
    low = value - high
    error = ((high * high - square) + 2.0 * high * low) + low * low
    key.squares, key.squares_low = add_exactly(
        key.squares, key.squares_low, sign * square, sign * error
    )


@compiled
def refresh(key, area):
    """Sum VSeq afresh, relative to its mean: once a turn, so O(1) a row. Keeps the sums small."""
    capacity = area.size // 2
    key.base += int(key.total / key.size)
    key.turn = 0
    key.total = key.total_low = key.squares = key.squares_low = 0.0
    for i in range(key.size):
        at = (key.head + i) % capacity
        add_delay(area[at] - area[capacity + at] - key.base, 1.0, key)


@compiled
def drop_oldest(key, area):
    """Remove the oldest pair of VSeq. O(1)."""
    capacity = area.size // 2
    at = key.head
    add_delay(area[at] - area[capacity + at] - key.base, -1.0, key)
    key.head = (at + 1) % capacity
    key.size -= 1


@compiled
def wanted_length(theta, sigma, c):
    """(5.7) as an equation: the real n with n**2 - c n = 2 c sigma**2 / theta**2.  O(1)."""
    return 0.5 * (c + math.sqrt(c * c + 8.0 * c * (sigma / theta) ** 2))


@compiled
def normal_step(tau, t, control, key, area):
    """Punctuation after a row by the measure of normal delays, or NO_TIME while VSeq is filling.

    VSeq, the newest pairs (t, tau), is a ring in area: arrivals, then event times. When it is full:
    theta = mean gap, mu, sigma = mean and standard deviation of the delays, n_p by (5.7),
    punctuation t - mu - n_p theta (5.8), and VSeq is to have max(30, n_p) pairs from now on, at
    most LONGEST_VSEQ. n_p is rounded up (the conservative choice), with `control.floor` down as in
    C. theta = 0 (a burst with one arrival stamp) is the limit n_p theta = sqrt(2 c) sigma.
    O(1) amortised.  Error: sums 2**-104 relative; mu, sigma, theta float64.
    Source: C section 5, equations (5.4), (5.7), (5.8); theta divides by n - 1, not n.
    """
    c = control.deviations
    capacity = area.size // 2
    if key.fed == 1:
        key.size = key.head = key.turn = 0
        key.total = key.total_low = key.squares = key.squares_low = 0.0
        key.base = t - tau
        key.limit = SHORTEST_VSEQ
    if key.size == key.limit:
        drop_oldest(key, area)
    at = (key.head + key.size) % capacity
    area[at] = t
    area[capacity + at] = tau
    key.size += 1
    add_delay(t - tau - key.base, 1.0, key)
    key.turn += 1
    n = key.size
    if n < key.limit:
        return NO_TIME
    if key.turn >= n:
        refresh(key, area)
    theta = (t - area[key.head]) / (n - 1)
    mu = key.total / n
    sigma = math.sqrt(max(key.squares / n - mu * mu, 0.0))
    if theta > 0.0:
        length = wanted_length(theta, sigma, c)
        length = math.floor(length) if control.floor else math.ceil(length)
        reach = length * theta
        key.limit = int(min(max(length, SHORTEST_VSEQ), LONGEST_VSEQ))
        while key.size > key.limit:
            drop_oldest(key, area)
    else:
        reach = math.sqrt(2.0 * c) * sigma
    return t - key.base - math.ceil(mu + reach)


@compiled
def sift_up(heap, place):
    """Restore the order of a min-heap whose entry at `place` may be too small. O(log n)."""
    value = heap[place]
    while place > 0:
        parent = (place - 1) >> 1
        if heap[parent] <= value:
            break
        heap[place] = heap[parent]
        place = parent
    heap[place] = value


@compiled
def sift_down(heap, size):
    """Restore the order of a min-heap of `size` whose top may be too large. O(log n)."""
    value = heap[0]
    place = 0
    child = 1
    while child < size:
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= value:
            break
        heap[place] = heap[child]
        place = child
        child = 2 * place + 1
    heap[place] = value


@compiled
def slack_step(tau, slack, key, area):
    """Put an on-time row into the sort buffer of `slack` rows; the event time that leaves it, or
    NO_TIME.

    area[:key.size] is the heap and has room for one more.  O(log slack).  Source: C section 4,
    after Aurora.
    """
    size = key.size
    area[size] = tau
    sift_up(area, size)
    if size < slack:
        key.size = size + 1
        return NO_TIME
    top = area[0]
    area[0] = area[size]
    sift_down(area, size)
    return top


@compiled
def slack_forget(low, high, key, area):
    """Keep only event times in (low, high] in the sort buffer: others left by other ways.  O(n log
    n)."""
    kept = 0
    for i in range(key.size):
        if low < area[i] <= high:
            area[kept] = area[i]
            sift_up(area, kept)
            kept += 1
    key.size = kept


@compiled
def before(held, a, b):
    """Whether entry a leaves before entry b: by event time, then by arrival."""
    return held[0, a] < held[0, b] or (held[0, a] == held[0, b] and held[1, a] < held[1, b])


@compiled
def swap(held, a, b):
    """Exchange two entries."""
    for row in range(3):
        held[row, a], held[row, b] = held[row, b], held[row, a]


@compiled
def rise(held, place):
    """Restore the order of the heap whose entry at `place` may be too small. O(log n)."""
    while place > 0:
        parent = (place - 1) >> 1
        if not before(held, place, parent):
            break
        swap(held, place, parent)
        place = parent


@compiled
def sink(held, size, place):
    """Restore the order of the heap whose entry at `place` may be too large. O(log n)."""
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and before(held, child + 1, child):
            child += 1
        if not before(held, child, place):
            break
        swap(held, place, child)
        place = child


@compiled
def take_out(held, place, key):
    """Remove the entry at `place`. O(log n)."""
    key.aside -= held[2, place]
    last = key.held - 1
    swap(held, place, last)
    key.held = last
    if place < last:
        sink(held, last, place)
        rise(held, place)


@compiled
def release_held(time, key, held):
    """Remove all rows with an event time at or below `time`. O(log n) each."""
    while key.held > 0 and held[0, 0] <= time:
        take_out(held, 0, key)


@compiled
def expel(first, end, key, held):
    """Remove the rows numbered from `first` to before `end` that are held. O(n) each."""
    found = True
    while found:  # a removal moves entries, perhaps to places that have been looked at
        found = False
        for place in range(key.held - 1, -1, -1):
            if place < key.held and first <= held[1, place] < end:
                take_out(held, place, key)
                found = True


@compiled
def hold(tau, number, aside, key, held):
    """Add a row; `aside` (0 or 1): the guard set it aside. O(log n)."""
    place = key.held
    held[0, place] = tau
    held[1, place] = number
    held[2, place] = aside
    key.held = place + 1
    key.aside += aside
    rise(held, place)


@compiled
def farthest(time, number, key, held):
    """The place of the row that would leave last of those set aside that are beyond `time` and
    numbered below `number`; -1 for none. O(n)."""
    place = -1
    for i in range(key.held):
        wanted = held[2, i] == 1 and held[0, i] > time and held[1, i] < number
        if wanted and (place < 0 or before(held, place, i)):
            place = i
    return place


@compiled
def bound_buffer(credible, plausible, max_buffer, key, held):
    """Release rows until at most `max_buffer` are held; the number of a row expelled, or -1.

    The oldest leave and force the punctuation forward. Rows set aside that are beyond `credible`,
    the horizon of the guard, may fill half of the buffer: if there are more, or nothing else is
    left, the one farthest in the future is expelled (it leaves as late, the punctuation stays). It
    must have been contradicted, by a later credible row, or lie beyond `plausible` where nothing
    else is left; otherwise it is right as far as anyone knows, and the oldest leave.
    held : int64[3, room], the controller's heap: event times, arrival numbers, marks
    O(log m) a row, O(m) where rows are set aside.  Source: C section 4, BSIZE.
    """
    if key.held <= max_buffer:
        return -1
    if held[0, 0] > credible or 2 * key.aside > max_buffer:
        contradicted = max(credible, key.credible_time)
        place = farthest(contradicted, key.credible_number, key, held)
        if place < 0 and held[0, 0] > credible:
            place = farthest(max(credible, plausible), key.count, key, held)
        if place >= 0:
            number = held[1, place]
            take_out(held, place, key)
            return number
    while key.held > max_buffer:
        key.punctuation = held[0, 0]
        release_held(key.punctuation, key, held)
    key.forced += 1
    return -1
