"""The benchmark page is generated from the measured rows and never edited."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from benchmarks.data import traces
from benchmarks.page import MARK, SUITES, keep, plain, table, written
from benchmarks.suites import early_widths

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_in_docs_is_the_one_its_rows_make():
    folder = ROOT / "docs" / "benchmarks"
    assert {path.stem for path in folder.glob("*.json")} <= set(SUITES)
    assert (ROOT / "docs" / "benchmarks.md").read_text() == written(folder)


@pytest.mark.parametrize(
    ("page", "rows"),
    [
        ("scaling", "alone/growth"),
        ("static-frames", "alone/static_frames"),
        ("concepts/watermarks", "watermarks"),
    ],
)
def test_the_table_of_a_page_is_the_one_its_rows_make(page, rows):
    found = json.loads((ROOT / "docs" / "benchmarks" / f"{rows}.json").read_text())
    parts = (ROOT / "docs" / f"{page}.md").read_text().split(MARK)
    assert parts[1].strip() == table(found)


def test_rows_come_back_as_they_were_measured(tmp_path):
    rows = plain([{"name": "cdf", "ratio": np.float64(312.4), "met": np.bool_(True)}, {"n": 3}])
    keep(tmp_path, "cdf", rows)
    lines = written(tmp_path).split("\n")
    assert [line for line in lines if line.startswith("## ")] == ["## Cdf"]
    assert "| cdf | 312 | met |  |" in lines
    assert plain([{"goal": "", "met": True}]) == [{"goal": "", "met": None}]
    assert table([{"name": "a|b", "met": False}]).endswith("| a\\|b | **not met** |")


def rows_of(suite):
    return json.loads((ROOT / "docs" / "benchmarks" / f"{suite}.json").read_text())


def test_the_widths_of_early_answers_are_those_measured():
    page = " ".join((ROOT / "docs" / "how-to" / "early-answers.md").read_text().split())
    rows = {(row["name"], row["setting"][0]): row for row in rows_of("early_widths")}
    first, middle, last = (rows["flights", fifths] for fifths in "520")
    hours = [row["seconds left"] / 3600 for row in (first, middle, last)]
    assert f"windows of {first['window seconds'] / 3600:.1f} hours" in page
    assert f"known {hours[0]:.1f} hours before the final answer" in page
    assert f"{middle['avg']:.2f} times this width {hours[1]:.1f} hours before" in page
    assert f"{last['avg']:.2f} times this width {hours[2]:.1f} hours before" in page
    mobile = [row for row in rows.values() if row["name"] == "mobile network d-2"]
    assert f"windows of {mobile[0]['window seconds']:.1f} seconds" in page
    assert f"up to {max(row['count'] for row in mobile):.1f} times as wide" in page


def test_the_figures_of_imputed_streams_are_those_measured():
    lines = (ROOT / "docs" / "research" / "imputation.md").read_text().splitlines()
    rows = {(row["name"], row["setting"]): row for row in rows_of("imputation_of_streams")}
    for name in ("airports", "St Bernard"):
        for way in ("changes", "not corrected", "last + past", "multiple"):
            error, score, coverage, width = (
                rows[name, "past"][f"{way} {score}"]
                for score in ("error", "score", "coverage", "width")
            )
            figures = f"| {error:.3f} | {score:.3f} | {coverage:.3f} | {width:.2f} |"
            assert any(figures in line for line in lines), (name, way, figures)
    for (name, setting), row in rows.items():
        if name in ("walks around a level", "random walks"):
            shares = [row["changes coverage"], row.get("shared coverage")]
            cells = [setting, *("" if share is None else f"{share:.2f}" for share in shares)]
            line = re.sub(" +", " ", f"| {name} | {' | '.join(cells)} |")
            assert line in lines, line
        if setting == "400 rows":
            both = row, rows[name, "3000 rows"]
            cells = [
                f"{of[f'{way} coverage']:.2f}"
                for of in both
                for way in ("not corrected", "changes")
            ]
            label = {"no change": "none"}.get(name, name)
            assert f"| {label} | {' | '.join(cells)} |" in lines, name


def test_early_widths_of_a_real_trace_are_those_kept(data_folder):
    real = dict(traces.real(data_folder))
    found = early_widths.widths("flights", *real["flights"])
    kept = [row for row in rows_of("early_widths") if row["name"] == "flights"]
    assert [row["setting"] for row in found] == [row["setting"] for row in kept]
    for row, other in zip(found, kept, strict=True):
        for name in ("seconds left", "share left", *early_widths.NAMES.values()):
            assert row[name] == pytest.approx(other[name], rel=0.02, abs=1e-4), (row, name)
