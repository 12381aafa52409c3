"""Figures as JSON lines: an object a sample, with its time, name, labels and value."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from sfumato.metrics.figures import Figures
from sfumato.metrics.samples import samples


def lines(figures: Figures, now: datetime | None = None) -> Iterator[str]:
    """A line a sample, named as in Prometheus' text."""
    at = (now or datetime.now(UTC)).isoformat(timespec="milliseconds")
    for metric, values, value in samples(figures):
        labels = dict(zip(metric.labels, values, strict=True))
        sample = {"at": at, "name": metric.exposed, "labels": labels, "value": value}
        yield json.dumps(sample, ensure_ascii=False)


def append(figures: Figures, file: Path) -> None:
    """Write the lines to the end of a file."""
    with file.open("a", encoding="utf-8") as out:
        out.writelines(f"{line}\n" for line in lines(figures))
