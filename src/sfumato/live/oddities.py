"""What is out of the ordinary in a query's totals, in words."""

from collections.abc import Iterator, Mapping

from sfumato.metrics.progress import late_and_rows
from sfumato.metrics.unordered import OUT_OF_ARRIVAL_ORDER

ENOUGH = 1_000  # rows before a share says anything
FEW = 0.01  # of rows that may be set aside without a word

# Counter, and what many of it mean.
SET_ASIDE = {
    "invalid": "were skipped as invalid",
    "spoiled": "could not be decoded",
    "out_of_order": "came after later ones of an earlier micro-batch: reorder them first",
    "unaligned": "were joined without punctuations, by the pace of reading: reorder both streams",
    "future": "have an incredibly early event time: is a clock wrong?",
    "unimputable": "have a missing value that no dependency could complete",
    "overflow": "were evicted by the most tuples that a window may hold",
}
# Where an operator of some kind does something else with them.
OF_KIND = {
    "reorder": {
        "invalid": "have no valid event time or arrival: they come out as late",
        "out_of_order": OUT_OF_ARRIVAL_ORDER,
    },
    "earlier_values": {"invalid": "have no order or key: they come out with nothing known"},
}


def oddities(counters: Mapping[str, dict[str, int]], target: float | None) -> Iterator[str]:
    """Sentences about totals. counters : by metric    target : the late share that is wanted"""
    late, rows = late_and_rows(dict(counters))
    if target is not None and rows >= ENOUGH and late > 1.5 * target * rows:
        yield f"{late / rows:.2%} of the rows came late; wanted are {target:.2%}"
    for metric, counts in counters.items():
        where = metric.removeprefix("sfumato_")
        kind = next((kind for kind in OF_KIND if where.startswith(f"{kind}_")), "")
        for name, meaning in (SET_ASIDE | OF_KIND.get(kind, {})).items():
            found, of = counts.get(name, 0), counts.get("rows", 0)
            if of >= ENOUGH and found > FEW * of:
                yield f"{where}: {found:,} of {of:,} rows ({found / of:.1%}) {meaning}"
