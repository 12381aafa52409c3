"""Names and descriptions of all metrics, for the exporters and the documentation."""

from collections.abc import Mapping
from dataclasses import dataclass

COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"


@dataclass(frozen=True)
class MetricDefinition:
    """A metric: its name without the suffix `_total` of counters, its labels, its description."""

    name: str
    kind: str
    labels: tuple[str, ...]
    about: str

    @property
    def exposed(self) -> str:
        """Return the name in the Prometheus text format."""
        return f"{self.name}_total" if self.kind == COUNTER else self.name

    @property
    def family(self) -> str:
        """Return the common name of a histogram's parts, or the metric's own name."""
        return self.name.rpartition("_")[0] if self.kind == HISTOGRAM else self.name


QUERY_COUNTERS = {
    "rows_in": "rows read, over all sources of the query",
    "rows_out": "rows that reached the sink; outside pipeline files, 0 for sinks that do not "
    "report a row count",
    "batches": "micro-batches that ran",
    "batch_duration_seconds": "total duration of all micro-batches",
}
QUERY_GAUGES = {
    "batch_seconds": "duration of the newest micro-batch",
    "batch_part_seconds": "durations of the phases of the newest micro-batch, named as in Spark",
    "batch_end_timestamp_seconds": "time at which the newest micro-batch was reported",
    "active": "1 while the query runs, 0 when it has ended",
    "failed": "1 if the query ended with an error, otherwise 0",
    "state_memory_bytes": "bytes of memory of the state store",
    "state_disk_bytes": "bytes of the files of the state store",
    "state_rows": "entries of the state store; 0 unless Spark counts them, which "
    "sf.ops.settings() disables",
}
OPERATOR_GAUGES = {
    "reorder_held_rows": "rows held now, in the buckets whose keys have had rows since the query "
    "started",
    "reorder_lag_seconds": "event time of the newest held row minus the punctuation, for the "
    "key with the largest lag",
    "reorder_oldest_timestamp_seconds": "smallest event time among the held rows",
    "reorder_punctuation_timestamp_seconds": "smallest punctuation of the keys that hold rows or "
    "just had rows",
    "reorder_oldest_wait_seconds": "waiting time of the row that has been held longest",
    "late_share": "late rows as a share of the rows read since the query started; for `reorder`, "
    "neither number includes duplicates or invalid rows",
    "operator_keys": "known keys; after a restart a lower bound, until every bucket has had rows",
    "window_size": "tuples in the largest window of the newest micro-batch with answers: w'",
    "window_rows": "tuples that must exist in a row window with its confidence: w",
    "ranking_due_timestamp_seconds": "event time of the next run of a ranking, for the key that "
    "is due first",
}
OPERATOR_HISTOGRAMS = {
    "reorder_wait_seconds_bucket": "rows emitted in order that were held for at most `le` "
    "seconds, from the arrival of the row to the arrival of the "
    "row that released it",
    "reorder_wait_seconds_count": "rows emitted in order, in all buckets",
}
# Operator counters, by name. docs/reference/semantics/row-states.md defines some of the terms.
COUNTER_TEXTS = {
    "rows": "rows read by the operator",
    "late": "in `reorder`, rows emitted with `late = true`; in other operators, rows left out "
    "because they came too late",
    "stale": "late rows with an implausibly long delay, or beyond `max_behind`",
    "after_idle": "rows that are late only because of an idle timeout",
    "invalid": "rows that the operator could not read",
    "future": "rows with an implausibly late event time, or beyond `max_ahead`",
    "duplicates": "late rows with the id of an earlier row",
    "forced": "arrivals at which a full buffer advanced the punctuation",
    "out_of_order": "rows that belong before a row of an earlier micro-batch",
    "outside": "rows, on time or late, between two extents",
    "skipped": "extents without rows, or points of `resample`, that are not emitted because a gap "
    "is too long",
    "corrections": "rows that a newer version replaced in an open extent",
    "outdated": "rows that were not newer than the known version of their id",
    "unequal": "rows that contradict the probabilities of earlier rows with the same `shared`",
    "revisions": "early answers of windows",
    "on_arrival": "rows counted in early answers when they arrived",
    "overflow": "tuples evicted because a window reached `max_tuples`",
    "unaligned": "rows of two streams that were joined without punctuations",
    "pairs": "pairs in the answers",
    "unmatched": "in a join of extents, rows without a row of the other side in the same extent "
    "and key; in an outer join by distance, rows emitted without a partner",
    "complete": "rows without missing values",
    "imputed": "rows whose values were imputed",
    "unimputable": "rows that no dependency could complete",
    "far_donors": "rows whose donors are too far apart for a dependency to hold",
    "few_rows": "rows imputed from too few rows to support a 90% range",
    "shared": "rows imputed from the rows of all keys, because their own key has too few rows",
    "tested": "known values that were hidden to test their imputation",
    "covered": "tested known values within their imputed 90% range",
    "widened": "rows whose imputed ranges were widened, because too few tested values were inside",
    "fully_imputed": "rows of a join whose values were all imputed",
    "pairs_compared": "pairs of incomplete rows whose alternatives were compared",
    "rejected": "rows left out because the probabilities of their rule sum to more than 1",
    "executions": "kernel runs of a ranking",
    "cost": "sum of k over all kernel runs of a ranking",
    "answers": "rows of answers of a ranking",
    "answered": "answers of a ranking, one per query, instant and key",
    "late_answers": "ranking answers whose latency is above the query's `every`",
    "undecodable": "values that a decoder could not read",
    "opposite": "pairs of an arriving tuple and a tuple in the other window of a join at that time",
    "compared": "pairs of `opposite` whose alternatives were compared; the others were pruned",
}
OPERATOR_COUNTERS = {
    **{f"operator_{counter}": about for counter, about in COUNTER_TEXTS.items()},
    "ranking_latency_seconds": "sum of the latencies of a ranking's answers",
    "ranking_answers": "answers of a ranking, by its queries",
}
OTHER_LABELS = {
    "batch_part_seconds": ("query", "part"),
    "reorder_wait_seconds_bucket": ("query", "operator", "side", "le"),
    "ranking_answers": ("query", "operator", "ranking"),
}


def _metrics(
    kind: str, abouts: Mapping[str, str], labels: tuple[str, ...] = ("query", "operator", "side")
) -> dict[str, MetricDefinition]:
    return {
        name: MetricDefinition(f"sfumato_{name}", kind, OTHER_LABELS.get(name, labels), about)
        for name, about in abouts.items()
    }


METRICS = {  # by name without `sfumato_`, in the order of the docs
    **_metrics(COUNTER, QUERY_COUNTERS, ("query",)),
    **_metrics(GAUGE, QUERY_GAUGES, ("query",)),
    **_metrics(GAUGE, OPERATOR_GAUGES),
    **_metrics(HISTOGRAM, OPERATOR_HISTOGRAMS),
    **_metrics(COUNTER, OPERATOR_COUNTERS),
}


def operator_counter(counter: str) -> MetricDefinition:
    """Return the metric of a counter; an unknown counter is described by its name."""
    name, about = f"operator_{counter}", counter.replace("_", " ")
    return METRICS.get(name) or _metrics(COUNTER, {name: about})[name]
