"""The options of the replay source, checked: what to play, in which order, how fast."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from sfumato.near_misses import did_you_mean

OPTIONS = ("path", "order", "speed", "rows_per_batch", "format")
SUFFIXES = {
    "parquet": "parquet",
    "pq": "parquet",
    "csv": "csv",
    "json": "json",
    "jsonl": "json",
    "ndjson": "json",
    "arrow": "arrow",
    "ipc": "arrow",
    "feather": "arrow",
}
FORMATS = tuple(dict.fromkeys(SUFFIXES.values()))
COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")  # CSV and JSON lines are unpacked by this suffix
ROWS_PER_BATCH = 10_000


@dataclass(frozen=True)
class Settings:
    """The options of a replay, checked."""

    path: str
    format: str
    order: str | None
    speed: float | None  # None: as fast as possible
    rows_per_batch: int

    @classmethod
    def of(cls, options: dict[str, str]) -> Settings:
        for given in options:
            if given.lower() not in OPTIONS:
                hint = did_you_mean(given.replace("-", "_"), OPTIONS, cutoff=0.5)
                raise ValueError(
                    f"the replay source has no option `{given}`; it has {', '.join(OPTIONS)}{hint}"
                )
        options = {name.lower(): value for name, value in options.items()}
        path = _file(options.get("path", ""))
        order = options.get("order")
        if order is not None and not all(part.strip() for part in order.split(",")):
            raise ValueError(
                f"option `order` must be a column name, or several with commas between; got "
                f"{order!r}: leave it out for file order"
            )
        speed = _speed(options.get("speed", "max"))
        if speed is not None and order is None:
            raise ValueError(
                f"option `speed` is {options['speed']!r} but `order` is missing: give the column "
                f"whose clock it multiplies, or speed 'max'"
            )
        return cls(
            path=path,
            format=_format(options.get("format"), path),
            order=order,
            speed=speed,
            rows_per_batch=_count("rows_per_batch", options.get("rows_per_batch", ROWS_PER_BATCH)),
        )

    def order_columns(self, available: Sequence[str]) -> list[str]:
        """The columns of `order`, which must be among `available`."""
        if self.order is None:
            return []
        if self.order in available:  # a name may contain a comma
            return [self.order]
        listed = [part.strip() for part in self.order.split(",")]
        for column in listed:
            require("option `order`", column, available, self.path)
        return listed


def _file(text: str) -> str:
    if not text:
        raise ValueError(
            "option `path` is missing: give one file, as in "
            '.option("path", "flights.parquet") or .load("flights.parquet")'
        )
    address = urlsplit(text)
    path = unquote(address.path) if address.scheme == "file" else text
    if address.scheme and "://" in text and address.scheme != "file":
        raise ValueError(f"option `path` must be a file in the file system; got {text!r}")
    if os.path.isdir(path):
        raise ValueError(f"option `path` must be one file; {path!r} is a folder")
    if not os.path.isfile(path):
        raise FileNotFoundError(
            f"option `path`: there is no file {path!r} (looked for in {os.getcwd()!r}); "
            f"the driver and every worker must see it under this path"
        )
    return os.path.abspath(path)


def _format(text: str | None, path: str) -> str:
    if text is not None:
        if text.lower() in FORMATS:
            return text.lower()
        hint = did_you_mean(SUFFIXES.get(text.lower(), text), FORMATS)
        raise ValueError(f"option `format` must be one of {', '.join(FORMATS)}; got {text!r}{hint}")
    stem, suffix = os.path.splitext(path.lower())
    packed = suffix in COMPRESSED
    if packed:
        suffix = os.path.splitext(stem)[1]
    found = SUFFIXES.get(suffix[1:])
    if found is None or (packed and found not in ("csv", "json")):
        raise ValueError(
            f"option `format` is missing, and the suffix of {path!r} does not say: give one "
            f"of {', '.join(FORMATS)}"
        )
    return found


def _speed(text: str) -> float | None:
    if text.strip().lower() == "max":
        return None
    try:
        speed = float(text)
    except ValueError:
        speed = math.nan
    if not (math.isfinite(speed) and speed > 0):
        raise ValueError(
            f"option `speed` must be a positive number (1 is real time) or 'max'; got {text!r}"
        )
    return speed


def _count(option: str, text: str | int) -> int:
    try:
        count = int(text)
    except ValueError:
        count = 0
    if count < 1:
        raise ValueError(f"option `{option}` must be a whole number of at least 1; got {text!r}")
    return count


def require(what: str, column: str, available: Sequence[str], path: str) -> None:
    if column not in available:
        raise ValueError(
            f"{what} names a column `{column}` that {path!r} lacks; "
            f"it has {', '.join(available)}{did_you_mean(column, available)}"
        )
