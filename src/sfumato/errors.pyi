"""Errors and warnings, one line each: see `errors.py`."""

from sfumato.language.syntax import SqlError as SqlError
from sfumato.tables.imputation.repositories import FewRowsWarning as FewRowsWarning
from sfumato.tables.reading.user_warnings import DriftWarning as DriftWarning
from sfumato.tables.reading.user_warnings import InvalidRowsWarning as InvalidRowsWarning
