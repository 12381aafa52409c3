"""Early answers of windows: the width of their intervals, by the time left to the final answer.

Two real traces of `early_answers`, with the same windows and values: planned and actual departures
of flights, and a session over a mobile network. A revision arrives with the first row that advances
the punctuation to the revision's own. Rows are medians over the windows whose first interval comes
in the fifth before the window starts, by the distance of the window's end from the punctuation (in
fifths). They show the time left until the final answer arrives, in seconds and as a share of the
time from the start of the window to this arrival; and, per aggregate, the width of the interval at
90%, relative to the width of the same window's first interval.
"""

import numpy as np
import pandas as pd
import pyarrow as pa

import sfumato as sf
from benchmarks.data import traces
from benchmarks.data.real_sets import data_folder
from benchmarks.harness import NO_DATA, Row
from benchmarks.suites.early_answers import ASKED, PARTS, TIMES, answers, length_of, table_of

TRACES = ("flights", "mobile network d-2")
NAMES = dict(zip(ASKED, ("count", "sum", "avg", "min", "max"), strict=True))
QUICK = {"TRACES": ("mobile network d-2",)}


def arrivals(rows: pa.Table, punctuations: pd.Series) -> np.ndarray:
    """Return when the order reached each of the punctuations, in microseconds of arrival."""
    ordered = sf.reorder(rows, **TIMES, early=True).to_pandas().dropna(subset=["punctuation"])
    reached = ordered["punctuation"].cummax().to_numpy()
    newest = ordered["arrival"].cummax().to_numpy()
    places = np.searchsorted(reached, punctuations.to_numpy())
    return newest[np.minimum(places, len(newest) - 1)]


def revisions(event: np.ndarray, arrival: np.ndarray) -> pd.DataFrame:
    """Return the revisions of a trace: time left, width per aggregate, and fifths left."""
    rows, length = table_of(event, arrival), length_of(event)
    frame = answers(rows, length, True).to_pandas()
    frame["at"] = arrivals(rows, frame["punctuation"])
    for side in ("start", "end"):
        frame[side] = [window[side] for window in frame["window"]]
    done = frame[frame["final"]].set_index("end")["at"].rename("done")
    early = frame[~frame["final"]].join(done, on="end", how="inner")
    found = early[["end", "revision"]].copy()
    found["fifths"] = (early["end"] - 1 - early["punctuation"]) // (length // PARTS)
    found["seconds left"] = (early["done"] - early["at"]) / traces.SECOND
    found["share left"] = (early["done"] - early["at"]) / (early["done"] - early["start"])
    for result, aggregate in NAMES.items():
        ends = pd.DataFrame([interval[result] for interval in early["interval"]], early.index)
        found[aggregate] = (ends["high"] - ends["low"]).astype(float)
    return found.dropna()


def widths(name: str, event: np.ndarray, arrival: np.ndarray) -> list[Row]:
    """Measure the widths of one trace, by the fifths that are left."""
    found, aggregates = revisions(event, arrival), [*NAMES.values()]
    first = found.sort_values("revision").groupby("end").first()
    first = first[(first["fifths"] == PARTS) & (first[aggregates] > 0).all(axis=1)]
    found = found[found["end"].isin(first.index)]
    found[aggregates] /= first.loc[found["end"], aggregates].to_numpy()
    out: list[Row] = []
    for fifths in range(PARTS, -1, -1):
        part = found[found["fifths"] == fifths]
        medians = part[["seconds left", "share left", *aggregates]].median().to_dict()
        row: Row = {"name": name, "setting": f"{fifths} of {PARTS} left"}
        row |= {"window seconds": length_of(event) / traces.SECOND, "revisions": len(part)}
        out.append(row | medians)
    return out


def run() -> list[Row]:
    folder = data_folder()
    if not folder.is_dir():
        return NO_DATA
    real = dict(traces.real(folder))
    return [row for name in TRACES for row in widths(name, *real[name])]
