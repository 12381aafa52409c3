"""A bounded, sorted sample of the newest event times: how many rows lie behind a punctuation."""

from sfumato.kernels.arrays import first_at_least
from sfumato.kernels.compile import compiled

LARGEST_SAMPLE = 1024


@compiled
def later(sample, size, time):
    """How many of the ascending sample[:size] are later than `time`. O(log size)."""
    return size - first_at_least(sample, 0, size, time + 1)


@compiled
def sampled(number, thinning):
    """Whether row `number` is one in `thinning` (a power of two): by Fibonacci hashing, so that no
    pattern of the stream meets one of the sample."""
    return (number * 7046029254386353131 >> 40) & (thinning - 1) == 0


@compiled
def shrink(sample, size, oldest, thinning):
    """Halve a full sample; returns (size, thinning).

    The older half goes if the rows later than `oldest` fit into the other; otherwise every second
    time goes and the sample is thinned. If the rows fit into an eighth, a thinned sample is made
    denser: the newest quarter, each time standing for two until newer rows replace it.
    O(size), once every size / 2 rows sampled.  Error: a thinned sample counts rows to within about
    thinning * sqrt(rows / thinning).
    """
    half = size // 2
    need = later(sample, size, oldest)
    if need > half:
        for i in range(half):
            sample[i] = sample[2 * i + 1]
        return half, 2 * thinning
    if thinning > 1 and need < size // 8:
        quarter = size // 4
        for i in range(half):
            sample[i] = sample[size - quarter + i // 2]
        return half, thinning // 2
    for i in range(half):
        sample[i] = sample[size - half + i]
    return half, thinning


@compiled
def insert_time(sample, size, time):
    """Put a time into the ascending sample, unless below one that is half full; the new size."""
    place = size
    while place > 0 and sample[place - 1] > time:
        place -= 1
    if place == 0 and size >= LARGEST_SAMPLE // 2:
        return size
    for i in range(size, place, -1):
        sample[i] = sample[i - 1]
    sample[place] = time
    return size + 1


@compiled
def still_later(sample, size, held, time):
    """How many of sample[:size] are later than `time`, at most `held`.  O(1) amortised, as time
    goes on."""
    while held > 0 and sample[size - held] <= time:
        held -= 1
    return held
