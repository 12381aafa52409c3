"""How missing attributes are imputed: `sfumato.Imputation` without Spark."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from sfumato.calls import checks_call
from sfumato.local.model.frame import ArrowFrame, frame_of
from sfumato.operators.imputation.imputer import Imputer
from sfumato.tables.imputation.arguments import ImputationArguments
from sfumato.tables.imputation.few_rows import warn_of_few_rows
from sfumato.tables.reading.frame import Frame
from sfumato.tables.reading.types import as_doubles


@checks_call('sf.Imputation("complete.parquet", "a -> b : 0.05 -> 0.1", ["b"])')
@dataclass(frozen=True, eq=False)
class Imputation(ImputationArguments):
    """Imputation of missing attributes from a complete repository: the arguments of `impute`.

    repository : a pandas, Polars or Arrow table, or the path of Parquet data. It needs the
        attributes and all determinants, as numbers; rows of it that lack one are not used
    The others are those of `sfumato.Imputation`.
    """

    called, function = "sfumato.local.Imputation", "impute"

    @cached_property
    def imputer(self) -> Imputer:
        """The imputer over the repository, made once.

        Raises ValueError or TypeError for a repository that does not have what is needed.
        """
        frame, wanted = repository_frame(self.repository), self.settings.names
        frame.require_numbers("repository", wanted)
        columns = frame.resolved("repository", list(wanted))
        numbers = [as_doubles(frame.table.column(of), f"repository: `{of}`") for of in columns]
        imputer = self.settings.make(pa.table(numbers, names=list(wanted)))
        warn_of_few_rows(imputer)
        return imputer

    def prepared(self, frame: Frame) -> bytes:
        return self.imputer.to_bytes()


def repository_frame(repository: Any) -> ArrowFrame:
    """The frame of a table, or of the Parquet data at a path."""
    if isinstance(repository, str | Path):
        from pyarrow import dataset

        if "://" not in str(repository) and not Path(repository).exists():
            raise ValueError(
                "`repository` must be a table, or the path of Parquet data; there is no file or "
                f"folder {str(repository)!r}"
            )
        repository = dataset.dataset(str(repository), format="parquet").to_table()
    return frame_of(repository, "repository")
