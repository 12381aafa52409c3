"""Pictures of a pipeline's timetables, for `sfumato explain --chart`."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from sfumato.charts import save, timetable_chart
from sfumato.spark.model.figures import timetables
from sfumato.sql.constructs.ranked import Ranked
from sfumato.sql.plan.nodes import Step

UNITS = (("hour", 3_600_000_000), ("minute", 60_000_000), ("second", 1_000_000))


def draw(steps: Mapping[str, Step], folder: Path) -> list[Path]:
    """A page and an image of the timetable of each TOP query, once for those answered together.

    steps : what each query of the pipeline does
    Returns the files. Raises ImportError without the packages that draw.
    """
    drawn: dict[Any, str] = {}
    for name, step in steps.items():
        for ranked in _rankings(step):
            drawn.setdefault((ranked.queries, ranked.plan, ranked.by, ranked.input), name)
    files = []
    for (queries, plan, *_), name in drawn.items():
        shared, _ = timetables(queries, plan)
        unit, size = _unit(min(every for *_, every in queries))
        names, against = [each for each, *_ in queries], ("none", "in", "inco")
        chart = timetable_chart(shared, names, unit=unit, size=size, against=against)
        folder.mkdir(parents=True, exist_ok=True)
        files += [save(chart, folder / f"{name}{ending}") for ending in (".html", ".png")]
    return files


def _rankings(step: Any) -> Iterator[Ranked]:
    """The rankings among a step and those below it."""
    if isinstance(step, Ranked):
        yield step
    if isinstance(step, tuple):
        for part in step:
            yield from _rankings(part)
    elif is_dataclass(step):
        for each in fields(step):
            yield from _rankings(getattr(step, each.name))


def _unit(every: int) -> tuple[str, int]:
    """The largest unit of time that is not longer than the shortest `every`."""
    return next(((unit, size) for unit, size in UNITS if size <= every), ("microsecond", 1))
