"""Numbers with more digits than a double has: what is said of them."""

import warnings

import pyarrow as pa
import pyarrow.compute as pc

from sfumato.tables.reading.shared_rows import calls_from_user

EXACT = 2**53  # whole numbers up to this are doubles
DIGITS = 15  # of a decimal number that a double keeps


def has_more_digits(values: pa.Array | pa.ChunkedArray) -> bool:
    """Whether some of the values, of any type, change when they become doubles."""
    kind = values.type
    if pa.types.is_integer(kind) and kind.bit_width == 64:
        ends = pc.min_max(values).as_py()
        return ends["min"] is not None and max(-ends["min"], ends["max"]) > EXACT
    if not pa.types.is_decimal(kind) or kind.precision <= DIGITS:
        return False
    known = (value for value in values.to_pylist() if value is not None)
    return any(len(value.normalize().as_tuple().digits) > DIGITS for value in known)


def warn_of_digits(argument: str, name: str, kind: str) -> None:
    """Warn that values of a column or expression are rounded to doubles."""
    warnings.warn(
        f"{argument}: `{name}` is {kind}, and numbers are computed as doubles, which keep "
        f"{DIGITS} digits and whole numbers up to 2^53: larger ones are rounded, and so are sums "
        "of them. Subtract what they have in common before",
        UserWarning,
        stacklevel=calls_from_user() + 1,
    )
