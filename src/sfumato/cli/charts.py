"""Charts of the timetables of a pipeline, for `sfumato explain --chart`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sfumato.charts import save, timetable_chart
from sfumato.language.steps import Step, explained
from sfumato.spark.model.figures import timetables

AXIS_UNITS = (("hour", 3_600_000_000), ("minute", 60_000_000), ("second", 1_000_000))


def draw(steps: Mapping[str, Step], folder: Path) -> list[Path]:
    """Draw the timetable of each TOP query, once for queries answered together.

    steps : by query, its last operation
    Returns the files, a page and an image each. Raises ImportError without the extra `charts`.
    """
    drawn: dict[Any, str] = {}
    for name, step in steps.items():
        for ranked in step.walk():
            if "timetable" in ranked.facts:
                below = "".join(map(explained, ranked.inputs.values()))
                key = (*ranked.facts["timetable"], ranked.facts["ranked by"], below)
                drawn.setdefault(key, name)
    files = []
    for (queries, plan, *_), name in drawn.items():
        shared, _ = timetables(queries, plan)
        unit, size = _unit(min(every for *_, every in queries))
        names, against = [each for each, *_ in queries], ("none", "in", "inco")
        chart = timetable_chart(shared, names, unit=unit, size=size, against=against)
        folder.mkdir(parents=True, exist_ok=True)
        files += [save(chart, folder / f"{name}{ending}") for ending in (".html", ".png")]
    return files


def _unit(every: int) -> tuple[str, int]:
    """Return the largest unit of time that is not longer than the shortest `every`."""
    return next(((unit, size) for unit, size in AXIS_UNITS if size <= every), ("microsecond", 1))
