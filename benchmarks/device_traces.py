"""Streams of devices, queues and retries, and streams that are short for their delays.

As in `traces.py`: int64 microseconds in order of arrival, `seed` is added to every seed.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traces import SECOND, Trace, in_arrival_order, poisson


def short(n: int, seed: int = 0) -> Iterator[tuple[str, Trace]]:
    """Delays as long as half a minute of stream, rates such that n rows are two minutes; and a
    dense stream, n rows within its typical delay."""
    rate = n / 120.0
    for i, (mean, sd) in enumerate(((2.0, 0.7), (10.0, 5.0), (20.0, 10.0))):
        rng = np.random.default_rng(seed + 700 + i)
        delay = np.maximum(rng.normal(mean, sd, n), 0)
        yield f"two minutes, {mean:g} s", in_arrival_order(poisson(rng, n, rate), SECOND * delay)
    for i, (middle, sigma) in enumerate(((1.0, 1.0), (5.0, 0.7))):
        rng = np.random.default_rng(seed + 710 + i)
        delay = middle * rng.lognormal(0, sigma, n)
        name = f"two minutes, log-normal {middle:g} s"
        yield name, in_arrival_order(poisson(rng, n, rate), SECOND * delay)
    rng = np.random.default_rng(seed + 720)
    delay = rng.lognormal(0, 0.7, n)
    yield "dense", in_arrival_order(poisson(rng, n, n / 1.0), SECOND * delay)


def devices(n: int, seed: int = 0) -> Iterator[tuple[str, Trace]]:
    """Uploads after an outage, retries with back-off, queues, partitions at uneven pace, steps."""
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
    yield "retries with back-off", in_arrival_order(poisson(rng, n), SECOND * delay)

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
        yield f"step up {factor:g} at {at:g}", in_arrival_order(poisson(rng, n), SECOND * delay)

    rng = np.random.default_rng(seed + 850)
    offset = rng.normal(0, 2.0, 50)[rng.integers(0, 50, n)]
    delay = 5.0 + offset + rng.exponential(0.1, n)
    yield "50 devices' own clocks", in_arrival_order(poisson(rng, n), SECOND * delay)


def _queues(event: np.ndarray, queue: np.ndarray, service: np.ndarray) -> np.ndarray:
    """Delays in queues, first come first served each (Lindley)."""
    out = np.empty(len(event))
    for q in np.unique(queue):
        mine = np.flatnonzero(queue == q)
        total = np.cumsum(service[mine])
        done = total + np.maximum.accumulate(event[mine] - total + service[mine])
        out[mine] = done - event[mine]
    return out
