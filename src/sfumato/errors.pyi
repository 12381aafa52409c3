"""Errors and warnings, one line each: see `errors.py`."""

from sfumato.language.errors import SqlError as SqlError
from sfumato.tables.imputation.few_rows import FewRowsWarning as FewRowsWarning
from sfumato.tables.reading.invalid_rows import InvalidRowsWarning as InvalidRowsWarning
from sfumato.tables.reading.shared_rows import IndependenceWarning as IndependenceWarning
