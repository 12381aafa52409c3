"""Reports of micro-batches in Spark's form."""

from types import SimpleNamespace

from sfumato.reports import METRIC_PREFIX, OperatorPart

KINDS = ("reorder", "join", "window", "top_k", "impute")
SIDES = ("input", "left", "right", "answers")


class Observed(dict):
    def asDict(self):  # noqa: N802 - Spark's name
        return dict(self)


def part(name):
    """Return the operator part with the usual metrics name, such as `sfumato_join_2_left`."""
    own = name.removeprefix(METRIC_PREFIX).partition("__in_")[0]
    side = next((side for side in SIDES if name.endswith(f"_{side}")), "")
    own = own.removesuffix(f"_{side}") if side else own
    kind = next(kind for kind in KINDS if own.startswith(kind))
    return OperatorPart(kind, own, side)


def observed_row(name, values):
    """Return the row that Spark observes under a name, with the fields that name the operator."""
    if name == "sfumato_rows_out" or not name.startswith(METRIC_PREFIX):
        return Observed(values)
    of = part(name)
    return Observed(kind=of.kind, operator=of.operator, step=1, side=of.side, **values)


def report(batch, rows_in, *, ran=True, run=None, **observed):
    """Return the report of a half-second micro-batch with two stateful operators."""
    state = SimpleNamespace(
        customMetrics={"rocksdbSstFileSize": 70}, memoryUsedBytes=50, numRowsTotal=0
    )
    durations = {"triggerExecution": 500, "addBatch": 400, "walCommit": 100}
    return SimpleNamespace(
        batchId=batch,
        timestamp=f"t{batch}",
        runId=run,
        durationMs=durations if ran else {"triggerExecution": 1},
        sources=[SimpleNamespace(numInputRows=rows_in, endOffset="7")],
        observedMetrics={name: observed_row(name, values) for name, values in observed.items()},
        stateOperators=[state, state],
    )


def reorder(rows, late, held, **shown):
    """Return the values that a reorder observes."""
    return {"rows": rows, "late": late, "held": held} | shown
