"""Four real data sets of Ren et al. (2019) as streams of objects that lose attributes."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from experiments.datasets import GAS_COLUMNS, load, scaled
from experiments.experiment import Setting
from experiments.incomplete_joins.earlier_dependencies import with_gaps, with_history
from sfumato.operators.arrays import Floats, Ints

SETS = ("Intel lab", "gas", "weather", "stocks")
INTEL = ["temperature", "humidity", "light", "voltage"]
GAS = ["temperature", "humidity", "R7", "R8"]
STOCKS = ["open", "high", "low", "close"]
# The paper has Vancouver, Portland, San Francisco and Seattle; in a copy without some of these
# cities, their neighbours replace them.
CITIES = ["Vancouver", "Portland", "San_Francisco", "Seattle", "Los_Angeles", "San_Diego"]


@dataclass(frozen=True)
class Objects:
    """A stream of consecutive objects, and a repository drawn from the other rows.

    complete : float64[n, d], sides in turn    begin : int, place of the first in the data
    others : float64[N, d], all other rows     lent : int64[R], rows in the repository
    first : number of the first arrival that is judged and timed; earlier ones fill the windows
    overlapping : whether stretches of the same set have rows in common
    """

    complete: Floats
    begin: int
    others: Floats
    lent: Ints
    first: int
    overlapping: bool

    @property
    def side(self) -> npt.NDArray[np.uint8]:
        return (np.arange(len(self.complete)) % 2).astype(np.uint8)

    @property
    def at(self) -> Floats:
        """The objects' times: their places in the data."""
        return np.arange(self.begin, self.begin + len(self.complete), dtype=np.float64)

    @property
    def repository(self) -> Floats:
        return self.others[self.lent]

    def repository_with_history(self, rng: np.random.Generator, m: int) -> Floats:
        """Return float64[<= R, 3 d]: repository rows with all their earlier values and ages.

        The other rows, dealt to two streams in turn like the objects, also lose m attributes each.
        Rows with an unknown earlier value are left out.
        """
        n, length = len(self.others), len(self.complete)
        at = np.arange(n, dtype=np.float64)
        at[self.begin :] += length
        rows = with_history(self.others, with_gaps(rng, self.others, m), at, np.arange(n) % 2)
        known: Floats = rows[self.lent]
        return known[np.isfinite(known).all(axis=1)]


def complete_rows(setting: Setting, name: str, d: int = 4) -> Floats:
    """Return rows of d attributes without missing values, in time order, scaled to [0, 1]."""
    table, columns = _table(setting, name, d)
    values = table[columns].to_numpy(np.float64)
    return scaled(values[np.isfinite(values).all(axis=1)])


def _table(setting: Setting, name: str, d: int) -> tuple[pd.DataFrame, list[str]]:
    table = load(setting, name)
    if name == "Intel lab":
        return table[(table.temperature < 50) & (table.humidity > 0)], INTEL[:d]
    if name == "gas":
        return table.sort_values("ts", kind="stable"), _first(GAS, GAS_COLUMNS, d)
    if name == "weather":
        table = table["temperature"]
        return table, _first(CITIES, list(table.columns[1:]), d)
    return table.sort_values(["date", "name"], kind="stable"), STOCKS[:d]


def _first(wanted: list[str], there: list[str], d: int) -> list[str]:
    """Return the first d available columns: first the `wanted` ones, then the others."""
    known = [column for column in wanted if column in there]
    return (known + [column for column in there if column not in known])[:d]


def split(
    rng: np.random.Generator,
    values: Floats,
    rows: int,
    judged: int,
    repository: int,
    stretch: tuple[int, int] = (0, 1),
) -> Objects:
    """Take a stretch of the data as the stream, and draw the repository from the other rows."""
    length = min(2 * rows + judged, len(values) // 2)
    number, of = stretch
    step = (len(values) - length) / of
    begin = int(step * (number + 0.5))
    rest = np.delete(values, slice(begin, begin + length), axis=0)
    chosen = np.sort(rng.choice(len(rest), min(repository, len(rest)), replace=False))
    first = length - min(judged, length // 2)
    overlapping = of > 1 and step < length
    return Objects(values[begin : begin + length], begin, rest, chosen, first, overlapping)
