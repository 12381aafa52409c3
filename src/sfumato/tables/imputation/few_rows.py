"""The warning about a repository of too few rows for a range of probability 90%."""

import warnings

from sfumato.operators.imputation.imputer import Imputer
from sfumato.tables.reading.shared_rows import calls_from_user

FEWEST_ROWS = 19  # with one row less, a new value is outside of all with more than probability 10%


class FewRowsWarning(UserWarning):
    """A repository has too few complete rows to show a range of probability 90%."""


def has_few_rows(imputer: Imputer) -> bool:
    """Whether calibrated ranges of probability 90% are extrapolated from too few rows."""
    return imputer.method == "calibrated" and imputer.rows < FEWEST_ROWS


def warn_of_few_rows(imputer: Imputer) -> None:
    """Warn where `has_few_rows`."""
    if not has_few_rows(imputer):
        return
    if imputer.rows == 1:
        meaning = "its one row says nothing of how values vary, and is the only alternative"
    else:
        shown = (imputer.rows - 1) / (imputer.rows + 1)
        meaning = f"these show ranges of at most {shown:.0%}, and wider ones are extrapolated"
    warnings.warn(
        f"`repository` has {imputer.rows} complete row{'s' * (imputer.rows > 1)}, and a calibrated "
        f"range of probability 90% needs at least {FEWEST_ROWS}: {meaning}",
        FewRowsWarning,
        stacklevel=calls_from_user() + 1,
    )
