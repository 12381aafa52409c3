"""Continuous queries on Spark over uncertain, incomplete and out-of-order streams.

The names below are loaded when they are first used, so that a Spark worker, which imports only
the kernels and operators it runs, does not pay for the rest.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the same names for type checkers and editors
    from sfumato.operators.disorder.punctuator import Punctuator as Punctuator
    from sfumato.operators.imputation.dependency import Dependency as Dependency
    from sfumato.operators.imputation.earlier_values import EarlierValues as EarlierValues
    from sfumato.operators.imputation.imputer import Imputer as Imputer
    from sfumato.operators.laws.poisson_binomial import PoissonBinomial as PoissonBinomial
    from sfumato.operators.ranking.timetable import Timetable as Timetable
    from sfumato.operators.ranking.timetable import timetable as timetable
    from sfumato.operators.ranking.top_k import expected_ranks as expected_ranks
    from sfumato.operators.ranking.top_k import pk_topk as pk_topk
    from sfumato.operators.ranking.top_k import prf as prf
    from sfumato.operators.ranking.top_k import prfe as prfe
    from sfumato.operators.ranking.top_k import pt_k as pt_k
    from sfumato.operators.ranking.top_k import rank_probabilities as rank_probabilities
    from sfumato.operators.ranking.top_k import top_k_probabilities as top_k_probabilities
    from sfumato.operators.ranking.top_k import top_k_streams as top_k_streams
    from sfumato.operators.ranking.top_k import u_kranks as u_kranks
    from sfumato.operators.ranking.top_k import u_topk as u_topk
    from sfumato.operators.windows.uncertain_window import UncertainWindow as UncertainWindow
    from sfumato.queries import Top as Top
    from sfumato.spark.checked import checked as checked
    from sfumato.spark.checked import rejected as rejected
    from sfumato.spark.discovery import discover_dependencies as discover_dependencies
    from sfumato.spark.earlier_values import earlier_values as earlier_values
    from sfumato.spark.extent_join import extent_join as extent_join
    from sfumato.spark.impute import impute as impute
    from sfumato.spark.join_streams import join_streams as join_streams
    from sfumato.spark.model.alternatives import alternatives as alternatives
    from sfumato.spark.model.alternatives import existence as existence
    from sfumato.spark.model.alternatives import expected as expected
    from sfumato.spark.model.alternatives import quantile as quantile
    from sfumato.spark.model.alternatives import samples as samples
    from sfumato.spark.model.alternatives import stddev as stddev
    from sfumato.spark.model.imputation import Imputation as Imputation
    from sfumato.spark.reorder import reorder as reorder
    from sfumato.spark.reorder import split_late as split_late
    from sfumato.spark.replay.source import ReplaySource as ReplaySource
    from sfumato.spark.settings import settings as settings
    from sfumato.spark.similarity_join import similarity_join as similarity_join
    from sfumato.spark.top_k import top_k as top_k
    from sfumato.spark.where import where as where
    from sfumato.spark.window_aggregate import window_aggregate as window_aggregate
    from sfumato.sql import explain as explain
    from sfumato.sql import sql as sql
    from sfumato.sql.text.errors import SqlError as SqlError
    from sfumato.windows import Delta as Delta
    from sfumato.windows import Range as Range
    from sfumato.windows import Rows as Rows

_HOME = {
    "Delta": "sfumato.windows",
    "Dependency": "sfumato.operators.imputation.dependency",
    "EarlierValues": "sfumato.operators.imputation.earlier_values",
    "Imputation": "sfumato.spark.model.imputation",
    "Imputer": "sfumato.operators.imputation.imputer",
    "PoissonBinomial": "sfumato.operators.laws.poisson_binomial",
    "Punctuator": "sfumato.operators.disorder.punctuator",
    "Range": "sfumato.windows",
    "ReplaySource": "sfumato.spark.replay.source",
    "Rows": "sfumato.windows",
    "SqlError": "sfumato.sql.text.errors",
    "Timetable": "sfumato.operators.ranking.timetable",
    "Top": "sfumato.queries",
    "UncertainWindow": "sfumato.operators.windows.uncertain_window",
    "alternatives": "sfumato.spark.model.alternatives",
    "checked": "sfumato.spark.checked",
    "discover_dependencies": "sfumato.spark.discovery",
    "earlier_values": "sfumato.spark.earlier_values",
    "existence": "sfumato.spark.model.alternatives",
    "expected": "sfumato.spark.model.alternatives",
    "expected_ranks": "sfumato.operators.ranking.top_k",
    "explain": "sfumato.sql",
    "extent_join": "sfumato.spark.extent_join",
    "impute": "sfumato.spark.impute",
    "join_streams": "sfumato.spark.join_streams",
    "pk_topk": "sfumato.operators.ranking.top_k",
    "prf": "sfumato.operators.ranking.top_k",
    "prfe": "sfumato.operators.ranking.top_k",
    "pt_k": "sfumato.operators.ranking.top_k",
    "quantile": "sfumato.spark.model.alternatives",
    "rank_probabilities": "sfumato.operators.ranking.top_k",
    "rejected": "sfumato.spark.checked",
    "reorder": "sfumato.spark.reorder",
    "samples": "sfumato.spark.model.alternatives",
    "settings": "sfumato.spark.settings",
    "similarity_join": "sfumato.spark.similarity_join",
    "split_late": "sfumato.spark.reorder",
    "sql": "sfumato.sql",
    "stddev": "sfumato.spark.model.alternatives",
    "timetable": "sfumato.operators.ranking.timetable",
    "top_k": "sfumato.spark.top_k",
    "top_k_probabilities": "sfumato.operators.ranking.top_k",
    "top_k_streams": "sfumato.operators.ranking.top_k",
    "u_kranks": "sfumato.operators.ranking.top_k",
    "u_topk": "sfumato.operators.ranking.top_k",
    "where": "sfumato.spark.where",
    "window_aggregate": "sfumato.spark.window_aggregate",
}
__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return version("sfumato")
    if name not in _HOME:
        raise AttributeError(f"module `sfumato` has no attribute `{name}`; it has {__all__}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
