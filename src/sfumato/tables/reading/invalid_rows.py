"""The warning about rows that are skipped as invalid."""


class InvalidRowsWarning(UserWarning):
    """An operator skipped rows, because they are invalid."""
