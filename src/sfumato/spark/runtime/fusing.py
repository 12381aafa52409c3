"""Which operators run in one step: those that take each other's rows within the same buckets."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sfumato.spark.model.names import column, fixed
from sfumato.spark.runtime.made import Made, Passing, made
from sfumato.spark.runtime.reading import Input, Reader
from sfumato.tables.chain import COUNTED, LATE, ChainConfig, ChainStep, Link, Path, prefix
from sfumato.tables.operator import ROW, TableConfig

FUSE_SETTING = "spark.sfumato.fuse"  # "false": every operator is a step of its own


@dataclass
class Step:
    """An operator of a chain that is being put together.

    below : for each input the step that gives it, or None where a frame is read
    readers : how each input is read
    wanted : columns that pass through it and that only a step below knows, for steps above
    apart : why inputs that other operators gave are read as frames
    """

    how: Made
    below: list[Step | None]
    readers: list[Reader]
    number: int = 0
    wanted: set[str] = field(default_factory=set)
    apart: list[str] = field(default_factory=list)

    def all(self) -> Iterator[Step]:
        """The steps below first, this one last."""
        for step in self.below:
            if step is not None:
                yield from step.all()
        yield self

    @property
    def frame(self) -> DataFrame:
        """The frame that the rows of the first input come from."""
        below = self.below[0]
        return self.how.inputs[0].frame if below is None else below.frame

    @property
    def known(self) -> list[str]:
        """The columns of its answers that the frame below all steps has too, with equal values."""
        passing = _passing(self.how)
        first = self.readers[0].known
        return [name for name in passing.unchanged if first is None or name in first]


@dataclass(frozen=True)
class Source:
    """A frame that a chain reads, for the input of a step.

    bucket_key : the columns that decide which rows meet in one operator
    """

    reader: Reader
    metrics: str
    bucket_key: Sequence[str]


class Fused:
    """An operator and those below it that run in one step with it."""

    def __init__(self, how: Made) -> None:
        self.last = _grown(how)
        self.steps = list(self.last.all())
        for number, step in enumerate(self.steps):
            step.number = number
            for side, reader in enumerate(step.readers):
                reader.name = f"step{number}_side{side}"
                reader.last = step is self.last
        self.sources: list[Source] = []
        for side, below in enumerate(self.last.below):
            key = how.inputs[side].bucket_key
            for step in [self.last] if below is None else below.all():
                sides = [side] if step is self.last else range(len(step.below))
                self.sources += [self._source(step, i, key) for i in sides if not step.below[i]]
        # Steps above say first what they want of those below.
        links = {(s.number, side): link for s in reversed(self.steps) for side, link in _links(s)}
        frames = {id(source.reader): place for place, source in enumerate(self.sources)}
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

    def _source(self, step: Step, side: int, key: Sequence[str]) -> Source:
        name = _side_names(step.how)[side]
        return Source(step.readers[side], f"{step.how.metrics}_{name}", key)

    @property
    def config(self) -> TableConfig | ChainConfig:
        """Of the one operator, or of all of them."""
        return self.chain if len(self.steps) > 1 else self.last.how.config

    @property
    def idle_timeout(self) -> int | None:
        """Microseconds; None: no step waits for rows."""
        return next((s.how.idle_timeout for s in self.steps if s.how.idle_timeout), None)

    @property
    def together(self) -> list[str]:
        """The operators by the names of their metrics, where there are several."""
        return [step.how.metrics for step in self.steps] if len(self.steps) > 1 else []

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
        alone = len(self.steps) == 1
        for number, step in enumerate(self.steps):
            config = step.how.config
            before = "" if alone else prefix(number)
            totals = [(name, F.sum(f"{before}{name}")) for name in config.counters]
            found = [F.coalesce(total, F.lit(0)).alias(name) for name, total in totals]
            for name, (_, aggregate) in config.gauges.items():
                said = re.sub(rf"\b({'|'.join(config.gauges)})\b", rf"{before}\1", aggregate)
                found.append(F.expr(said).alias(name))
            yield step.how.metrics, found
            for side, name in enumerate(_side_names(step.how)):
                if step.below[side] is not None and step.how.inputs[side].validated:
                    of = prefix(number, side)
                    sums = [(count, F.sum(f"{of}{count}")) for count in COUNTED]
                    yield (
                        f"{step.how.metrics}_{name}",
                        [F.coalesce(total, F.lit(0)).alias(count) for count, total in sums],
                    )


def _side_names(how: Made) -> list[str]:
    """What the inputs of an operator are called in its metrics."""
    return ["input"] if len(how.inputs) == 1 else ["left", "right"]


def _passing(how: Made) -> Passing:
    assert how.passing is not None  # or it is no step below another
    return how.passing


def _grown(how: Made) -> Step:
    """A step of an operator, with the steps below it that run in one with it."""
    step = Step(how, [None] * len(how.inputs), [Reader(one) for one in how.inputs])
    for side, one in enumerate(how.inputs):
        before = made(one.frame)
        if before is None:
            continue
        below = _grown(before)
        reason = _apart(how, one, below)
        if reason:
            step.apart.append(f"{before.metrics}: {reason}")
            continue
        step.below[side] = below
        reader = step.readers[side]
        reader.known = below.known
        below.readers[0].riders.append(reader)
    return step


def _apart(how: Made, one: Input, below: Step) -> str:
    """Why an input is read as a frame, though an operator gave it; empty if it need not be."""
    before = below.how
    if one.frame.sparkSession.conf.get(FUSE_SETTING, "true") == "false":
        return f"`{FUSE_SETTING}` is false"
    if before.passing is None:
        return "its answers are not the rows that came in"
    if not one.frame.isStreaming and one.frame.storageLevel.useMemory:
        return "the frame between is cached"
    if how.idle_timeout is not None:
        return "both have a time to wait for rows, or its own has to see each row"
    if len(how.inputs) > 1 and any(step.how.idle_timeout is not None for step in below.all()):
        return "one side may be silent"
    if set(one.bucket_key) != set(before.inputs[0].bucket_key):
        return "rows meet by another key"
    known = below.known
    read = [*one.marks, *one.passed.names]
    if any(name not in known and before.passing.path(name) is None for name in read):
        return "a column was renamed in between"
    own = [name for name in (*one.order, *one.key) if name not in known]
    if own:
        return f"`{own[0]}` is its result"
    if not _computable(one, below.frame.select(*map(column, known))):
        return "what is computed in between reads its results"
    return ""


def _computable(one: Input, frame: DataFrame) -> bool:
    """Whether what an operator reads can be computed of a frame."""
    try:
        frame.select(*one.computed.values()).schema  # noqa: B018 - Spark Connect analyses it here
    except AnalysisException:
        return False
    return True


def _links(step: Step) -> Iterator[tuple[int, Link]]:
    """(side, link) of the inputs that steps below give."""
    for side, (below, reader) in enumerate(zip(step.below, step.readers, strict=True)):
        if below is not None:
            yield side, _link(step, reader, below)


def _link(step: Step, reader: Reader, below: Step) -> Link:
    one, passing, taken = reader.input, _passing(below.how), dict[str, Path]()
    wanted = {name: name for name in one.marks if not reader.knows(name)}
    for i, of in enumerate(one.passed.fields):
        if not reader.knows(of.name) and (reader.last or of.name in step.wanted):
            wanted[f"{ROW}.{fixed(i)}"] = of.name
    for place, name in wanted.items():
        path = passing.path(name)
        assert path is not None  # see `_apart`
        taken[place] = path
        if name not in passing.added:
            below.wanted.add(name)
    return Link(
        below.number,
        reader.name,
        taken,
        validated=one.validated,
        spares_late=one.spares_late and not reader.knows(LATE),
    )
