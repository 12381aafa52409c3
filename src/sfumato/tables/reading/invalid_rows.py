"""The warning about rows that take no part."""


class InvalidRowsWarning(UserWarning):
    """Rows took no part in an operator, because they are invalid."""
