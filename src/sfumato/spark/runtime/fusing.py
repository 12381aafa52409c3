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
from pyspark.sql.types import ArrayType, StructType

from sfumato.spark.model.controlled import tied
from sfumato.spark.model.names import column, fixed
from sfumato.spark.runtime.made import Made, Passing, made
from sfumato.spark.runtime.reading import Input, Reader
from sfumato.tables.chain import COUNTED, LATE, ChainConfig, ChainStep, Link, Taken, prefix
from sfumato.tables.operator import ROW, TableConfig

FUSE_SETTING = "spark.sfumato.fuse"  # "false": every operator is a step of its own


@dataclass(eq=False)
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

    def all(self) -> list[Step]:
        """The steps below first, each once, this one last."""
        found: list[Step] = []
        for step in self.below:
            found += [] if step is None else [one for one in step.all() if one not in found]
        return [*found, self]

    @property
    def frame(self) -> DataFrame:
        """The frame that the rows of the first input come from."""
        below = self.below[0]
        return self.how.inputs[0].frame if below is None else below.frame

    @property
    def carries(self) -> bool:
        """Whether its answers are the rows that came in, and what rides in them."""
        return _passing(self.how).names is not None

    @property
    def known(self) -> list[str]:
        """The columns of its answers that the frame below all steps has too, with equal values."""
        unchanged, first = _passing(self.how).unchanged, self.readers[0].known
        return [name for name in unchanged if first is None or name in first]


class Fused:
    """An operator and those below it that run in one step with it."""

    def __init__(self, how: Made) -> None:
        self.last = _grown(how, _bucket_keys(how), {})
        self.steps = self.last.all()
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
    def together(self) -> list[str]:
        """The operators by the names of their metrics, where there are several."""
        return [step.how.metrics for step in self.steps] if len(self.steps) > 1 else []

    def _metrics(self, step: Step) -> str:
        """The name of an operator's metrics: its own alone, else that of the last one behind it.

        The same frame may be read elsewhere in a query, and Spark wants other names for that.
        """
        last = self.last.how.metrics.removeprefix("sfumato_")
        return step.how.metrics if step is self.last else f"{step.how.metrics}_in_{last}"

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
            yield self._metrics(step), found
            for side, name in enumerate(_side_names(step.how)):
                if step.below[side] is not None and step.how.inputs[side].validated:
                    of = prefix(number, side)
                    sums = [(count, F.sum(f"{of}{count}")) for count in COUNTED]
                    yield (
                        f"{self._metrics(step)}_{name}",
                        [F.coalesce(total, F.lit(0)).alias(count) for count, total in sums],
                    )


def _side_names(how: Made) -> list[str]:
    """What the inputs of an operator are called in its metrics."""
    return ["input"] if len(how.inputs) == 1 else ["left", "right"]


def _passing(how: Made) -> Passing:
    assert how.passing is not None  # or it is no step below another
    return how.passing


def _bucket_keys(how: Made) -> list[list[str]]:
    """For each input of an operator, the columns that decide which rows meet.

    Those of its key, or, where the operator does little, those of the steps below, in whose buckets
    it then runs too.
    """
    own = [one.bucket_key for one in how.inputs]
    if not all(one.light for one in how.inputs):
        return own
    places = []
    for one in how.inputs:
        before = made(one.frame)
        if before is not None:
            key = before.inputs[0].bucket_key
            if not set(key) <= set(one.key):
                return own
            places.append({one.key.index(name) for name in key})
    if not places or any(place != places[0] for place in places):
        return own
    return [[name for i, name in enumerate(one.key) if i in places[0]] for one in how.inputs]


def _grown(how: Made, bucket_keys: Sequence[Sequence[str]], known: dict[int, Step]) -> Step:
    """A step of an operator, with the steps below it that run in one with it.

    bucket_keys : for each input, the columns that decide which rows meet
    known : steps that are there already, by how their frames were made
    """
    readers = [Reader(*of) for of in zip(how.inputs, bucket_keys, strict=True)]
    step = Step(how, [None] * len(readers), readers)
    joined: list[tuple[Step, Reader]] = []
    for reader in readers:
        before = made(reader.input.frame)
        if before is None or before.passing is None:
            continue
        shared = known.get(id(before))
        below = shared or _grown(before, [reader.bucket_key] * len(before.inputs), known)
        reason = _apart(how, reader, below)
        if reason:
            step.apart.append(f"{before.metrics}: {reason}")
        else:
            known[id(before)] = below
            joined.append((below, reader))
    reason = _torn([below for below, _ in joined], len(readers))
    if reason:
        step.apart += [f"{below.how.metrics}: {reason}" for below, _ in joined]
        return step
    step.below = [below for below, _ in joined]
    for below, reader in joined:
        reader.known = below.known
        if below.carries:
            below.readers[0].riders.append(reader)
    return step


def _torn(below: Sequence[Step], sides: int) -> str:
    """Why an operator reads frames, though operators gave some; empty if it need not."""
    if len(below) < sides:  # the rows of the sides would not come in one order
        return "the other side is read as it is"
    steps = {step for one in below for step in one.all()}
    frames = sum(side is None for step in steps for side in step.below)
    if frames > 1 and any(step.how.idle_timeout is not None for step in steps):
        return "one side may be silent"
    return ""


def _apart(how: Made, reader: Reader, below: Step) -> str:
    """Why an input is read as a frame, though an operator gave it; empty if it need not be."""
    one, before, known, passing = reader.input, below.how, below.known, _passing(below.how)
    if one.frame.sparkSession.conf.get(FUSE_SETTING, "true") == "false":
        return f"`{FUSE_SETTING}` is false"
    if not one.frame.isStreaming and _is_cached(one.frame):
        return "the frame between is cached"
    if how.idle_timeout is not None:
        return "the later one has a time of its own to wait for rows"
    if set(reader.bucket_key) != set(before.inputs[0].bucket_key):
        return "rows meet by another key"
    if one.ordered and (
        [*one.order] != [*passing.order] or (passing.late and LATE not in one.taken)
    ):
        return "rows come in another order"
    wanted = [*one.order, *one.key, *one.taken, *one.passed.names]
    keys = {} if below.carries else {n: (f"key{i}",) for i, n in enumerate(before.inputs[0].key)}
    if any(name not in known and passing.taken(name) is None for name in wanted) or any(
        passing.taken(name) != Taken(path) for name, path in keys.items() if name in one.key
    ):
        return "a column was renamed in between"
    if (one.computed or one.validated or one.ordered) and not below.carries:
        return "the later one reads what Spark computes of its answers"
    if one.ordered and not set(tied(one.frame.schema)) <= set(known):
        return "columns were renamed in between"
    if one.computed and not _computable(one, below.frame.select(*map(column, known))):
        return "the later one reads what Spark computes of its results"
    return ""


def _is_cached(frame: DataFrame) -> bool:
    level = frame.storageLevel
    return level.useMemory or level.useDisk or level.useOffHeap


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
    one, passing, taken = reader.input, _passing(below.how), dict[str, Taken]()
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
