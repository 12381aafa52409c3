"""The page of benchmarks: made of what was measured, never typed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.page import MARK, SUITES, keep, plain, table, written

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
