"""Operators that run in one step, as one: their config, what they read, and what is observed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, StructType

from sfumato.spark.crossing.figures import Figures
from sfumato.spark.model.names import fixed
from sfumato.spark.runtime.chain_steps import Step, bucket_keys, grown, passing_of
from sfumato.spark.runtime.made import GivenName, Made
from sfumato.spark.runtime.reading import Input, Reader
from sfumato.tables.chain import ChainConfig, ChainStep, prefix
from sfumato.tables.link import COUNTED, LATE, Link, Taken
from sfumato.tables.operator import ROW, TableConfig

IN_STEP_WITH = "__in_"  # between an operator's name and that of the last one of its chain


class Fused:
    """An operator and those below it that run in one step with it."""

    def __init__(self, how: Made) -> None:
        self.last = grown(how, bucket_keys(how), {})
        self.steps = self.last.all()
        self._plain = _first_uses(self.steps)
        self.sources: list[Reader] = []  # how the frames are read
        for number, step in enumerate(self.steps):
            step.number = number
            for side, (reader, below) in enumerate(zip(step.readers, step.below, strict=True)):
                reader.name = f"step{number}_side{side}"
                reader.metrics = f"{self._metrics(step)}_{_side_names(step.how)[side]}"
                reader.last = step is self.last
                self.sources += [reader] if below is None else []
        # Steps above say first what they want of those below.
        links = {(s.number, side): link for s in reversed(self.steps) for side, link in _links(s)}
        frames = {id(reader): place for place, reader in enumerate(self.sources)}
        self.chain = ChainConfig(
            tuple(
                ChainStep(
                    step.how.config,
                    tuple(
                        frames[id(reader)] if below is None else links[step.number, side]
                        for side, (below, reader) in enumerate(
                            zip(step.below, step.readers, strict=True)
                        )
                    ),
                    idles=step.how.idle_timeout is not None,
                )
                for step in self.steps
            )
        )

    @property
    def config(self) -> TableConfig | ChainConfig:
        """Of the one operator, or of all of them."""
        return self.chain if len(self.steps) > 1 else self.last.how.config

    @property
    def idle_timeout(self) -> int | None:
        """Microseconds; None: no step waits for rows."""
        return next((s.how.idle_timeout for s in self.steps if s.how.idle_timeout), None)

    @property
    def validated(self) -> bool:
        """Whether some rows of an input may take no part."""
        return any(one.validated for step in self.steps for one in step.how.inputs)

    @property
    def together(self) -> list[str]:
        """The operators by the names of their metrics, where there are several."""
        return [step.how.metrics for step in self.steps] if len(self.steps) > 1 else []

    def _metrics(self, step: Step) -> str:
        """The name of an operator's metrics: its own, or followed by that of the last one.

        The same frame may be read elsewhere in a query, and Spark wants other names for that. A
        name that the user gave stays where an operator is taken in one step for the first time.
        """
        own, last = step.how.metrics, self.last.how.metrics.removeprefix("sfumato_")
        if step is self.last or (isinstance(own, GivenName) and step in self._plain):
            return own
        return f"{own}{IN_STEP_WITH}{last}"

    def fingerprint(self) -> dict[str, Any]:
        """What a checkpoint is recognised by: configs and frames, as JSON values."""
        found = [
            json.loads(step.how.config.fingerprint())
            | dict(
                zip(_side_names(step.how), (one.described for one in step.how.inputs), strict=True)
            )
            for step in self.steps
        ]
        if len(found) == 1:
            return found[0]
        operators = " then ".join(one["operator"] for one in found)
        return {"operator": operators} | {f"step {i}": one for i, one in enumerate(found)}

    def figures(self) -> Iterator[tuple[str, list[Column]]]:
        """What is observed: under which name, and the counters and gauges of each operator."""
        alone, places = len(self.steps) == 1, Figures.of(self.config).places
        for number, step in enumerate(self.steps):
            config = step.how.config
            before = "" if alone else prefix(number)
            found = [_total(places[f"{before}{name}"]).alias(name) for name in config.counters]
            own = {name: places[f"{before}{name}"] for name in config.gauges}
            for name, (_, aggregate) in config.gauges.items():
                found.append(F.expr(_placed(aggregate, own)).alias(name))
            yield self._metrics(step), found
            for side, name in enumerate(_side_names(step.how)):
                if step.below[side] is not None and step.how.inputs[side].validated:
                    of = prefix(number, side)
                    found = [_total(places[f"{of}{count}"]).alias(count) for count in COUNTED]
                    yield f"{self._metrics(step)}_{name}", found


def _first_uses(steps: Sequence[Step]) -> set[Step]:
    """Return the steps that no other chain may have: each is first taken by the next in this one.

    steps : of a chain, a step after those that feed it
    """
    found = {steps[-1]}
    for step in reversed(steps[:-1]):
        by = [other for other in steps if step in other.below]
        if all(other in found and step.how.is_first_use(other.how) for other in by):
            found.add(step)
    return found


def _placed(aggregate: str, places: Mapping[str, str]) -> str:
    """An SQL aggregate over figures with these in their places."""
    return re.sub(rf"\b({'|'.join(places)})\b", lambda of: places[of[0]], aggregate)


def _total(place: str) -> Column:
    """The sum of a counter; 0 where there is none."""
    return F.coalesce(F.sum(F.expr(place)), F.lit(0))


def _side_names(how: Made) -> list[str]:
    """What the inputs of an operator are called in its metrics."""
    return ["input"] if len(how.inputs) == 1 else ["left", "right"]


def _links(step: Step) -> Iterator[tuple[int, Link]]:
    """(side, link) of the inputs that steps below give."""
    for side, (below, reader) in enumerate(zip(step.below, step.readers, strict=True)):
        if below is not None:
            yield side, _link(step, reader, below)


def _link(step: Step, reader: Reader, below: Step) -> Link:
    one, passing, taken = reader.input, passing_of(below.how), dict[str, Taken]()
    wanted = dict(one.columns) | {name: name for name in one.taken}
    if reader.last or not below.carries:
        passed = enumerate(one.passed.names)
        wanted |= {f"{ROW}.{fixed(i)}": name for i, name in passed}
    else:
        wanted |= {
            f"{ROW}.{fixed(i)}": n for i, n in enumerate(one.passed.names) if n in step.wanted
        }
    for place, name in wanted.items():
        if not reader.knows(name):
            found = passing.taken(name)
            assert found is not None  # see `_apart`
            taken[place] = found
            if name not in passing.added:
                below.wanted.add(name)
    return Link(
        below.number,
        reader.name if below.carries else "",
        taken,
        passing.where,
        _fields(one, [name for name in one.taken if name in taken]),
        validated=one.validated,
        spares_late=one.spares_late and not reader.knows(LATE),
    )


def _fields(one: Input, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Of columns that are lists of structs, what the fields are called."""
    kinds = {name: one.frame.schema[name].dataType for name in names}
    return {
        name: tuple(kind.elementType.names)
        for name, kind in kinds.items()
        if isinstance(kind, ArrayType) and isinstance(kind.elementType, StructType)
    }
