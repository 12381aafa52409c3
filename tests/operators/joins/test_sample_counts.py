"""Joins over samples approach exact probabilities, as docs/how-to/how-many-samples.md says."""

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import ncx2, norm

import sfumato as sf

GAPS = np.linspace(0.01, 3, 400)
SD, WITHIN = 0.5, 1.0
SPREAD = SD * np.sqrt(2)  # of the difference of two readings
ANGLES = np.random.default_rng(0).uniform(0, 2 * np.pi, len(GAPS))
TRUE = {
    1: norm.cdf((WITHIN - GAPS) / SPREAD) - norm.cdf((-WITHIN - GAPS) / SPREAD),
    2: ncx2.cdf((WITHIN / SPREAD) ** 2, 2, (GAPS / SPREAD) ** 2),
}


def errors(samples: int, attributes: int) -> np.ndarray:
    """The error of the probability at each gap; each gap is a key of its own."""
    zero = np.zeros(len(GAPS))
    far = {1: [GAPS], 2: [GAPS * np.cos(ANGLES), GAPS * np.sin(ANGLES)]}[attributes]
    names = ["x", "y"][:attributes]
    made = pa.array(np.arange(len(GAPS))).cast(pa.timestamp("us"))
    sides = [
        pa.table(
            {
                "i": np.arange(len(GAPS)),
                "made": made,
                "alternatives": sf.samples(
                    [pa.array(p) for p in points], [SD] * attributes, samples, attributes=names
                ),
            }
        )
        for points in ([zero] * attributes, far)
    ]
    pairs = sf.similarity_join(
        *sides, on=names, within=WITHIN, probability=1e-9, window=sf.Rows(1), order="made", key="i"
    )
    found = np.zeros(len(GAPS))
    found[[row["i"] for row in pairs["left"].to_pylist()]] = pairs["probability"].to_numpy()
    return np.abs(found - TRUE[attributes])


@pytest.mark.parametrize(
    ("samples", "attributes", "largest", "mean"),
    [
        (4, 1, 0.127, 0.0351),
        (8, 1, 0.0644, 0.0133),
        (16, 1, 0.0331, 0.005),
        (32, 1, 0.0165, 0.0024),
        (64, 1, 0.0077, 0.0013),
        (128, 1, 0.0037, 0.0007),
        (4, 2, 0.254, 0.0515),
        (8, 2, 0.1579, 0.0358),
        (16, 2, 0.0562, 0.0126),
        (32, 2, 0.0356, 0.0077),
        (64, 2, 0.0163, 0.0035),
        (128, 2, 0.0087, 0.0018),
    ],
)
def test_the_errors_on_the_page_are_those_of_the_join(samples, attributes, largest, mean):
    error = errors(samples, attributes)
    assert error.max() == pytest.approx(largest, rel=0.02, abs=1e-4)
    assert error.mean() == pytest.approx(mean, rel=0.02, abs=1e-4)
