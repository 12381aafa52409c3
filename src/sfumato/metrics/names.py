"""The names of all metrics, with what they mean: once, for Prometheus, JSON lines and the docs."""

from collections.abc import Iterator
from dataclasses import dataclass

COUNTER, GAUGE = "counter", "gauge"
QUERY = ("query",)
OPERATOR = ("query", "operator", "side")


@dataclass(frozen=True)
class Metric:
    """A metric: its name without the ending `_total` of counters, its labels, its meaning."""

    name: str
    kind: str
    labels: tuple[str, ...]
    about: str

    @property
    def exposed(self) -> str:
        """Its name as Prometheus shows it."""
        return f"{self.name}_total" if self.kind == COUNTER else self.name


def _of_query(name: str, kind: str, about: str, *more: str) -> Metric:
    return Metric(f"sfumato_{name}", kind, (*QUERY, *more), about)


def _of_operator(name: str, about: str, *more: str) -> Metric:
    return Metric(f"sfumato_{name}", GAUGE, (*OPERATOR, *more), about)


ROWS_IN = _of_query("rows_in", COUNTER, "rows read, over all sources of the query")
ROWS_OUT = _of_query("rows_out", COUNTER, "rows that reached the sink of a pipeline file")
BATCHES = _of_query("batches", COUNTER, "micro-batches that ran")
BUSY = _of_query("busy_seconds", COUNTER, "seconds that micro-batches took, all together")
LAST = _of_query("batch_seconds", GAUGE, "seconds that the newest micro-batch took")
PART = _of_query("batch_part_seconds", GAUGE, "of them, by the parts that Spark names", "part")
ENDED = _of_query("batch_end_timestamp_seconds", GAUGE, "when the newest micro-batch was reported")
ACTIVE = _of_query("active", GAUGE, "1 while the query runs, 0 when it has ended")
FAILED = _of_query("failed", GAUGE, "1 when it ended by an error")
STATE_MEMORY = _of_query("state_memory_bytes", GAUGE, "memory of the state store")
STATE_DISK = _of_query("state_disk_bytes", GAUGE, "files of the state store")
STATE_ROWS = _of_query(
    "state_rows",
    GAUGE,
    "entries of the state store; 0 unless Spark's setting "
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows is true",
)
OF_QUERIES = (
    *(ROWS_IN, ROWS_OUT, BATCHES, BUSY, LAST, PART, ENDED, ACTIVE, FAILED),
    *(STATE_MEMORY, STATE_DISK, STATE_ROWS),
)


@dataclass(frozen=True)
class State:
    """A state of rows: when they are in it, what happens to them, and what counts them."""

    name: str
    condition: str
    happens: str
    counted: str


STATES = (
    State(
        "late",
        "the punctuation of the row's source was above its event time when it arrived; or it is "
        "`stale` or `invalid` for `reorder`, or far in the future and contradicted by a later row, "
        "or a full buffer could hold nothing else",
        "`reorder` emits it immediately with `late = true`. A window by time adds it to the "
        "extents that are still open; windows of rows, joins and rankings leave it out; other "
        "operators pass it on",
        "of `reorder`: rows emitted with `late = true`; of other operators: rows left out because "
        "they came too late",
    ),
    State(
        "invalid",
        "the operator cannot read the row: no event time, order, key or alternatives, or such as "
        "cannot be",
        "left out; `reorder` emits it as late, with `punctuation` NULL, and `earlier_values` "
        "emits it with nothing known",
        "rows that the operator could not read",
    ),
    State(
        "held",
        "a `reorder` has taken the row in and not emitted it yet",
        "emitted in order once the punctuation has passed it, or when the stream ends",
        "rows held now, in the buckets of keys that had rows since the query started",
    ),
    State(
        "forced",
        "more rows would be held than `max_buffer`",
        "the punctuation moves up, so that the oldest rows are emitted, in order, before the "
        "control would emit them",
        "arrivals at which a full buffer moved the punctuation",
    ),
    State(
        "outside",
        "the event time lies between two extents, which a `slide` longer than the `length` leaves",
        "in no extent",
        "rows between two extents",
    ),
    State(
        "unmatched",
        "a row of `extent_join` for whose extent and key the other side has no row, and can have "
        "none any more",
        "in no pair",
        "rows of a join of extents without a row of the other side in the same extent and key",
    ),
)
_STATES = {state.name: state.counted for state in STATES}

HELD = _of_operator("reorder_held_rows", _STATES["held"])
LAG = _of_operator(
    "reorder_lag_seconds",
    "how far the punctuation is behind the newest row held, of the key where this is most",
)
OLDEST = _of_operator("reorder_oldest_timestamp_seconds", "least event time that is held")
PUNCTUATION = _of_operator(
    "reorder_punctuation_timestamp_seconds",
    "least punctuation of the keys that hold rows or just had some",
)
LATE_SHARE = _of_operator(
    "late_share", "late rows over the rows that came into the operator, since the query started"
)
WAIT = _of_operator(
    "reorder_wait_seconds",
    "how long rows were held that came out in order in the last five minutes before the newest "
    "micro-batch, from their arrival to that of the row that let them out; within a factor of two",
    "quantile",
)
WAITED = _of_operator(
    "reorder_oldest_wait_seconds", "how long the row has waited that is held longest"
)
OF_REORDERS = (HELD, LAG, OLDEST, PUNCTUATION, WAIT, WAITED, LATE_SHARE)

KEYS = _of_operator(
    "operator_keys",
    "keys known; after a restart at least so many, until a micro-batch has rows of every bucket",
)
WINDOW_SIZE = _of_operator(
    "window_size", "tuples in the largest window of the newest micro-batch with answers: w'"
)
WINDOW_ROWS = _of_operator(
    "window_rows", "tuples that are to exist in a window by count, with its confidence: w"
)
DUE = _of_operator(
    "ranking_due_timestamp_seconds",
    "event time of the next run of a ranking, of the key where it comes first",
)
OF_OPERATORS = (KEYS, WINDOW_SIZE, WINDOW_ROWS, DUE)


# What operators count, by the name of the counter.
COUNTED = {
    "rows": "rows that came in",
    "late": _STATES["late"],
    "stale": "late rows with an incredibly long delay",
    "after_idle": "rows late only because of an idle timeout",
    "invalid": _STATES["invalid"],
    "future": "rows with an incredibly early event time",
    "forced": _STATES["forced"],
    "out_of_order": "rows whose order is before that of an earlier micro-batch",
    "outside": _STATES["outside"],
    "skipped": "extents without a row that are not in the answers, in gaps of over a million",
    "overflow": "tuples left out by the most that a window may hold",
    "unaligned": "rows of two streams joined without punctuations",
    "pairs": "pairs that were answered",
    "unmatched": _STATES["unmatched"],
    "complete": "rows that lacked nothing",
    "imputed": "rows whose values were imputed",
    "unimputable": "rows that no dependency could complete",
    "beyond": "donors too far apart for a dependency to hold",
    "few_rows": "rows imputed from too few rows to show a range of probability 90%",
    "completed": "rows of a join that were imputed in full",
    "refined": "pairs of incomplete rows that were compared",
    "rejected": "rows left out because their rule has more than probability 1",
    "executions": "kernel runs of a ranking",
    "cost": "sum of their k",
    "answers": "rows of answers of a ranking",
    "answered": "answers of a ranking: one for each query, instant and key",
    "late_answers": "answers whose latency is above their query's `every`",
    "latency": "sum of the answers' latencies, in microseconds",
    "spoiled": "values that a decoder could not read",
    "opposite": "pairs of an arrival and a tuple that the other window of a join held then",
    "compared": "of them, pairs whose alternatives were compared; the others were pruned",
}
GATHERED = ("held",)  # counters that are shown as a gauge


def operator_counter(counter: str) -> Metric:
    """The metric of a counter; one without a line above has its own name for a meaning."""
    about = COUNTED.get(counter, counter.replace("_", " "))
    return Metric(f"sfumato_operator_{counter}", COUNTER, OPERATOR, about)


def answers() -> Metric:
    """The metric of the answers to each query of a ranking."""
    about = "answers of a ranking, by its queries"
    return Metric("sfumato_ranking_answers", COUNTER, ("query", "operator", "ranking"), about)


def every_metric() -> Iterator[Metric]:
    """All of them, in the order of the docs."""
    yield from OF_QUERIES
    yield from OF_REORDERS
    yield from OF_OPERATORS
    yield from (operator_counter(name) for name in COUNTED)
    yield answers()


def states() -> str:
    """Return the table of the states of rows, for the docs."""
    lines = ["| state | condition | what happens | counter |", "|---|---|---|---|"]
    for state in STATES:
        lines.append(
            f"| {state.name} | {state.condition} | {state.happens} | "
            f"`{state.name}`: {state.counted} |"
        )
    return "\n".join(lines) + "\n"


def page() -> str:
    """The table of the docs."""
    lines = ["| metric | kind | labels | meaning |", "|---|---|---|---|"]
    for metric in every_metric():
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        lines.append(f"| `{metric.exposed}` | {metric.kind} | {labels} | {metric.about} |")
    return "\n".join(lines) + "\n"
