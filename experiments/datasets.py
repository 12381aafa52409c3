"""The public data sets of the papers' experiments, read from a folder that the user provides.

Each loader looks in the folder for the files as their publishers provide them, at the top or in the
set's own subfolder, then for a compact Parquet copy of the same readings. If there is neither, it
raises AbsentDataError, which names the expected files. Times have no zone: they are the source's
clock. A missing value is NaN (a missing string None).
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.experiment import AbsentDataError, Setting
from sfumato.operators.arrays import Floats

# The 17 sets of Dallachiesa et al. (2015): their names in the paper, and in the archive since 2018.
UCR = {
    "50words": "FiftyWords",
    "Adiac": "Adiac",
    "Beef": "Beef",
    "CBF": "CBF",
    "Coffee": "Coffee",
    "ECG200": "ECG200",
    "FISH": "Fish",
    "FaceAll": "FaceAll",
    "FaceFour": "FaceFour",
    "Gun_Point": "GunPoint",
    "Lighting2": "Lightning2",
    "Lighting7": "Lightning7",
    "OSULeaf": "OSULeaf",
    "OliveOil": "OliveOil",
    "SwedishLeaf": "SwedishLeaf",
    "Trace": "Trace",
    "synthetic_control": "SyntheticControl",
}
INTEL_COLUMNS = ["epoch", "moteid", "temperature", "humidity", "light", "voltage"]
GRID_MOTES = [f"mote{i:02d}" for i in range(1, 55) if i not in (5, 15)]
GAS_COLUMNS = [*(f"R{i}" for i in range(1, 9)), "temperature", "humidity"]
SIGHTING_COLUMNS = [
    "iceberg_year", "iceberg_number", "ts", "clock", "latitude", "longitude", "method", "size",
    "shape", "source",
]  # fmt: skip
WEATHER = ("temperature", "humidity", "pressure")


def ucr(folder: Path) -> dict[str, Floats]:
    """Return the time series of the UCR archive: float64[series, length] for each of the 17 sets.

    Training series first, then test series; the class labels are left out. Text files of any
    release: NAME_TRAIN and NAME_TEST with .txt, .tsv or no suffix, values between commas, tabs or
    blanks, the label first; otherwise `ucr17.parquet`.
    """
    found = {name: _ucr_text(folder, (name, since)) for name, since in UCR.items()}
    if all(found.values()):
        return {name: _ucr_values(paths) for name, paths in found.items()}
    table = _parquet(folder, "ucr17.parquet", *(f"{new}_TRAIN.tsv" for new in UCR.values()))
    # "train" sorts after "test".
    table = table.sort_values("split", ascending=False, kind="stable")
    return {str(name): np.array(part["values"].tolist()) for name, part in table.groupby("dataset")}


def intel_lab(folder: Path) -> pd.DataFrame:
    """Return readings of the Intel Berkeley lab, in order of ts.

    Columns: ts, epoch, moteid, temperature (C), humidity (%), light (lux), voltage (V). Text
    `data.txt`, separated by blanks. Lines that end early have NaN for the missing values; lines
    without a valid mote (1 to 54) are left out. Otherwise `intel_lab_9motes.parquet`: nine of the
    motes.
    """
    path = _first(folder, "data.txt", "intel/data.txt", "data.txt.gz")
    if path is None:
        return _parquet(folder, "intel_lab_9motes.parquet", "data.txt")
    names = ["date", "time", *INTEL_COLUMNS]
    text = pd.read_csv(path, sep=r"\s+", header=None, names=names, dtype=str, engine="c")
    table = text[INTEL_COLUMNS].apply(pd.to_numeric, errors="coerce")
    clock = text["date"] + " " + text["time"]
    table.insert(0, "ts", pd.to_datetime(clock, format="ISO8601", errors="coerce"))
    known = table.ts.notna() & table.epoch.notna() & table.moteid.between(1, 54)
    table = table[known].sort_values("ts", kind="stable", ignore_index=True)
    table["ts"] = table.ts.astype("datetime64[us]")
    return table.astype({"epoch": np.int32, "moteid": np.int16})


def intel_lab_grid(folder: Path) -> pd.DataFrame:
    """Return temperatures (C) of 52 motes every 30 seconds for five days: step, mote01, ...

    Gaps are filled. `subsfin.txt` of Le Borgne and others; otherwise
    `intel_lab_temperature_grid52.parquet`.
    """
    path = _first(folder, "subsfin.txt", "intel/subsfin.txt")
    if path is None:
        return _parquet(folder, "intel_lab_temperature_grid52.parquet", "subsfin.txt")
    table = pd.read_csv(path, sep=r"\s+", header=None, names=GRID_MOTES, dtype=np.float64)
    table.insert(0, "step", np.arange(len(table), dtype=np.int32))
    return table


def stocks(folder: Path) -> pd.DataFrame:
    """Return the S&P 500: date, open, high, low, close (USD), volume (shares), name in order.

    `all_stocks_5yr.csv`; otherwise `sp500_stocks_5yr.parquet`.
    """
    path = _first(folder, "all_stocks_5yr.csv", "sandp500/all_stocks_5yr.csv")
    if path is None:
        table = _parquet(folder, "sp500_stocks_5yr.parquet", "all_stocks_5yr.csv")
    else:
        table = pd.read_csv(path).rename(columns=str.lower)
    table["date"] = pd.to_datetime(table.date).astype("datetime64[us]")
    return table.sort_values(["name", "date"], kind="stable", ignore_index=True)


def weather(folder: Path) -> dict[str, pd.DataFrame]:
    """Return hourly weather: a frame each of temperature (K), humidity (%) and pressure (hPa).

    Columns: datetime, then one per city, with underscores for blanks.
    `temperature.csv`, `humidity.csv` and `pressure.csv`; otherwise `weather_hourly_*.parquet`.
    """
    return {measure: _weather(folder, measure) for measure in WEATHER}


def gas(folder: Path) -> pd.DataFrame:
    """Return one-minute means of gas sensors in a home, per stimulus.

    Columns: induction_id, class, ts, minute, R1 to R8, temperature (C), humidity (%).
    `HT_Sensor_dataset.dat` with `HT_Sensor_metadata.dat` (UCI); otherwise
    `gas_home_activity_1min.parquet`. Only minutes that end within the stimulus are included.
    """
    name, about = "HT_Sensor_dataset.dat", "HT_Sensor_metadata.dat"
    data = _first(folder, name, f"HT_Sensor_dataset/{name}", f"gas/{name}")
    metadata = _first(folder, about, f"HT_Sensor_dataset/{about}", f"gas/{about}")
    if data is None or metadata is None:
        return _parquet(folder, "gas_home_activity_1min.parquet", name, about)
    seconds = pd.read_csv(data, sep=r"\s+").rename(
        columns={"id": "induction_id", "Temp.": "temperature", "Humidity": "humidity"}
    )
    start = pd.read_csv(metadata, sep=r"\s+").rename(columns={"id": "induction_id"})
    seconds = seconds.merge(start, on="induction_id")
    seconds["minute"] = np.floor(seconds.time * 60 + 1e-9).astype(np.int16)
    inside = (seconds.time >= 0) & ((seconds.minute + 1) / 60 <= seconds.dt + 1e-9)
    by = ["induction_id", "class", "date", "t0", "minute"]
    means = seconds[inside].groupby(by, as_index=False, sort=False)[GAS_COLUMNS].mean()
    since = pd.to_timedelta(means.t0, unit="h") + pd.to_timedelta(means.minute, unit="min")
    means["ts"] = (pd.to_datetime(means.date, format="%m-%d-%y") + since).astype("datetime64[us]")
    return means[["induction_id", "class", "ts", "minute", *GAS_COLUMNS]]


def geolife(folder: Path) -> pd.DataFrame:
    """Return trajectories: user_id, trajectory_id, ts (GMT), lat, lon (degrees), alt_ft (feet).

    USER/Trajectory/*.plt, in the folder, in `Data` or in `geolife/Data`; otherwise
    `geolife_11users.parquet`.
    """
    for part in ("", "Data", "geolife/Data", "Geolife Trajectories 1.3/Data"):
        if paths := sorted((folder / part).glob("*/Trajectory/*.plt")):
            return pd.concat([_plt(path) for path in paths], ignore_index=True)
    return _parquet(folder, "geolife_11users.parquet", "Data/*/Trajectory/*.plt")


def iceberg_sightings(folder: Path) -> pd.DataFrame:
    """Return sightings of the International Ice Patrol.

    Columns: iceberg_year, iceberg_number, ts, latitude, longitude (degrees), method (R/V, VIS, RAD,
    SAT-HIGH, SAT-MED, SAT-LOW), size, shape, source.
    `IIP_*IcebergSeason.csv` (NSIDC G00807; column names of 2014 or of 2021); otherwise
    `iip_sightings_2014_2021.parquet`.
    """
    paths = sorted([*folder.glob("IIP_*IcebergSeason.csv"), *folder.glob("iip/IIP_*Season.csv")])
    if not paths:
        return _parquet(folder, "iip_sightings_2014_2021.parquet", "IIP_*IcebergSeason.csv")
    return pd.concat([_season(path) for path in paths], ignore_index=True)


def out_of_order_sessions(folder: Path) -> pd.DataFrame:
    """Return sessions of the OoO-Dataset over UMTS: session, event_time, arrival_time (UTC).

    Rows are in order of session and arrival. `ooo_dataset_d.parquet`: sessions d-1 to d-5.
    """
    table = _parquet(folder, "ooo_dataset_d.parquet")[["session", "event_time", "arrival_time"]]
    for name in ("event_time", "arrival_time"):
        table[name] = pd.to_datetime(table[name]).dt.tz_localize(None).astype("datetime64[us]")
    return table.sort_values(["session", "arrival_time"], kind="stable", ignore_index=True)


SETS: dict[str, Callable[[Path], Any]] = {
    "UCR archive": ucr,
    "Intel lab": intel_lab,
    "Intel lab, grid": intel_lab_grid,
    "stocks": stocks,
    "weather": weather,
    "gas": gas,
    "GeoLife": geolife,
    "Iceberg Patrol": iceberg_sightings,
    "OoO-Dataset": out_of_order_sessions,
}


def load(setting: Setting, name: str) -> Any:
    """Load a data set from the setting's folder. Raises AbsentDataError if it is not there."""
    if setting.data is None:
        raise AbsentDataError(f"needs the data set {name}: give its folder with --data")
    return SETS[name](setting.data)


def scaled(values: Floats) -> Floats:
    """Scale every column to [0, 1]."""
    low, high = values.min(axis=0), values.max(axis=0)
    return np.asarray((values - low) / np.where(high > low, high - low, 1.0))


def _first(folder: Path, *names: str) -> Path | None:
    return next((folder / name for name in names if (folder / name).is_file()), None)


def _parquet(folder: Path, name: str, *originals: str) -> pd.DataFrame:
    path = folder / name
    if not path.is_file():
        wanted = f"{', '.join(originals)}, nor {name}" if originals else name
        raise AbsentDataError(f"{folder} has no {wanted}")
    return pd.read_parquet(path)


def _ucr_text(folder: Path, names: Iterable[str]) -> list[Path]:
    """Return the training and the test file of a set, or nothing."""
    for name in names:
        for part in (".", name, "ucr", f"ucr/{name}"):
            for ending in ("", ".txt", ".tsv"):
                paths = [folder / part / f"{name}_{half}{ending}" for half in ("TRAIN", "TEST")]
                if all(path.is_file() for path in paths):
                    return paths
    return []


def _ucr_values(paths: Iterable[Path]) -> Floats:
    texts = [path.read_text().replace(",", " ").splitlines() for path in paths]
    return np.concatenate([np.loadtxt(text, ndmin=2)[:, 1:] for text in texts])


def _weather(folder: Path, measure: str) -> pd.DataFrame:
    name = f"{measure}.csv"
    path = _first(folder, name, f"weather/{name}", f"historical-hourly-weather-data/{name}")
    if path is None:
        return _parquet(folder, f"weather_hourly_{measure}.parquet", name)
    table = pd.read_csv(path).rename(columns=lambda city: city.replace(" ", "_"))
    table["datetime"] = pd.to_datetime(table.datetime).astype("datetime64[us]")
    return table


def _plt(path: Path) -> pd.DataFrame:
    names = ["lat", "lon", "zero", "alt_ft", "days", "date", "time"]
    text = pd.read_csv(path, skiprows=6, header=None, names=names)
    ts = pd.to_datetime(text.date + " " + text.time).astype("datetime64[us]")
    user = np.full(len(text), int(path.parent.parent.name), np.int16)
    table = pd.DataFrame({"user_id": user, "trajectory_id": path.stem, "ts": ts})
    table[["lat", "lon"]] = text[["lat", "lon"]]
    table["alt_ft"] = text.alt_ft.where(text.alt_ft != -777).astype(np.float64)  # -777: unknown
    return table


def _season(path: Path) -> pd.DataFrame:
    table = pd.read_csv(path, dtype=str, keep_default_na=False).iloc[:, :10]
    table = table.set_axis(SIGHTING_COLUMNS, axis=1)
    clock = table.pop("clock").str.zfill(4)
    ts = pd.to_datetime(table.ts.map(_iso) + " " + clock, format="%Y-%m-%d %H%M")
    table["ts"] = ts.astype("datetime64[us]")
    numbers = {"iceberg_year": np.int16, "iceberg_number": np.int32}
    return table.astype({**numbers, "latitude": np.float64, "longitude": np.float64})


def _iso(date: str) -> str:
    """Convert 10/7/2013 and 10/07/13 to 2013-10-07."""
    month, day, year = date.split("/")
    century = "20" if len(year) == 2 else ""
    return f"{century}{year}-{int(month):02d}-{int(day):02d}"
