"""E's four real data sets as streams of objects that lose attributes, and the repository beside."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from sfumato.reproduce import datasets, stand_ins
from sfumato.reproduce.datasets import GAS_COLUMNS
from sfumato.reproduce.experiment import Setting

Floats = npt.NDArray[np.float64]

SETS = ("Intel lab", "gas", "weather", "stocks")
INTEL = ["temperature", "humidity", "light", "voltage"]
GAS = ["temperature", "humidity", "R7", "R8"]
STOCKS = ["open", "high", "low", "close"]
# E's are Vancouver, Portland, San Francisco and Seattle; a copy without some has their neighbours.
CITIES = ["Vancouver", "Portland", "San_Francisco", "Seattle", "Los_Angeles", "San_Diego"]


@dataclass(frozen=True)
class Objects:
    """A stream of objects that follow each other in time, and a repository from the rest.

    complete : float64[n, d], sides in turn    repository : float64[R, d]    first : of the arrivals
    that are judged and timed, those before fill the windows
    """

    complete: Floats
    repository: Floats
    first: int

    @property
    def side(self) -> npt.NDArray[np.uint8]:
        return (np.arange(len(self.complete)) % 2).astype(np.uint8)

    def with_gaps(self, rng: np.random.Generator, m: int) -> Floats:
        """Every object without m of its attributes, drawn at random (one always stays)."""
        gaps = self.complete.copy()
        m = min(m, gaps.shape[1] - 1)
        lost = np.argsort(rng.random(gaps.shape), axis=1)[:, :m]
        np.put_along_axis(gaps, lost, np.nan, axis=1)
        return gaps


def complete_rows(setting: Setting, name: str, d: int = 4) -> Floats:
    """Rows of d attributes without missing ones, in order of time, each scaled to [0, 1].

    Readings of dying batteries, above 50 C or of negative humidity, are left out.
    """
    table, columns = _table(setting, name, d)
    values = table[columns].to_numpy(np.float64)
    values = values[np.isfinite(values).all(axis=1)]
    low, high = values.min(axis=0), values.max(axis=0)
    return np.asarray((values - low) / np.where(high > low, high - low, 1.0))


def _table(setting: Setting, name: str, d: int) -> tuple[pd.DataFrame, list[str]]:
    if name == "Intel lab":
        table = setting.load(name, datasets.intel_lab, stand_ins.intel_lab)
        return table[(table.temperature < 50) & (table.humidity > 0)], INTEL[:d]
    if name == "gas":
        table = setting.load(name, datasets.gas, stand_ins.gas)
        return table.sort_values("ts", kind="stable"), _first(GAS, GAS_COLUMNS, d)
    if name == "weather":
        table = setting.load(name, datasets.weather, stand_ins.weather)["temperature"]
        return table, _first(CITIES, list(table.columns[1:]), d)
    table = setting.load(name, datasets.stocks, stand_ins.stocks)
    return table.sort_values(["date", "name"], kind="stable"), STOCKS[:d]


def _first(wanted: list[str], there: list[str], d: int) -> list[str]:
    """The d first columns of those wanted, then of all, that are there."""
    known = [column for column in wanted if column in there]
    return (known + [column for column in there if column not in known])[:d]


def split(
    rng: np.random.Generator, values: Floats, rows: int, judged: int, repository: int
) -> Objects:
    """A stretch from the middle as the stream, and rows drawn from the others as the repository.

    rows : the window; the stream is long enough to fill both, or half of all there is
    """
    length = min(2 * rows + judged, len(values) // 2)
    begin = (len(values) - length) // 2
    rest = np.delete(values, slice(begin, begin + length), axis=0)
    chosen = np.sort(rng.choice(len(rest), min(repository, len(rest)), replace=False))
    return Objects(values[begin : begin + length], rest[chosen], length - min(judged, length // 2))
