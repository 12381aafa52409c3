"""The public functions of sfumato without Spark, for notebooks, tests and small jobs.

They have the names and arguments of those of `sfumato`, take pandas, Polars or Arrow tables
(anything with `__arrow_c_stream__`) and give a `pyarrow.Table`: the answers of the Spark functions
to the same rows as a static frame. No Java runtime is needed, and PySpark is not imported.
What was counted is in the result: `counters(table)`.

Open: everything below.
"""

from sfumato.local.checked import checked, rejected
from sfumato.local.discovery import discover_dependencies
from sfumato.local.earlier_values import earlier_values
from sfumato.local.extent_join import extent_join
from sfumato.local.impute import impute
from sfumato.local.join_streams import join_streams
from sfumato.local.model.alternatives import alternatives, samples
from sfumato.local.model.counters import counters
from sfumato.local.model.imputation import Imputation
from sfumato.local.model.measures import existence, expected, quantile, stddev
from sfumato.local.reorder import reorder, split_late
from sfumato.local.self_join import self_join
from sfumato.local.similarity_join import similarity_join
from sfumato.local.top_k import top_k
from sfumato.local.where import where
from sfumato.local.window_aggregate import window_aggregate
from sfumato.tables.imputation.few_rows import FewRowsWarning
from sfumato.tables.reading.invalid_rows import InvalidRowsWarning
from sfumato.tables.reading.shared_rows import IndependenceWarning

__all__ = [
    "FewRowsWarning",
    "Imputation",
    "IndependenceWarning",
    "InvalidRowsWarning",
    "alternatives",
    "checked",
    "counters",
    "discover_dependencies",
    "earlier_values",
    "existence",
    "expected",
    "extent_join",
    "impute",
    "join_streams",
    "quantile",
    "rejected",
    "reorder",
    "samples",
    "self_join",
    "similarity_join",
    "split_late",
    "stddev",
    "top_k",
    "where",
    "window_aggregate",
]
