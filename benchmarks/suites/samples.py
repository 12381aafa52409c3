"""The error of a join's probability against the number of samples per reading.

Two readings have normal errors with a standard deviation of 0.5, and match within 1. Their distance
takes 400 values between 0 and 3. `largest` and `mean` are the errors over these distances, against
the exact formulas of the normal distribution.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from scipy.stats import ncx2, norm

import sfumato as sf
from benchmarks.harness import Row
from sfumato.operators.arrays import Floats

SAMPLES = (4, 8, 16, 32, 64, 128)
QUICK = {"SAMPLES": (4, 8)}
GAPS = np.linspace(0.01, 3, 400)
SD, WITHIN = 0.5, 1.0
SPREAD = SD * np.sqrt(2)  # of the difference of two readings
ANGLES = np.random.default_rng(0).uniform(0, 2 * np.pi, len(GAPS))
TRUE = {
    1: norm.cdf((WITHIN - GAPS) / SPREAD) - norm.cdf((-WITHIN - GAPS) / SPREAD),
    2: ncx2.cdf((WITHIN / SPREAD) ** 2, 2, (GAPS / SPREAD) ** 2),
}


def errors(samples: int, attributes: int) -> Floats:
    """The error of the probability at each gap; each gap is a separate key."""
    zero = np.zeros(len(GAPS))
    far = {1: [GAPS], 2: [GAPS * np.cos(ANGLES), GAPS * np.sin(ANGLES)]}[attributes]
    names = ["x", "y"][:attributes]
    made = pa.array(np.arange(len(GAPS))).cast(pa.timestamp("us"))

    def side(points: list[Floats]) -> pa.Table:
        columns = [pa.array(p) for p in points]
        uncertain = sf.samples(columns, [SD] * attributes, samples, attributes=names)
        return pa.table({"i": np.arange(len(GAPS)), "made": made, "alternatives": uncertain})

    pairs = sf.similarity_join(
        side([zero] * attributes),
        side(far),
        on=names,
        within=WITHIN,
        probability=1e-9,
        window=sf.Rows(1),
        order="made",
        key="i",
    )
    found = np.zeros(len(GAPS))
    found[[row["i"] for row in pairs["left"].to_pylist()]] = pairs["probability"].to_numpy()
    return np.abs(found - TRUE[attributes])


def run() -> list[Row]:
    rows: list[Row] = []
    for attributes, name in ((1, "one attribute"), (2, "two attributes")):
        for samples in SAMPLES:
            error = errors(samples, attributes)
            about = {"name": name, "setting": f"{samples} samples"}
            rows.append({**about, "largest": error.max(), "mean": error.mean()})
    return rows
