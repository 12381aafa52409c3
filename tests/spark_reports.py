"""Reports of micro-batches as Spark makes them."""

from types import SimpleNamespace


class Observed(dict):
    def asDict(self):  # noqa: N802 - Spark's name
        return dict(self)


def report(batch, rows_in, **observed):
    """A micro-batch of half a second, with two operators with state."""
    state = SimpleNamespace(
        customMetrics={"rocksdbSstFileSize": 70}, memoryUsedBytes=50, numRowsTotal=0
    )
    return SimpleNamespace(
        batchId=batch,
        timestamp=f"t{batch}",
        durationMs={"triggerExecution": 500, "addBatch": 400, "walCommit": 100},
        sources=[SimpleNamespace(numInputRows=rows_in, endOffset="7")],
        observedMetrics={name: Observed(values) for name, values in observed.items()},
        stateOperators=[state, state],
    )


def reorder(rows, late, held, **shown):
    """What a reorder observes."""
    return {"rows": rows, "late": late, "held": held} | shown
