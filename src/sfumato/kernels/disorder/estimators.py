"""All estimators of punctuations except the conformal one, and the bound on the buffer."""

import math

from sfumato.kernels.arrays import precedes, sift_down, sift_up, swap
from sfumato.kernels.compile import compiled, inlined
from sfumato.kernels.disorder.state import NO_TIME

DELAYS_PER_TERM = 20  # rows whose largest delay is one term of the average
SHORTEST_VSEQ = 30  # pairs
LONGEST_VSEQ = 16_384  # pairs; a very small theta would require more


@inlined
def largest_step(tau, t, averaged, key):
    """Return t - D after a row, where D is the largest delay t - tau so far, or a mean of maxima.

    The largest delay is never forgotten: one slow row delays all later rows. With `averaged`, D is
    the mean of the largest delays per block of DELAYS_PER_TERM rows, including the current block.
    O(1).  Source: Srivastava & Widom (PODS 2004), as described in Kim et al. (2006), section 7.
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
def add_exactly(high, low, value, value_low):
    """Add two double-doubles.  Error: 2**-104 of the largest partial sum.  Source: Knuth."""
    total = high + value
    part = total - high
    error = (high - (total - part)) + (value - part) + low + value_low
    renewed = total + error
    return renewed, error - (renewed - total)


@compiled
def add_delay(place, sign, key, ring):
    """Add a delay to the sums of VSeq, or remove it with sign -1.  Error: as in `add_exactly`."""
    value = float(ring[0, place] - ring[1, place] - key.base)
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
def drop_oldest(key, ring):
    add_delay(key.head, -1.0, key, ring)
    key.head = (key.head + 1) % ring.shape[1]
    key.size -= 1


@compiled
def refresh(key, ring):
    """Recompute the sums of VSeq relative to its mean, to keep the sums small."""
    key.base += int(key.total / key.size)
    key.turn = 0
    key.total = key.total_low = key.squares = key.squares_low = 0.0
    for i in range(key.size):
        add_delay((key.head + i) % ring.shape[1], 1.0, key, ring)


@inlined
def normal_step(tau, t, control, key, ring):
    """Return the punctuation for normally distributed delays, or NO_TIME while VSeq is filling.

    VSeq, a ring of the newest pairs (t, tau), stores arrivals in row 0 and event times in row 1.
    When VSeq is full, let theta be the mean gap between arrivals, and mu and sigma the mean and
    standard deviation of the delays. Then n_p = (c + sqrt(c**2 + 8 c (sigma / theta)**2)) / 2, and
    the punctuation is t - mu - n_p theta (5.8). From then on VSeq has max(30, n_p) pairs, at most
    LONGEST_VSEQ. n_p is rounded up (the conservative choice), or down, as in the source, with
    `control.floor`. For theta = 0 (equal arrival times), n_p theta = sqrt(2 c) sigma.
    O(1) amortised.  Error: sums 2**-104 relative; mu, sigma, theta float64.
    Source: Kim et al. (2006), section 5, equations (5.4), (5.7), (5.8); theta divides by n - 1.
    """
    c = control.deviations
    if key.fed == 1:
        key.size = key.head = key.turn = 0
        key.total = key.total_low = key.squares = key.squares_low = 0.0
        key.base = t - tau
        key.limit = SHORTEST_VSEQ
    if key.size == key.limit:
        drop_oldest(key, ring)
    at = (key.head + key.size) % ring.shape[1]
    ring[0, at], ring[1, at] = t, tau
    key.size += 1
    add_delay(at, 1.0, key, ring)
    key.turn += 1
    n = key.size
    if n < key.limit:
        return NO_TIME
    if key.turn >= n:
        refresh(key, ring)
    theta = (t - ring[0, key.head]) / (n - 1)
    mu = key.total / n
    sigma = math.sqrt(max(key.squares / n - mu * mu, 0.0))
    if theta > 0.0:
        length = 0.5 * (c + math.sqrt(c * c + 8.0 * c * (sigma / theta) ** 2))
        length = math.floor(length) if control.floor else math.ceil(length)
        reach = length * theta
        key.limit = int(min(max(length, SHORTEST_VSEQ), LONGEST_VSEQ))
        while key.size > key.limit:
            drop_oldest(key, ring)
    else:
        reach = math.sqrt(2.0 * c) * sigma
    return t - key.base - math.ceil(mu + reach)


@compiled
def drop_range(heap, size, lane, low, high):
    """Remove the entries with low <= heap[lane] < high; return the new size. O(n log n)."""
    kept = 0
    for i in range(size):
        if not low <= heap[lane, i] < high:
            swap(heap, i, kept)
            sift_up(heap, kept)
            kept += 1
    return kept


@inlined
def slack_step(tau, slack, key, heap):
    """Add an on-time row to the sort buffer; return the event time that it releases, or NO_TIME.

    heap : int64[2, room], the event times and zeros
    O(log slack).  Source: Kim et al. (2006), section 4, after Aurora.
    """
    if key.size < slack:
        heap[0, key.size], heap[1, key.size] = tau, 0
        sift_up(heap, key.size)
        key.size += 1
        return NO_TIME
    if slack == 0 or tau <= heap[0, 0]:
        return tau
    top = heap[0, 0]
    heap[0, 0] = tau
    sift_down(heap, slack, 0)
    return top


@compiled
def remove_held(place, key, held):
    key.aside -= held[2, place]
    key.held -= 1
    swap(held, place, key.held)
    if place < key.held:
        sift_up(held, place)
        sift_down(held, key.held, place)


@compiled
def release_held(time, key, held):
    """Remove all rows with an event time at or below `time`. O(log n) per row."""
    while key.held > 0 and held[0, 0] <= time:
        remove_held(0, key, held)


@compiled
def evict_rows(first, end, key, held):
    """Remove the buffered rows with numbers in [first, end). O(n log n)."""
    key.held = drop_range(held, key.held, 1, first, end)
    key.aside = held[2, : key.held].sum()


@inlined
def hold_row(tau, number, aside, key, held):
    """Add a row to the buffer; `aside` is 1 if the guard set it aside, or 0. O(log n)."""
    held[0, key.held], held[1, key.held], held[2, key.held] = tau, number, aside
    sift_up(held, key.held)
    key.held += 1
    key.aside += aside


@compiled
def farthest_aside(time, number, key, held):
    """Return the place of the last row set aside with an event time above `time` and a number below
    `number`, or -1. O(n)."""
    place = -1
    for i in range(key.held):
        wanted = held[2, i] == 1 and held[0, i] > time and held[1, i] < number
        if wanted and (place < 0 or precedes(held, place, i)):
            place = i
    return place


@compiled
def bound_buffer(credible, plausible, max_buffer, key, counts, held):
    """Release rows until at most `max_buffer` are held; return the row evicted as late, or -1.

    The oldest rows are released and force the punctuation forward. Rows set aside above `credible`,
    the guard's horizon, may fill half of the buffer. If they fill more than half, or if no other
    rows are left, the row farthest in the future is evicted: it is emitted as late, and the
    punctuation does not advance. Such a row is evicted only if a later credible row contradicts it,
    or if no other rows are left and it is above `plausible`. Otherwise its event time may be
    correct, and the oldest rows are released.
    held : int64[3, room], a heap: event times, arrival numbers, 1 for rows set aside
    O(log m) per row, O(m) if rows are set aside.  Source: Kim et al. (2006), section 4, BSIZE.
    """
    if key.held <= max_buffer:
        return -1
    if held[0, 0] > credible or 2 * key.aside > max_buffer:
        contradicted = max(credible, key.credible_time)
        place = farthest_aside(contradicted, key.credible_number, key, held)
        if place < 0 and held[0, 0] > credible:
            place = farthest_aside(max(credible, plausible), key.count, key, held)
        if place >= 0:
            number = held[1, place]
            remove_held(place, key, held)
            return number
    while key.held > max_buffer:
        key.punctuation = held[0, 0]
        release_held(key.punctuation, key, held)
    counts.forced += 1
    return -1
