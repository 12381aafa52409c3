"""The page of benchmarks: made of what was measured, never typed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

from page import keep, plain, table, written  # noqa: E402


def test_the_page_in_docs_is_the_one_its_rows_make():
    folder = ROOT / "docs" / "benchmarks"
    suites = sorted(path.stem for path in folder.glob("*.json"))
    page = (ROOT / "docs" / "benchmarks.md").read_text()
    titles = [line[3:].lower().replace(" ", "_") for line in page.split("\n") if line[:3] == "## "]
    assert sorted(titles) == suites
    assert page == written(folder, titles)


def test_the_page_of_scaling_is_the_one_its_figures_make():
    from cluster.report import written as page_of

    figures = json.loads((ROOT / "docs" / "benchmarks" / "alone" / "scaling.json").read_text())
    assert (ROOT / "docs" / "scaling.md").read_text() == page_of(figures)


def test_rows_come_back_as_they_were_measured(tmp_path):
    rows = plain([{"name": "cdf", "ratio": np.float64(312.4), "met": np.bool_(True)}, {"n": 3}])
    keep(tmp_path, "cdf", rows)
    lines = written(tmp_path, ["cdf", "windows"]).split("\n")
    assert [line for line in lines if line.startswith("## ")] == ["## Cdf"]
    assert "| cdf | 312 | met |  |" in lines
    assert plain([{"goal": "", "met": True}]) == [{"goal": "", "met": None}]
    assert table([{"name": "a|b", "met": False}]).endswith("| a\\|b | **not met** |")
