"""Answers in the files that Spark's file sink has committed, compared with expected ones."""

import json
from collections import Counter
from pathlib import Path
from urllib.parse import unquote, urlsplit

DIGITS = 9  # compared significant digits; rows may be added in a different order within a batch


def committed_files(folder: Path) -> list[Path]:
    """Return the files in the sink's log of finished micro-batches, each once."""
    return sorted(
        {
            Path(unquote(urlsplit(json.loads(line)["path"]).path))
            for log in (folder / "_spark_metadata").glob("[0-9]*")
            for line in log.read_text().splitlines()[1:]
        }
    )


def rounded(value: object) -> object:
    """Round the numbers of a value to the compared digits."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {name: rounded(part) for name, part in value.items()}
    return [rounded(part) for part in value] if isinstance(value, list | tuple) else value


def compared(expected: Counter[str], got: Counter[str]) -> dict[str, int]:
    """Count answers, and how many are lost or doubled."""
    return {
        "answers": sum(got.values()),
        "lost": sum((expected - got).values()),
        "doubled": sum((got - expected).values()),
    }
