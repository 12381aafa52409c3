"""What a picture is drawn of: one distribution, or the results of a window, as plain numbers."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)  # the quantiles that bands are made of
QUANTILE = re.compile(r"q(\d\d+)")


def fields_of(value: Any) -> dict[str, Any] | None:
    """The fields of a struct: a dict, a row of Spark's, a scalar of Arrow's; None for others."""
    if hasattr(value, "as_py"):
        value = value.as_py()
    if hasattr(value, "asDict"):
        value = value.asDict()
    return dict(value) if isinstance(value, Mapping) else None


def distribution_of(value: Any) -> tuple[np.ndarray, np.ndarray, str] | None:
    """(values, probabilities, name of the attribute) of a distribution, by value; None for others.

    value : a sequence of structs <prob, NAME>, as operators and `alternatives` give them, or a
        struct with the field `distribution`, as `sf.window_aggregate` gives it
    Raises ValueError for alternatives of several attributes.
    """
    if hasattr(value, "as_py"):
        value = value.as_py()
    value = (fields_of(value) or {}).get("distribution", value)
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        return None
    cells = [fields_of(one) for one in value]
    if not cells or any(cell is None or "prob" not in cell for cell in cells):
        return None
    names = [name for name in cells[0] or {} if name != "prob"]
    if len(names) != 1:
        raise ValueError(
            f"a picture is of one attribute; these alternatives have {', '.join(names)}: take one, "
            "as with transform(alternatives, a -> struct(a.prob, a.x))"
        )
    found = np.array([(cell[names[0]], cell["prob"]) for cell in cells if cell], np.float64)
    values, places = np.unique(found[:, 0], return_inverse=True)
    return values, np.bincount(places, found[:, 1], len(values)), names[0]


def bands_of(value: Any) -> dict[str, float | None]:
    """What is drawn of one result: q05, q25, q50, q75, q95 as far as known, mean, existence.

    value : a number, a struct of `sf.window_aggregate`, or a distribution
    Raises TypeError for anything else.
    """
    if value is None:
        return {}
    if hasattr(value, "as_py"):
        value = value.as_py()
    if isinstance(value, int | float | np.number):
        return {"mean": float(value), "existence": 1.0}
    law = distribution_of(value)
    if law is not None:
        return _of_law(law[0], law[1])
    fields = fields_of(value)
    if fields is None or "mean" not in fields:
        raise TypeError(
            "a result is a number, a struct<mean, stddev, existence, ...> or a distribution; got "
            f"{value!r:.80}"
        )
    shown = {"mean": fields["mean"], "existence": fields.get("existence", 1.0)}
    shown |= {name: fields[name] for name in fields if QUANTILE.fullmatch(name)}
    if "stddev" in fields and not any(QUANTILE.fullmatch(name) for name in fields):
        mean, spread = fields["mean"], fields["stddev"]
        if mean is not None and spread is not None:
            shown |= {"low": mean - spread, "high": mean + spread}
    return shown


def _of_law(values: np.ndarray, prob: np.ndarray) -> dict[str, float | None]:
    exists = min(float(prob.sum()), 1.0)
    steps = np.cumsum(prob)
    places = [int(np.searchsorted(steps, q * steps[-1] - 1e-12)) for q in SHARES]
    names = [f"q{round(100 * q):02d}" for q in SHARES]
    quantiles = {n: float(values[p]) for n, p in zip(names, places, strict=True)}
    return {**quantiles, "mean": float((values * prob).sum() / prob.sum()), "existence": exists}


def columns_of(table: Any) -> dict[str, list[Any]] | None:
    """The columns of a table: pandas, Polars, Arrow, or a list of rows; None for others.

    Raises TypeError for a frame of Spark's, which would have to be collected.
    """
    if type(table).__module__.startswith("pyspark.sql") and hasattr(table, "schema"):
        raise TypeError("a picture is of rows that are here: give df.toArrow() or df.collect()")
    if hasattr(table, "to_pydict"):
        return dict(table.to_pydict())
    if hasattr(table, "__arrow_c_stream__"):
        import pyarrow as pa

        return dict(pa.table(table).to_pydict())
    if hasattr(table, "to_dict") and hasattr(table, "columns"):
        return dict(table.to_dict("list"))
    if isinstance(table, Sequence) and table and all(fields_of(row) is not None for row in table):
        rows = [fields_of(row) or {} for row in table]
        return {name: [row.get(name) for row in rows] for name in rows[0]}
    return None
