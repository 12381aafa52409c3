"""Streams for several suites: count windows, samples in balls, disordered readings."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

STAMP = pa.timestamp("us", tz="UTC")


def existences(kind: str, n: int, seed: int) -> np.ndarray:
    """Draw the existence of n tuples (Dallachiesa et al., 2015): near 1 (sd 0.1) or uniform."""
    rng = np.random.default_rng(seed)
    if kind == "uniform":
        return rng.random(n)
    return 1.0 - np.minimum(np.abs(rng.normal(0.0, 0.1, n)), 1.0)


def count_window_stream(w: int, kind: str, many: int) -> tuple[int, np.ndarray, np.ndarray]:
    """Return the number of tuples that fill the window, and the existences and values of these
    tuples and `many` more.
    """
    existence = np.maximum(existences(kind, 4 * w + many, seed=w), 1e-9)
    return 4 * w, existence, np.random.default_rng(w).normal(20.0, 5.0, existence.size)


def in_ball(rng: np.random.Generator, n: int, samples: int, dimensions: int) -> np.ndarray:
    """Draw points evenly from a ball of radius 1: float64[n, samples, dimensions]."""
    direction = rng.normal(size=(n, samples, dimensions))
    direction /= np.linalg.norm(direction, axis=2, keepdims=True)
    return direction * rng.random((n, samples, 1)) ** (1 / dimensions)


def around_centres(n: int, samples: int, dimensions: int, extent: float, radius: float):
    """Draw balls with centres in a cube of side `extent`: float64[n, samples, dimensions]."""
    rng = np.random.default_rng(2)
    centres = rng.uniform(0, extent, (n, 1, dimensions))
    return centres + radius * in_ball(rng, n, samples, dimensions)


def alternatives(prob: float, **values: np.ndarray) -> pa.ListArray:
    """Build lists of equally probable samples; values are float64[rows, samples]."""
    rows, samples = next(iter(values.values())).shape
    columns = {"prob": np.full(rows * samples, prob)}
    columns |= {name: of.ravel() for name, of in values.items()}
    flat = pa.StructArray.from_arrays([*map(pa.array, columns.values())], [*columns])
    return pa.ListArray.from_arrays(pa.array(np.arange(rows + 1) * samples, pa.int32()), flat)


def numbers(values: Any) -> pa.ListArray:
    """Build lists of one number each."""
    flat = pa.array(np.asarray(values, float))
    return pa.ListArray.from_arrays(pa.array(np.arange(len(flat) + 1), pa.int32()), flat)


def readings(rows: int, keys: int, samples: int, seed: int) -> pa.Table:
    """Build a disordered stream of uncertain readings, in order of arrival."""
    rng = np.random.default_rng(seed)
    event = np.cumsum(rng.exponential(1e5, rows)).astype(np.int64)
    arrival = event + rng.exponential(3e6, rows).astype(np.int64)
    order = np.argsort(arrival, kind="stable")
    centre = rng.normal(0, 100, rows)[:, None] + rng.normal(0, 0.5, (rows, samples))
    return pa.table(
        {
            "device": pa.array(rng.integers(0, keys, rows)),
            "event": pa.array(event[order]).cast(STAMP),
            "arrival": pa.array(np.sort(arrival)).cast(STAMP),
            "alternatives": alternatives(0.95 / samples, x=centre),
        }
    )


def certain_readings(rows: int, keys: int, seed: int) -> pa.Table:
    """Build the same stream in order of event time, with one certain value x."""
    table = readings(rows, keys, 1, seed).select(["device", "event"]).sort_by("event")
    return table.append_column("x", pa.array(np.arange(rows) % 97.0))


def readings_of_three(rows: int, seed: int) -> pa.Table:
    """Build a disordered stream of three devices with certain and uncertain values, for kills."""
    rng = np.random.default_rng(seed)
    event = np.cumsum(rng.exponential(1e6, rows)).astype(np.int64)
    arrival = event + (rng.exponential(3e6, rows) * rng.choice([1, 1, 1, 10], rows)).astype(int)
    order = np.argsort(arrival, kind="stable")
    samples = rng.normal(0, 1, rows)[:, None] + rng.normal(0, 0.02, (rows, 3))
    return pa.table(
        {
            "device": [f"d{i}" for i in rng.integers(0, 3, rows)],
            "event": pa.array(event[order]).cast(STAMP),
            "arrival": pa.array(np.sort(arrival) + np.arange(rows)).cast(STAMP),
            "id": pa.array(np.arange(rows)),
            "x": pa.array(samples[:, 0]),
            "alternatives": alternatives(0.3, x=samples),
        }
    )


def operator_rows(row: Mapping[str, Any], **columns: Any) -> pa.Table:
    """Build an operator's input rows: `row` as a struct, ties in the given order."""
    fields = [of.combine_chunks() if isinstance(of, pa.ChunkedArray) else of for of in row.values()]
    struct = pa.StructArray.from_arrays(fields, [*row])
    return pa.table({"row": struct, **columns, "__tie": pa.array(np.arange(len(struct)))})
