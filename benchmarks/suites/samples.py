"""The error of a join's probability against the number of samples per reading.

Two readings have normal errors and match within 1. The standard deviations of both (0.1 to 1.6),
their distance and its direction are drawn 4,000 times. `largest`, `99%` (99% of the errors are
smaller) and `mean` are the errors against the exact formulas of the normal distribution.
"""

import numpy as np
import pyarrow as pa
from scipy.stats import ncx2, norm

import sfumato as sf
from benchmarks.harness import Row
from sfumato.operators.arrays import Floats

SAMPLES = (4, 8, 16, 32, 64, 128)
QUICK = {"SAMPLES": (4, 8)}
WITHIN, CASES = 1.0, 4000
RANDOM = np.random.default_rng(0)
SDS = np.exp(RANDOM.uniform(np.log(0.1), np.log(1.6), (2, CASES)))
SPREAD = np.hypot(*SDS)  # standard deviation of the difference of two readings
GAPS = RANDOM.uniform(0.01, WITHIN + 2 * SPREAD)
ANGLES = RANDOM.uniform(0, 2 * np.pi, CASES)
TRUE = {
    1: norm.cdf((WITHIN - GAPS) / SPREAD) - norm.cdf((-WITHIN - GAPS) / SPREAD),
    2: ncx2.cdf((WITHIN / SPREAD) ** 2, 2, (GAPS / SPREAD) ** 2),
}


def errors(samples: int, attributes: int) -> Floats:
    """Return the error of the probability in each case; each case is a separate key."""
    zero = np.zeros(len(GAPS))
    far = {1: [GAPS], 2: [GAPS * np.cos(ANGLES), GAPS * np.sin(ANGLES)]}[attributes]
    names = ["x", "y"][:attributes]
    made = pa.array(np.arange(len(GAPS))).cast(pa.timestamp("us"))

    def side(points: list[Floats], sd: Floats) -> pa.Table:
        columns = [pa.array(p) for p in points]
        uncertain = sf.samples(columns, [pa.array(sd)] * attributes, samples, attributes=names)
        return pa.table({"i": np.arange(len(GAPS)), "made": made, "alternatives": uncertain})

    pairs = sf.similarity_join(
        side([zero] * attributes, SDS[0]),
        side(far, SDS[1]),
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
            percentile = np.quantile(error, 0.99)
            rows.append({**about, "largest": error.max(), "99%": percentile, "mean": error.mean()})
    return rows
