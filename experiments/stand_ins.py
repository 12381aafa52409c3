"""Synthetic data in the shape of the public sets, for runs without these. Seeded, always the same.

They have the columns of the loaders in `datasets` and about their ranges, rhythm and gaps, no more:
whatever is measured on them is marked as measured on a stand-in.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd

from experiments import datasets
from experiments.datasets import GAS_COLUMNS, GRID_MOTES, UCR, WEATHER
from experiments.experiment import AbsentDataError, Setting
from sfumato.operators.arrays import Floats

START = np.datetime64("2004-02-28T00:00:00", "us")


def ucr() -> dict[str, Floats]:
    """17 sets of 40 smooth series of 60 to 604 values, mean 0 and standard deviation 1 each."""
    sets = {}
    for i, name in enumerate(UCR):
        rng = np.random.default_rng([1, i])
        length = 60 + 34 * i
        base = np.sin(np.linspace(0, rng.uniform(4, 25), length) + rng.uniform(0, 6))
        walks = np.cumsum(rng.normal(0, 1.5 / length**0.5, (40, length)), axis=1)
        series = base + walks
        series -= series.mean(axis=1, keepdims=True)
        sets[name] = series / series.std(axis=1, keepdims=True)
    return sets


def intel_lab() -> pd.DataFrame:
    """Nine motes for five days: daily rhythm, four measurements that go together, rows lost."""
    rng = np.random.default_rng(2)
    epochs = np.arange(5 * 86_400 // 31)
    parts = []
    for mote in (1, 4, 6, 19, 22, 23, 33, 34, 45):
        day = 2 * np.pi * epochs * 31 / 86_400
        temperature = 20 + 3 * np.sin(day) + mote / 30 + rng.normal(0, 0.1, epochs.size)
        part = pd.DataFrame({"ts": START + epochs * np.timedelta64(31_000_000, "us")})
        part["epoch"] = epochs.astype(np.int32)
        part["moteid"] = np.int16(mote)
        part["temperature"] = temperature
        part["humidity"] = 40 - 1.5 * (temperature - 20) + rng.normal(0, 0.3, epochs.size)
        part["light"] = np.maximum(250 * np.sin(day) + rng.normal(100, 10, epochs.size), 0)
        part["voltage"] = 2.7 - epochs / 1e5 + rng.normal(0, 0.003, epochs.size)
        parts.append(part[rng.random(epochs.size) < 0.6])
    return pd.concat(parts).sort_values("ts", kind="stable", ignore_index=True)


def intel_lab_grid() -> pd.DataFrame:
    """Temperatures of 52 motes each 30 seconds for five days."""
    rng = np.random.default_rng(3)
    steps = 14_400
    day = 3 * np.sin(2 * np.pi * np.arange(steps) / 2_880)[:, None]
    level = 19 + rng.normal(0, 1, len(GRID_MOTES))
    drift = np.cumsum(rng.normal(0, 0.02, (steps, len(GRID_MOTES))), axis=0)
    table = pd.DataFrame(day + level + drift, columns=GRID_MOTES)
    table.insert(0, "step", np.arange(steps, dtype=np.int32))
    return table


def stocks() -> pd.DataFrame:
    """100 stocks for 1,259 days: random walks of prices, open and close between low and high."""
    rng = np.random.default_rng(4)
    days = pd.bdate_range("2013-02-08", periods=1_259).astype("datetime64[us]")
    parts = []
    for i in range(100):
        close = np.exp(rng.uniform(2.5, 5) + np.cumsum(rng.normal(0, 0.015, days.size)))
        opening = close * np.exp(rng.normal(0, 0.008, days.size))
        spread = np.exp(np.abs(rng.normal(0, 0.006, (2, days.size))))
        part = pd.DataFrame({"date": days, "open": opening})
        part["high"] = np.maximum(opening, close) * spread[0]
        part["low"] = np.minimum(opening, close) / spread[1]
        part["close"] = close
        part["volume"] = rng.lognormal(15, 0.5, days.size).astype(np.int64)
        part["name"] = f"S{i:03d}"
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def weather() -> dict[str, pd.DataFrame]:
    """32 cities for two years of hours: seasons, days, cities alike, a few cells missing."""
    hours = pd.date_range("2012-10-01 12:00", periods=17_520, freq="h").astype("datetime64[us]")
    hour = np.arange(hours.size)[:, None]
    tables = {}
    for i, measure in enumerate(WEATHER):
        rng = np.random.default_rng([5, i])
        centre, season, noise = ((285, 12, 2), (65, 10, 8), (1015, 5, 3))[i]
        level = rng.normal(0, season / 4, 32)
        values = centre + level + season * np.sin(2 * np.pi * hour / 8_766)
        values = values + season / 3 * np.sin(2 * np.pi * hour / 24)
        values = values + rng.normal(0, noise, (hours.size, 1)) + rng.normal(0, noise / 3, (1, 32))
        values[rng.random(values.shape) < 0.005] = np.nan
        table = pd.DataFrame(values, columns=[f"City_{c:02d}" for c in range(32)])
        table.insert(0, "datetime", hours)
        tables[measure] = table
    return tables


def gas() -> pd.DataFrame:
    """97 stimuli of 44 minutes: eight resistances that fall and recover together."""
    rng = np.random.default_rng(6)
    minute = np.arange(44)
    parts = []
    for i in range(97):
        kind = ("banana", "wine", "background")[i % 3]
        dip = {"banana": 0.15, "wine": 0.4, "background": 0.0}[kind]
        shape = 1 - dip * np.exp(-minute / 15) + np.cumsum(rng.normal(0, 0.004, minute.size))
        level = rng.uniform(5, 13, 8)
        part = pd.DataFrame({"induction_id": np.int16(i), "class": kind}, index=minute)
        begin = np.datetime64("2015-07-04T13:29:24", "us") + np.timedelta64(i, "D")
        part["ts"] = begin + minute * np.timedelta64(60_000_000, "us")
        part["minute"] = minute.astype(np.int16)
        for r, column in enumerate(GAS_COLUMNS[:8]):
            part[column] = level[r] * shape * np.exp(rng.normal(0, 0.005, minute.size))
        part["temperature"] = 27 + np.cumsum(rng.normal(0, 0.03, minute.size))
        part["humidity"] = 58 + np.cumsum(rng.normal(0, 0.1, minute.size))
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def geolife() -> pd.DataFrame:
    """30 walks of 2,000 points in one city, a point each five seconds."""
    rng = np.random.default_rng(7)
    parts = []
    for i in range(30):
        heading = np.cumsum(rng.normal(0, 0.1, 2_000))
        step = rng.gamma(2, 4e-5, 2_000)
        begin = np.datetime64("2008-10-23T02:53:04", "us") + np.timedelta64(i, "D")
        part = pd.DataFrame(
            {"user_id": np.int16(i % 11), "trajectory_id": f"{i:014d}"}, range(2_000)
        )
        part["ts"] = begin + np.arange(2_000) * np.timedelta64(5_000_000, "us")
        part["lat"] = rng.normal(39.98, 0.02) + np.cumsum(step * np.sin(heading))
        part["lon"] = rng.normal(116.32, 0.02) + np.cumsum(step * np.cos(heading))
        part["alt_ft"] = 150 + np.cumsum(rng.normal(0, 1, 2_000))
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def iceberg_sightings() -> pd.DataFrame:
    """17,000 sightings of bergs that drift south; some bergs are seen many times."""
    rng = np.random.default_rng(8)
    n = 17_000
    berg = np.sort(rng.zipf(1.7, n) % 6_000).astype(np.int32) + 1
    methods = ["R/V", "VIS", "RAD", "SAT-HIGH", "SAT-MED", "SAT-LOW"]
    day = rng.uniform(0, 240, n)
    table = pd.DataFrame({"iceberg_year": np.int16(2014), "iceberg_number": berg})
    minutes = (day * 1_440).astype(np.int64) * np.timedelta64(60_000_000, "us")
    table["ts"] = np.datetime64("2014-01-01T00:00:00", "us") + minutes
    table["latitude"] = 56 - day / 24 + rng.normal(0, 1, n)
    table["longitude"] = -55 + rng.normal(0, 3, n)
    table["method"] = rng.choice(methods, n, p=[0.62, 0.21, 0.05, 0.09, 0.01, 0.02])
    table["size"] = rng.choice(["GR", "SM", "MED", "LG", "GEN"], n)
    table["shape"] = rng.choice(["TAB", "DD", "BLK", "GEN"], n)
    table["source"] = "SYNTHETIC"
    return table.sort_values(["iceberg_number", "ts"], kind="stable", ignore_index=True)


def out_of_order_sessions() -> pd.DataFrame:
    """Five sessions of ten minutes, 14 to 18 rows per second, delays with a heavy tail."""
    rng = np.random.default_rng(9)
    parts = []
    for number, rate in enumerate((16, 18, 16, 14, 14), 1):
        rows = 600 * rate
        event = np.sort(rng.uniform(0, 600e6, rows)).astype(np.int64)
        delay = (1e5 * rng.lognormal(0, 0.5, rows) + 1e4 * rng.pareto(1.5, rows)).astype(np.int64)
        part = pd.DataFrame({"session": f"d-{number}"}, range(rows))
        part["event_time"] = START + event.astype("timedelta64[us]")
        part["arrival_time"] = part.event_time + np.minimum(delay, 5_000_000) * np.timedelta64(
            1, "us"
        )
        parts.append(part.sort_values("arrival_time", kind="stable"))
    return pd.concat(parts, ignore_index=True)


SETS: dict[str, tuple[Callable[..., Any], Callable[[], Any]]] = {
    "UCR archive": (datasets.ucr, ucr),
    "Intel lab": (datasets.intel_lab, intel_lab),
    "Intel lab, grid": (datasets.intel_lab_grid, intel_lab_grid),
    "stocks": (datasets.stocks, stocks),
    "weather": (datasets.weather, weather),
    "gas": (datasets.gas, gas),
    "GeoLife": (datasets.geolife, geolife),
    "Iceberg Patrol": (datasets.iceberg_sightings, iceberg_sightings),
    "OoO-Dataset": (datasets.out_of_order_sessions, out_of_order_sessions),
}


def load(setting: Setting, name: str) -> Any:
    """A data set from the setting's folder; where it is absent, its stand-in, which is noted."""
    loader, stand_in = SETS[name]
    if setting.data is not None:
        with suppress(AbsentDataError):
            return loader(setting.data)
    if name not in setting.stand_ins:
        setting.stand_ins.append(name)
    return stand_in()
