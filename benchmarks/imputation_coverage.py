"""What imputed distributions are worth: coverage and score on hidden values of six real sets.

Four attributes of each set, scaled to [0, 1]. Rows drawn one by one lose m of them; of the other
rows a sample is the repository. Dependencies are those of every attribute on every other one, in
three degrees of nearness. For each hidden value the distribution of its attribute is asked:

coverage  share of the values within the range from 5% to 95%; the goal is 86% to 94%
score     continuous ranked probability score, times 1000: of a single value the absolute error.
          The goal is to be lower than all of kNN (mean of the five nearest rows of the
          repository), interpolation between the hidden row's neighbours in the sample, and the last
          value, on at least five of the sets

`plain` is E's way, the first combination of dependencies that has a donor.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from imputation_quality import NAMES, REPOSITORY, SETS, load
from sfumato.operators.imputation.imputer import Imputer
from sfumato.operators.imputation.imputer_settings import METHODS
from sfumato.reproduce.incomplete_joins import baselines
from sfumato.reproduce.incomplete_joins.earlier_dependencies import Discovery, discovered, with_gaps

MORE = {
    "library": ("ulb_library_motes", "arrival_time", ["temperature", "humidity", "voltage", "tsr"]),
    "St Bernard": (
        "sensorscope_stbernard",
        "ts",
        ["ambient_temp", "surface_temp", "humidity", "wind_speed"],
    ),
}
HIDDEN = 600
LOW, HIGH = 0.86, 0.94
FEWEST_WON = 5
COMPARED = ("kNN", "interpolation", "last value")


def judged(values: np.ndarray, prob: np.ndarray, true: float) -> tuple[bool, float]:
    """Whether a value is in the range from 5% to 95% of a distribution, and its score."""
    order = np.argsort(values, kind="stable")
    values, prob = values[order], prob[order]
    below = np.cumsum(prob)
    low, high = (values[min(np.searchsorted(below, p), len(values) - 1)] for p in (0.05, 0.95))
    score = prob @ np.abs(values - true) - prob @ (values * (2.0 * below - prob - 1.0))
    return bool(low <= true <= high), float(score)


def case(name: str, m: int) -> dict[str, Any] | None:
    values = load(name)
    if values is None:
        return None
    rng = np.random.default_rng(m)
    picked = np.sort(rng.choice(len(values), HIDDEN, replace=False))
    others = np.setdiff1d(np.arange(len(values)), picked)
    lent = rng.choice(others, min(REPOSITORY, len(others)), replace=False)
    repository, true = values[np.sort(lent)], values[picked]
    gaps = with_gaps(rng, true, m)
    missing = np.isnan(gaps)
    row: dict[str, Any] = {"name": name, "setting": f"m = {m}"}
    dependencies = discovered(repository, NAMES, m, Discovery(history=False, tight=np.inf))
    for method in METHODS:
        found: list[tuple[bool, float]] = []
        for t, attribute in enumerate(NAMES):
            own = [d for d in dependencies if d.dependent == attribute]
            units = dict.fromkeys(NAMES, (0.0, 1.0))
            imputer = Imputer(
                repository, own, [attribute], names=NAMES, scaling=units, method=method
            )
            lost = np.flatnonzero(missing[:, t])
            done = imputer.impute(gaps[lost])
            for i, place in enumerate(lost):
                part = slice(done.offsets[i], done.offsets[i + 1])
                found.append(judged(done.values[part, 0], done.prob[part], true[place, t]))
        row[f"{method} coverage"] = float(np.mean([inside for inside, _ in found]))
        row[f"{method} score"] = 1e3 * float(np.mean([score for _, score in found]))
    ways = baselines.ways(repository, gaps, picked.astype(float))
    for way in COMPARED:
        row[way] = 1e3 * float(np.nanmean(np.abs(ways[way]() - true)[missing]))
    row["met"] = LOW <= row["calibrated coverage"] <= HIGH
    return row


def run() -> list[dict[str, Any]]:
    SETS.update(MORE)
    rows = [row for name in SETS for m in (1, 2, 3) if (row := case(name, m)) is not None]
    if not rows:
        return [{"name": "no data sets", "setting": "set SFUMATO_DATA to their folder"}]
    won = []
    for name in dict.fromkeys(row["name"] for row in rows):
        own = [row for row in rows if row["name"] == name]
        score = np.mean([row["calibrated score"] for row in own])
        won.append(all(score < np.mean([row[way] for row in own]) for way in COMPARED))
    text = f"lowest score on {sum(won)} of {len(won)}"
    return [*rows, {"name": "all sets", "setting": text, "met": sum(won) >= FEWEST_WON}]


if __name__ == "__main__":
    began = time.perf_counter()
    for row in run():
        print({k: round(v, 3) if isinstance(v, float) else v for k, v in row.items()})
    print(f"{time.perf_counter() - began:.1f} s")
