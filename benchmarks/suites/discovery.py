"""Dependencies found in a repository: our search against Desbordante's, by the values they infer.

Both use the same 1,000 rows and the same epsilons. Desbordante (`Split`, C++; its lines are left
out without the package) finds the dependencies that all pairs of rows satisfy, ours the
dependencies that 95% satisfy, with one or two determinants. Then 500 other rows lose one attribute
each, drawn at random, and are imputed from 10,000 more: `error` is the mean distance of the
expected value from the true one, of attributes in [0, 1]. `imputed` is the share of rows for which
a dependency found donors; the others get the attribute's distribution. `met` requires that our
error is not greater.
"""

import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.data.real_sets import SETS, load
from benchmarks.harness import NO_DATA, Row, timed
from sfumato.operators.imputation.discovery import discover_dependencies
from sfumato.operators.imputation.imputer import Imputer

NAMES = ("a", "b", "c", "d")
SEEN, LENT, JUDGED = 1_000, 10_000, 500
EPSILONS = (0.01, 0.02, 0.05, 0.1, 0.2)
QUICK = {"LENT": 1_000, "JUDGED": 100}
WITHIN = 0.1  # greatest epsilon of a dependent
CONSTRAINT = re.compile(r"(\w+) \[0, ([\d.e-]+)\]")

Texts = list[str]


def ours(rows: np.ndarray) -> Texts:
    found = discover_dependencies(rows, names=NAMES, epsilons=EPSILONS, within=WITHIN, sample=SEEN)
    return [str(dependency) for dependency in found]


def desbordantes(rows: np.ndarray) -> Texts:
    """Return Desbordante's dependencies that bound their dependent as closely as required."""
    import desbordante
    import pandas as pd

    limits = pd.DataFrame({name: [f"[0;{epsilon}]" for epsilon in EPSILONS] for name in NAMES})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "limits.csv"
        limits.to_csv(path, index=False)
        search = desbordante.dd.algorithms.Split()
        search.load_data(table=pd.DataFrame(rows, columns=list(NAMES)))
        search.execute(difference_table=(str(path), ",", True))
    texts = []
    for found in search.get_dds():
        *left, (dependent, bound) = CONSTRAINT.findall(str(found))
        if left and float(bound) <= WITHIN:
            names, epsilons = zip(*left, strict=True)
            texts.append(f"{','.join(names)} -> {dependent} : {', '.join(epsilons)} -> {bound}")
    return texts


def milliseconds(search: Callable[[np.ndarray], Texts], rows: np.ndarray) -> tuple[Texts, float]:
    """Return the result of a search, and the fastest of three runs."""
    runs = [timed(lambda: search(rows), time.perf_counter) for _ in range(3)]
    return runs[-1][1], 1e3 * min(spent for spent, _ in runs)


def inferred(
    dependencies: Texts, repository: np.ndarray, complete: np.ndarray, gaps: np.ndarray
) -> tuple[float, float]:
    """Return the mean error of expected values, and the share of rows with donors."""
    units = dict.fromkeys(NAMES, (0.0, 1.0))
    imputer = Imputer(repository, dependencies, names=NAMES, scaling=units, method="plain")
    done = imputer.impute(gaps)
    owner = np.repeat(np.arange(len(gaps)), np.diff(done.offsets))
    expected = np.zeros(gaps.shape)
    np.add.at(expected, owner, done.prob[:, None] * done.values)
    lost = np.isnan(gaps)
    return float(np.abs(expected - complete)[lost].mean()), float(
        (done.rules_used[lost] >= 0).mean()
    )


def row_of(name: str, values: np.ndarray) -> Row:
    rng = np.random.default_rng(1)
    order = rng.permutation(len(values))
    seen, judged = values[order[:SEEN]], values[order[SEEN : SEEN + JUDGED]]
    repository = values[order[SEEN + JUDGED :][:LENT]]
    gaps = judged.copy()
    gaps[np.arange(len(gaps)), rng.integers(0, gaps.shape[1], len(gaps))] = np.nan
    found, spent = milliseconds(ours, seen)
    error, share = inferred(found, repository, judged, gaps)
    row: Row = {"name": name, "setting": f"{SEEN:,} rows", "ours": spent}
    row |= {"dependencies": len(found), "error": error, "imputed": share}
    try:
        exact, exact_spent = milliseconds(desbordantes, seen)
    except ImportError:
        return row
    exact_error, exact_share = inferred(exact, repository, judged, gaps)
    return row | {
        "peer": exact_spent,
        "ratio": exact_spent / spent,
        "peer's dependencies": len(exact),
        "peer's error": exact_error,
        "peer's imputed": exact_share,
        "met": error <= exact_error,
    }


def run() -> list[Row]:
    return [row_of(name, values) for name in SETS if (values := load(name)) is not None] or NO_DATA
