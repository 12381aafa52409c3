"""Rows that are not read in the order in which they arrived: who says so, why, and what helps."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from sfumato.metrics.progress import REORDER, MicroBatch
from sfumato.observed import SIDE, operator_name

CAUSE = (
    "likely cause: files that are not read in the order in which they were written; Spark reads "
    "files by modification time. Cure: give files modification times in order of arrival, or read "
    "all of them in one micro-batch (leave out maxFilesPerTrigger)"
)
OUT_OF_ARRIVAL_ORDER = f"were read after rows that arrived later ({CAUSE})"


@dataclass
class Unordered:
    """Watches the operators of one sink; speaks once for each."""

    _rows: dict[str, int] = field(default_factory=dict)
    _told: set[str] = field(default_factory=set)

    def look(self, batches: Sequence[MicroBatch]) -> Iterator[str]:
        """Build a sentence for each operator that first had rows out of order in these batches.

        Where rows are reordered, the reorders speak, and the operators after them do not.
        """
        for batch in batches:
            metrics = [metric for metric in batch.counters if metric.startswith(REORDER)]
            for metric in metrics or batch.counters:
                counts = batch.counters[metric]
                self._rows[metric] = self._rows.get(metric, 0) + counts.get("rows", 0)
                found = counts.get("out_of_order", 0)
                if not found or metric in self._told or SIDE.search(metric):
                    continue
                self._told.add(metric)
                reordered = "" if metrics else "; reorder the rows first"
                yield (
                    f"{operator_name(metric)}: {found:,} of {self._rows[metric]:,} rows so far "
                    f"{OUT_OF_ARRIVAL_ORDER}{reordered}"
                )
