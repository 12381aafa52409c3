"""Loaders: the publishers' formats and the compact copies give the same readings."""

import shutil

import numpy as np
import pandas as pd
import pytest

from experiments import datasets
from experiments.experiment import AbsentDataError, Setting


@pytest.mark.parametrize("name", datasets.SETS)
def test_missing_files_are_named(name, tmp_path):
    with pytest.raises(AbsentDataError, match=r"has no .*\.(txt|tsv|csv|dat|plt|parquet)"):
        datasets.load(Setting(data=tmp_path), name)
    with pytest.raises(AbsentDataError, match="give its folder with --data"):
        datasets.load(Setting(), name)


@pytest.mark.parametrize(
    ("ending", "between", "new"), [("", "  ", False), (".txt", ",", False), (".tsv", "\t", True)]
)
def test_ucr_text_of_every_release_is_read(tmp_path, ending, between, new):
    for old, since in datasets.UCR.items():
        name = since if new else old
        folder = tmp_path / name if new else tmp_path
        folder.mkdir(exist_ok=True)
        (folder / f"{name}_TRAIN{ending}").write_text(
            between.join(["1", "0.5", "-1.5e+00", "2"]) + "\n"
        )
        (folder / f"{name}_TEST{ending}").write_text(between.join(["-1", "3", "4", "5"]) + "\n\n")
    sets = datasets.ucr(tmp_path)
    assert list(sets) == list(datasets.UCR)
    np.testing.assert_array_equal(sets["Gun_Point"], [[0.5, -1.5, 2.0], [3.0, 4.0, 5.0]])


def test_an_original_ucr_file_and_the_compact_copy_hold_the_same_series(data_folder, tmp_path):
    text = data_folder / "ucr_Coffee_TRAIN.tsv"
    for name in datasets.UCR.values():
        shutil.copy(text, tmp_path / f"{name}_TRAIN.tsv")
        shutil.copy(text, tmp_path / f"{name}_TEST.tsv")
    read, compact = datasets.ucr(tmp_path)["Coffee"], datasets.ucr(data_folder)
    assert list(compact) == sorted(datasets.UCR)
    assert {name: series.shape for name, series in compact.items()}["Coffee"] == (56, 286)
    np.testing.assert_array_equal(read[:28], compact["Coffee"][:28])


def test_lines_of_the_intel_lab_that_end_early_keep_what_they_have(tmp_path):
    (tmp_path / "data.txt").write_text(
        "2004-03-31 03:38:15.757551 2 1 122.153 -3.91901 11.04 2.03397\n"
        "2004-02-28 00:59:16 3 1 19.9884\n"
        "2004-02-28 01:03:16.33393 11 2 19.3024 38.4629 45.08\n"
        "2004-02-28 01:04 12\n"
        "2004-02-28 01:06:16.013453 17 65407 19.1652 38.8039 45.08 2.68742\n"
    )
    table = datasets.intel_lab(tmp_path)
    assert table.moteid.tolist() == [1, 2, 1]
    assert table.temperature.tolist() == [19.9884, 19.3024, 122.153]
    assert table[["humidity", "light", "voltage"]].isna().sum().tolist() == [1, 1, 2]
    assert table.ts.iloc[1] == pd.Timestamp("2004-02-28 01:03:16.333930")


def test_the_original_intel_lab_text_and_the_compact_copy_hold_the_same_rows(data_folder, tmp_path):
    shutil.copy(data_folder / "intel_lab_raw_excerpt.txt", tmp_path / "data.txt")
    read, compact = datasets.intel_lab(tmp_path), datasets.intel_lab(data_folder)
    assert len(read) == 4_500
    assert read.dtypes.equals(compact.dtypes)
    both = read.merge(compact, how="left", indicator=True)
    assert (both._merge == "both").all()


def test_the_grid_of_52_motes_is_read_from_its_text(tmp_path, data_folder):
    compact = datasets.intel_lab_grid(data_folder)
    compact.iloc[:5, 1:].to_csv(tmp_path / "subsfin.txt", sep=" ", header=False, index=False)
    pd.testing.assert_frame_equal(datasets.intel_lab_grid(tmp_path), compact.head())


def test_stocks_of_the_csv_have_the_columns_of_the_compact_copy(tmp_path, data_folder):
    (tmp_path / "all_stocks_5yr.csv").write_text(
        "date,open,high,low,close,volume,Name\n"
        "2013-02-11,14.89,15.01,14.26,14.46,8882000,AAL\n"
        "2013-02-08,15.07,15.12,14.63,14.75,8407500,AAL\n"
        "2013-02-12,,,,14.27,8126000,AAL\n"
    )
    read, compact = datasets.stocks(tmp_path), datasets.stocks(data_folder)
    assert list(read) == list(compact)
    same = compact[compact.name == "AAL"].head(2).reset_index(drop=True)
    pd.testing.assert_frame_equal(read.head(2), same)
    assert read[["open", "high", "low"]].iloc[2].isna().all()


def test_weather_of_the_csv_names_cities_like_the_compact_copy(tmp_path, data_folder):
    compact = datasets.weather(data_folder)
    for measure, table in compact.items():
        original = table.iloc[:50].rename(columns=lambda name: name.replace("_", " "))
        original.to_csv(tmp_path / f"{measure}.csv", index=False)
    for measure, table in datasets.weather(tmp_path).items():
        pd.testing.assert_frame_equal(table, compact[measure].iloc[:50])


def test_gas_sensors_are_averaged_over_the_whole_minutes_of_a_stimulus(tmp_path):
    sensors = " ".join(f"R{i}" for i in range(1, 9))
    (tmp_path / "HT_Sensor_metadata.dat").write_text(
        "id\tdate\t\tclass\tt0\tdt\n0\t07-04-15\tbanana\t13.49\t0.04\n"
    )
    lines = [f"id time       {sensors}        Temp.      Humidity"]
    for time, r1 in ((-0.5, 99), (0.0, 10), (0.01, 20), (0.02, 40), (0.035, 99), (0.05, 99)):
        lines.append(f"0  {time}  {r1} 2 3 4 5 6 7 8  26.5  59.0")
    (tmp_path / "HT_Sensor_dataset.dat").write_text("\n".join(lines) + "\n")
    means = datasets.gas(tmp_path)
    assert means.R1.tolist() == [15.0, 40.0]  # 2.4 minutes: two whole ones
    assert means.minute.tolist() == [0, 1]
    assert means.ts.tolist() == [
        pd.Timestamp("2015-07-04 13:29:24"),
        pd.Timestamp("2015-07-04 13:30:24"),
    ]
    assert means["class"].tolist() == ["banana", "banana"]


def test_gas_sensors_of_the_compact_copy_have_the_same_columns(data_folder):
    table = datasets.gas(data_folder)
    assert list(table) == ["induction_id", "class", "ts", "minute", *datasets.GAS_COLUMNS]
    assert len(table) == 4_274


def test_an_original_trajectory_and_the_compact_copy_hold_the_same_points(data_folder, tmp_path):
    place = tmp_path / "Data" / "000" / "Trajectory"
    place.mkdir(parents=True)
    shutil.copy(data_folder / "geolife_raw_excerpt.plt", place / "20081023025304.plt")
    read, compact = datasets.geolife(tmp_path), datasets.geolife(data_folder)
    same = compact[compact.trajectory_id == "20081023025304"].reset_index(drop=True)
    pd.testing.assert_frame_equal(read, same[same.user_id == 0], check_dtype=False)


def test_sightings_are_read_with_the_column_names_of_2014_and_of_2021(tmp_path, data_folder):
    (tmp_path / "IIP_2014IcebergSeason.csv").write_text(
        "ICE-YEAR,BERG_NUMBER,DATE,TIME,LATITUDE,LONGITUDE,METHOD,SIZE,SHAPE,SOURCE\n"
        "2014,1,10/7/2013,2139,60.46,-63.51,SAT-HIGH,RAD,RAD,RSA2\n"
        "2014,1,10/27/2013,2156,59.88,-62.65,SAT-HIGH,RAD,RAD,RSA2\n"
    )
    (tmp_path / "IIP_2021IcebergSeason.csv").write_text(
        "ICEBERG_YEAR,ICEBERG_NUMBER,SIGHTING_DATE,SIGHTING_TIME,SIGHTING_LATITUDE,"
        "SIGHTING_LONGITUDE,SIGHTING_METHOD,SIZE,SHAPE,SOURCE\n"
        "2021,22,10/01/20,2133,55.19833,-58.195,SAT-HIGH,GEN,GEN,RCM1\n"
        "2021,35,10/07/20,948,52.32667,-54.48,SAT-HIGH,GEN,GEN,RCM1\n"
    )
    read, compact = datasets.iceberg_sightings(tmp_path), datasets.iceberg_sightings(data_folder)
    pd.testing.assert_frame_equal(read.head(2), compact.head(2))
    assert read.merge(compact).shape == read.shape
