"""The front page: the names that queries are made of, one line each."""

from sfumato import engine_free as engine_free
from sfumato import errors as errors
from sfumato import ops as ops
from sfumato.api.alternatives import above as above
from sfumato.api.alternatives import alternatives as alternatives
from sfumato.api.alternatives import below as below
from sfumato.api.alternatives import between as between
from sfumato.api.alternatives import circular as circular
from sfumato.api.alternatives import existence as existence
from sfumato.api.alternatives import expected as expected
from sfumato.api.alternatives import quantile as quantile
from sfumato.api.alternatives import samples as samples
from sfumato.api.alternatives import stddev as stddev
from sfumato.api.discovery import discover_dependencies as discover_dependencies
from sfumato.api.earlier_values import earlier_values as earlier_values
from sfumato.api.extent_join import extent_join as extent_join
from sfumato.api.imputation import Imputation as Imputation
from sfumato.api.impute import impute as impute
from sfumato.api.reorder import reorder as reorder
from sfumato.api.reorder import split_late as split_late
from sfumato.api.resample import resample as resample
from sfumato.api.similarity_join import join_streams as join_streams
from sfumato.api.similarity_join import neighbours as neighbours
from sfumato.api.similarity_join import self_join as self_join
from sfumato.api.similarity_join import similarity_join as similarity_join
from sfumato.api.top_k import top_k as top_k
from sfumato.api.validity import split_invalid as split_invalid
from sfumato.api.where import fuse as fuse
from sfumato.api.where import prune as prune
from sfumato.api.where import where as where
from sfumato.api.window_aggregate import split_missed as split_missed
from sfumato.api.window_aggregate import window_aggregate as window_aggregate
from sfumato.charts.results import chart as chart
from sfumato.cli.configure import configure as configure
from sfumato.language import explain as explain
from sfumato.language import sql as sql
from sfumato.queries import Top as Top
from sfumato.windows import Delta as Delta
from sfumato.windows import Range as Range
from sfumato.windows import Rows as Rows
from sfumato.windows import Session as Session

__version__: str
