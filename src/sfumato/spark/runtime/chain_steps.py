"""Which operators run in one step: those that take each other's rows within the same buckets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from sfumato.spark.model.frame import SparkFrame
from sfumato.spark.model.names import column
from sfumato.spark.runtime.made import Made, Passing, made
from sfumato.spark.runtime.reading import Input, Reader
from sfumato.tables.link import LATE, Taken

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
        return passing_of(self.how).names is not None

    @property
    def known(self) -> list[str]:
        """The columns of its answers that the frame below all steps has too, with equal values."""
        unchanged, first = passing_of(self.how).unchanged, self.readers[0].known
        return [name for name in unchanged if first is None or name in first]


def passing_of(how: Made) -> Passing:
    assert how.passing is not None  # or it is no step below another
    return how.passing


def bucket_keys(how: Made) -> list[list[str]]:
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


def grown(how: Made, bucket_keys: Sequence[Sequence[str]], known: dict[int, Step]) -> Step:
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
        below = shared or grown(before, [reader.bucket_key] * len(before.inputs), known)
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
    one, before, known, passing = reader.input, below.how, below.known, passing_of(below.how)
    if not _wanted(one.frame.sparkSession):
        return f"`{FUSE_SETTING}` is false"
    if how.config.tasks > 1:
        return "several tasks share the later one"
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
    if one.ordered and not set(SparkFrame(one.frame).tied) <= set(known):
        return "columns were renamed in between"
    if one.computed and not _computable(one, below.frame.select(*map(column, known))):
        return "the later one reads what Spark computes of its results"
    return ""


def _wanted(spark: SparkSession) -> bool:
    given = (spark.conf.get(FUSE_SETTING, "true") or "").lower()
    if given not in ("true", "false"):
        raise ValueError(
            f"`{FUSE_SETTING}` must be true or false; got {given!r}: leave it out for true"
        )
    return given == "true"


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
