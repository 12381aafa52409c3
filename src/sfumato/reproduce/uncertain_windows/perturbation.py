"""Uncertainty put into certain data: existence and values, as the papers' experiments draw them."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Law = Literal["uniform", "normal", "exponential"]


def existence(rng: np.random.Generator, n: int, sd: float, law: Law = "uniform") -> Floats:
    """n existence probabilities in (0, 1], below 1 by non-negative noise of the given law.

    sd : parameter of the noise, >= 0: U[0, sd·sqrt(12)], |N(0, sd)|, or Exp of mean sd. What falls
        out of (0, 1] is drawn again, which for the two unbounded laws makes the standard deviation
        a little smaller than `sd`.
    Source: A, section 7.1.
    """
    if sd == 0.0:
        return np.ones(n)
    drawn = np.empty(0)
    while drawn.size < n:
        some = 1.0 - _lack(rng, n, sd, law)
        drawn = np.concatenate([drawn, some[some > 0.0]])
    return drawn[:n]


def noise(
    rng: np.random.Generator, shape: tuple[int, ...], sd: float, law: Law = "normal"
) -> Floats:
    """Noise of mean 0 and standard deviation `sd` for values: uniform, normal or exponential.

    Source: A, section 7.1.
    """
    if law == "uniform":
        return rng.uniform(-sd * np.sqrt(3.0), sd * np.sqrt(3.0), shape)
    if law == "normal":
        return rng.normal(0.0, sd, shape)
    if law == "exponential":
        return rng.exponential(sd, shape) - sd
    raise ValueError(f"`law` must be 'uniform', 'normal' or 'exponential'; got {law!r}")


def _lack(rng: np.random.Generator, n: int, sd: float, law: Law) -> Floats:
    if law == "uniform":
        return rng.uniform(0.0, sd * np.sqrt(12.0), n)
    if law == "normal":
        return np.abs(rng.normal(0.0, sd, n))
    if law == "exponential":
        return rng.exponential(sd, n)
    raise ValueError(f"`law` must be 'uniform', 'normal' or 'exponential'; got {law!r}")
