"""The public functions of sfumato without Spark, for notebooks, tests and small jobs.

They have the names and arguments of those of `sfumato`, take pandas, Polars or Arrow tables
(anything with `__arrow_c_stream__`) and give a `pyarrow.Table`: the answers of the Spark functions
to the same rows as a static frame. No Java runtime is needed, and PySpark is not imported.
What was counted is in the result: `counters(table)`.

Open: everything below.
"""

from sfumato.local.checked import checked, rejected
from sfumato.local.counters import InvalidRowsWarning, counters
from sfumato.local.earlier_values import earlier_values
from sfumato.local.extent_join import extent_join
from sfumato.local.imputation import Imputation
from sfumato.local.impute import impute
from sfumato.local.model import alternatives, existence, expected, samples, stddev
from sfumato.local.reorder import reorder, split_late
from sfumato.local.similarity_join import similarity_join
from sfumato.local.top_k import top_k
from sfumato.local.where import where
from sfumato.local.window_aggregate import window_aggregate

__all__ = [
    "Imputation",
    "InvalidRowsWarning",
    "alternatives",
    "checked",
    "counters",
    "earlier_values",
    "existence",
    "expected",
    "extent_join",
    "impute",
    "rejected",
    "reorder",
    "samples",
    "similarity_join",
    "split_late",
    "stddev",
    "top_k",
    "where",
    "window_aggregate",
]
