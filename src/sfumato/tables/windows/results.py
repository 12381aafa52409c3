"""Results of aggregates as Arrow columns: plain values, or structs where rows are uncertain."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sfumato.operators.laws.aggregate import Measured
from sfumato.tables.windows.columns import TIMES


@dataclass(frozen=True)
class ResultForm:
    """How results become columns.

    names : of the results
    kinds : of plain values: "whole", "number", "timestamp" or "timestamp_ntz" for each result; none
        where each result is a struct
    quantiles : whose fields each struct has
    """

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    quantiles: tuple[float, ...]

    def columns(self, results: Sequence[Measured]) -> dict[str, pa.Array]:
        """Return one column per result."""
        if self.kinds:
            named = zip(self.names, results, self.kinds, strict=True)
            return {name: _plain(measured, kind) for name, measured, kind in named}
        named_structs = zip(self.names, results, strict=True)
        return {name: _struct(measured, self.quantiles) for name, measured in named_structs}


def quantile_name(q: float) -> str:
    """Return the name of a quantile's field: q05, q50, q99_9."""
    text = f"{q * 100:.10g}"
    whole, _, part = text.partition(".")
    return f"q{whole:0>2}" + (f"_{part}" if part else "")


def _known(numbers: np.ndarray | None) -> pa.Array:
    """Return numbers with NaN as NULL."""
    assert numbers is not None
    return pa.array(numbers, pa.float64(), mask=np.isnan(numbers))


def _plain(measured: Measured, kind: str) -> pa.Array:
    """Return the values of certain results, NULL where there are none.

    Times were read as seconds; a double tells their microseconds apart.
    """
    values = measured.mean
    if kind == "number":
        return _known(values)
    missing = np.isnan(values)
    scaled = np.where(missing, 0.0, values) * (1 if kind == "whole" else 1e6)
    whole = np.rint(scaled).astype(np.int64)
    array = pa.array(whole, pa.int64(), mask=missing)
    return array if kind == "whole" else array.cast(TIMES[kind])


def _struct(measured: Measured, quantiles: Sequence[float]) -> pa.StructArray:
    columns = {
        "mean": _known(measured.mean),
        "stddev": _known(measured.stddev),
        "existence": pa.array(measured.existence),
    }
    for i, q in enumerate(quantiles):
        columns[quantile_name(q)] = _known(measured.quantiles[:, i])
    if measured.value is not None:
        pairs = pa.StructArray.from_arrays(
            [pa.array(measured.prob), pa.array(measured.value)], ["prob", "value"]
        )
        offsets = pa.array(measured.offsets, pa.int32())
        columns["distribution"] = pa.ListArray.from_arrays(offsets, pairs)
        columns["moved"] = _known(measured.moved)
    if len(quantiles) or measured.value is not None:
        columns["error"] = _known(measured.error)
    return pa.StructArray.from_arrays(list(columns.values()), list(columns))
