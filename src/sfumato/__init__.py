"""Continuous queries on Spark over uncertain, incomplete and out-of-order streams.

The names below are loaded when they are first used, so that a Spark worker, which imports only
the kernels and operators it runs, does not pay for the rest.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = {
    "Delta": "sfumato.windows",
    "Dependency": "sfumato.operators.dependency",
    "EarlierValues": "sfumato.operators.earlier_values",
    "Imputation": "sfumato.spark.imputation",
    "Imputer": "sfumato.operators.imputation",
    "PoissonBinomial": "sfumato.operators.poisson_binomial",
    "Punctuator": "sfumato.operators.punctuator",
    "Range": "sfumato.windows",
    "ReplaySource": "sfumato.spark.replay",
    "Rows": "sfumato.windows",
    "SqlError": "sfumato.sql.errors",
    "Timetable": "sfumato.operators.timetable",
    "Top": "sfumato.queries",
    "UncertainWindow": "sfumato.operators.uncertain_window",
    "alternatives": "sfumato.spark.alternatives",
    "checked": "sfumato.spark.checked",
    "discover_dependencies": "sfumato.spark.discovery",
    "earlier_values": "sfumato.spark.earlier_values",
    "existence": "sfumato.spark.alternatives",
    "expected": "sfumato.spark.alternatives",
    "expected_ranks": "sfumato.operators.top_k",
    "explain": "sfumato.sql",
    "extent_join": "sfumato.spark.extent_join",
    "impute": "sfumato.spark.impute",
    "join_streams": "sfumato.spark.join_streams",
    "pk_topk": "sfumato.operators.top_k",
    "prf": "sfumato.operators.top_k",
    "prfe": "sfumato.operators.top_k",
    "pt_k": "sfumato.operators.top_k",
    "quantile": "sfumato.spark.alternatives",
    "rank_probabilities": "sfumato.operators.top_k",
    "rejected": "sfumato.spark.checked",
    "reorder": "sfumato.spark.reorder",
    "samples": "sfumato.spark.alternatives",
    "settings": "sfumato.spark.settings",
    "similarity_join": "sfumato.spark.similarity_join",
    "sql": "sfumato.sql",
    "stddev": "sfumato.spark.alternatives",
    "timetable": "sfumato.operators.timetable",
    "top_k": "sfumato.spark.top_k",
    "top_k_probabilities": "sfumato.operators.top_k",
    "top_k_streams": "sfumato.operators.top_k_answers",
    "u_kranks": "sfumato.operators.top_k",
    "u_topk": "sfumato.operators.top_k",
    "where": "sfumato.spark.where",
    "window_aggregate": "sfumato.spark.window_aggregate",
}
__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module `sfumato` has no attribute `{name}`; it has {__all__}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
