"""Which part of a join's work an operator does, where several tasks share it."""

from dataclasses import dataclass

from sfumato.operators.arguments import whole


@dataclass(frozen=True)
class Task:
    """Task `number`, from 0, of `tasks`.

    All tasks get all arrivals and know what every window holds. Each keeps the samples of the
    tuples that it owns, every `tasks`-th of a stream, and answers the pairs of an arrival and a
    tuple of these; so every pair has one task, and all tasks together give the answers of one.
    """

    number: int = 0
    tasks: int = 1

    def __post_init__(self) -> None:
        whole("tasks", self.tasks)
        if type(self.number) is not int or not 0 <= self.number < self.tasks:
            raise ValueError(f"`number` must be from 0 to {self.tasks - 1}; got {self.number!r}")


ALONE = Task()
