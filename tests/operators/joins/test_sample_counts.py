"""Joins over samples approach exact probabilities as docs/how-to/how-many-samples.md states."""

import json
from pathlib import Path

import pytest

from benchmarks.suites import samples

ROOT = Path(__file__).resolve().parents[3]
KEPT = json.loads((ROOT / "docs" / "benchmarks" / "samples.json").read_text())


def test_the_errors_in_the_picture_are_those_of_the_join():
    for found, kept in zip(samples.run(), KEPT, strict=True):
        assert found["setting"] == kept["setting"]
        for error in ("largest", "mean"):
            assert found[error] == pytest.approx(kept[error], rel=0.02, abs=1e-4), kept
