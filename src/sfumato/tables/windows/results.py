"""Results of aggregates as Arrow columns: numbers, distributions, and how accurate they are."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sfumato.operators.laws.aggregate import Measured


@dataclass(frozen=True)
class ResultForm:
    """How results become columns.

    names : of the results    fields : of each one's distribution's values
    quantiles : whose fields each result has
    distributions : results are distributions, and `accuracy` says how accurate; else structs that
        have everything, a distribution too where there is one
    """

    names: tuple[str, ...]
    fields: tuple[str, ...]
    quantiles: tuple[float, ...]
    distributions: bool

    def columns(self, results: Sequence[Measured]) -> dict[str, pa.Array]:
        """The columns of some results."""
        if not self.distributions:
            return {
                name: _numbers(measured, self.quantiles)
                for name, measured in zip(self.names, results, strict=True)
            }
        columns = {
            name: _distribution(measured, field)
            for name, field, measured in zip(self.names, self.fields, results, strict=True)
        }
        accuracies = [
            pa.StructArray.from_arrays(
                [_known(measured.moved), _known(measured.error)], ["moved", "error"]
            )
            for measured in results
        ]
        columns["accuracy"] = pa.StructArray.from_arrays(accuracies, list(self.names))
        return columns


def quantile_name(q: float) -> str:
    """The field of a quantile: q05, q50, q99_9."""
    text = f"{q * 100:.10g}"
    whole, _, part = text.partition(".")
    return f"q{whole:0>2}" + (f"_{part}" if part else "")


def _known(numbers: np.ndarray | None) -> pa.Array:
    """Numbers, NaN as NULL."""
    assert numbers is not None
    return pa.array(numbers, pa.float64(), mask=np.isnan(numbers))


def _numbers(measured: Measured, quantiles: Sequence[float]) -> pa.StructArray:
    columns = {
        "mean": _known(measured.mean),
        "stddev": _known(measured.stddev),
        "existence": pa.array(measured.existence),
    }
    for i, q in enumerate(quantiles):
        columns[quantile_name(q)] = _known(measured.quantiles[:, i])
    if measured.value is not None:
        columns["alternatives"] = _distribution(measured, "value")
        columns["moved"] = _known(measured.moved)
    if len(quantiles) or measured.value is not None:
        columns["error"] = _known(measured.error)
    return pa.StructArray.from_arrays(list(columns.values()), list(columns))


def _distribution(measured: Measured, field: str) -> pa.ListArray:
    pairs = pa.StructArray.from_arrays(
        [pa.array(measured.prob), pa.array(measured.value)], ["prob", field]
    )
    return pa.ListArray.from_arrays(pa.array(measured.offsets, pa.int32()), pairs)
