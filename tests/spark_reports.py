"""Reports of micro-batches as Spark makes them."""

from types import SimpleNamespace

from sfumato.reports import METRIC_PREFIX, OperatorPart

KINDS = ("reorder", "join", "window", "top_k", "impute")
SIDES = ("input", "left", "right", "answers")


class Observed(dict):
    def asDict(self):  # noqa: N802 - Spark's name
        return dict(self)


def part(name):
    """The part of an operator from the usual name of its metrics, `sfumato_join_2_left` say."""
    own = name.removeprefix(METRIC_PREFIX).partition("__in_")[0]
    side = next((side for side in SIDES if name.endswith(f"_{side}")), "")
    own = own.removesuffix(f"_{side}") if side else own
    kind = next(kind for kind in KINDS if own.startswith(kind))
    return OperatorPart(kind, own, side)


def observed_row(name, values):
    """What Spark observes under a name, of an operator with the fields that say so."""
    if name == "sfumato_rows_out" or not name.startswith(METRIC_PREFIX):
        return Observed(values)
    of = part(name)
    return Observed(kind=of.kind, operator=of.operator, step=1, side=of.side, **values)


def report(batch, rows_in, *, ran=True, run=None, **observed):
    """A micro-batch of half a second, with two operators with state."""
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
    """What a reorder observes."""
    return {"rows": rows, "late": late, "held": held} | shown
