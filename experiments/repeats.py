"""Means and 95% intervals over independent runs."""

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

Result = TypeVar("Result")


def interval(values: Sequence[float], name: str = "mean") -> dict[str, float]:
    """Return {name: mean, low, high} with the 95% interval, 1.96 standard errors."""
    known = np.array([value for value in values if not np.isnan(value)])
    mean = float(known.mean()) if known.size else float("nan")
    error = 1.96 * float(known.std(ddof=1)) / known.size**0.5 if known.size > 1 else 0.0
    unit = "_seconds" if name.endswith("_seconds") else ""
    return {name: mean, f"low{unit}": mean - error, f"high{unit}": mean + error}


def means(runs: list[dict[str, Any]], *measured: str) -> pd.DataFrame:
    """Return a row per point that has runs, with the means of the measured columns."""
    table = pd.DataFrame(runs)
    point = [name for name in table if name not in measured]
    rows = []
    for values, part in table.groupby(point, sort=False):
        row = dict(zip(point, values, strict=True))
        for name in measured:
            found = interval(part[name].tolist(), name)
            names = [name, f"{name}_low", f"{name}_high"] if len(measured) > 1 else found
            row |= dict(zip(names, found.values(), strict=True))
        rows.append(row)
    return pd.DataFrame(rows)


def half_widths(values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return half of the 95% interval of each row's mean, by Student's t.

    values : float64[points, runs]; a single run has an infinite interval
    """
    runs = np.atleast_2d(np.asarray(values, np.float64))
    n = runs.shape[1]
    if n < 2:
        return np.full(len(runs), np.inf)
    return np.asarray(stats.t.ppf(0.975, n - 1) * runs.std(axis=1, ddof=1) / n**0.5)


def timed(call: Callable[[], Result]) -> tuple[Result, float]:
    """Return the result of a call, and the processor seconds it takes in this thread."""
    begin = time.thread_time()
    result = call()
    return result, time.thread_time() - begin


def seconds(call: Callable[[], object], tries: int = 1) -> float:
    """Return the processor time of a call: the shortest of some tries."""
    return min(timed(call)[1] for _ in range(tries))
