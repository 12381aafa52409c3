"""A processor of buckets that is loaded with the first rows, not at the start of a query.

At every start, Spark loads its processor in a new process next to the driver, only to read the
state variables. That process must not import NumPy, Arrow or kernels, because these imports take
longer than all other imports. This module imports none of them. Spark sends every processor
pickled; nothing pickled is stored.
"""

import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, LongType, StructType

# Types are objects, because Spark would parse strings again for every task.
ENTRY = StructType().add("number", LongType())
DATA_SCHEMA = StructType().add("data", BinaryType())


@dataclass(eq=False)
class DeferredProcessor(StatefulProcessor):
    """A pickled processor, which is loaded when it is first called.

    The state is a single map, because every state variable costs milliseconds per micro-batch.
    """

    pickled: bytes

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.entries = handle.getMapState("entries", ENTRY, DATA_SCHEMA)

    @cached_property
    def processor(self) -> Any:
        """The processor over this task's state."""
        processor = pickle.loads(self.pickled)
        processor.open(self.handle, self.entries)
        return processor

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802
        yield from self.processor.handleInputRows(key, rows, timerValues)

    def handleExpiredTimer(  # noqa: N802
        self, key: Any, timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[Row]:
        yield from self.processor.handleExpiredTimer(key, timerValues, expiredTimerInfo)
