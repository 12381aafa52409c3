"""What is out of the ordinary in a query's totals, in words."""

from collections.abc import Iterator, Mapping

from sfumato.metrics.progress import counted

ENOUGH = 1_000  # rows before a share says anything
FEW = 0.01  # of rows that may be set aside without a word

# Counter, and what many of it mean.
SET_ASIDE = {
    "invalid": "are invalid and take no part: sf.rejected gives them with their reasons",
    "spoiled": "could not be decoded",
    "out_of_order": "came after later ones of an earlier micro-batch: reorder them first",
    "unaligned": "were joined without punctuations, by the pace of reading: reorder both streams",
    "future": "have an incredibly early event time: is a clock wrong?",
    "unimputable": "lack a value that no dependency could complete",
    "overflow": "were left out by the most tuples that a window may hold",
}


def oddities(counters: Mapping[str, dict[str, int]], target: float | None) -> Iterator[str]:
    """Sentences about totals. counters : by metric    target : the late share that is wanted"""
    rows = counted(dict(counters), "rows")
    late = counted(dict(counters), "late")
    if target is not None and rows >= ENOUGH and late > 1.5 * target * rows:
        yield f"{late / rows:.2%} of the rows came late; wanted are {target:.2%}"
    for metric, counts in counters.items():
        for name, meaning in SET_ASIDE.items():
            found, of = counts.get(name, 0), counts.get("rows", 0)
            if of >= ENOUGH and found > FEW * of:
                where = metric.removeprefix("sfumato_")
                yield f"{where}: {found:,} of {of:,} rows ({found / of:.1%}) {meaning}"
