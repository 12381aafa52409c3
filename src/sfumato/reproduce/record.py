"""An experiment's results on disk: raw numbers in Parquet, charts beside them, one page of all."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.reproduce.experiment import Experiment, Setting, Verdict

_ABOUT = b"sfumato.experiment"


@dataclass(frozen=True)
class Result:
    """The raw numbers of one run and what is needed to read them."""

    rows: pd.DataFrame
    quick: bool
    seed: int
    stand_ins: tuple[str, ...]


def run(experiment: Experiment, setting: Setting) -> Result:
    """Measure; the stand-ins used are those of this experiment alone."""
    setting.stand_ins.clear()
    rows = experiment.measure(setting)
    return Result(rows, setting.quick, setting.seed, tuple(setting.stand_ins))


def write(experiment: Experiment, result: Result, folder: Path) -> None:
    """Write NAME.parquet (raw numbers) and the chart as NAME.html, NAME.svg and NAME.png."""
    from sfumato.reproduce.drawing import save

    folder.mkdir(parents=True, exist_ok=True)
    about = {"quick": result.quick, "seed": result.seed, "stand_ins": list(result.stand_ins)}
    table = pa.Table.from_pandas(result.rows, preserve_index=False)
    table = table.replace_schema_metadata(
        {**(table.schema.metadata or {}), _ABOUT: json.dumps(about).encode()}
    )
    pq.write_table(table, folder / f"{experiment.name}.parquet")
    save(experiment.chart(result.rows, provenance(result)), folder, experiment.name)


def read(experiment: Experiment, folder: Path) -> Result:
    """What `write` wrote. Raises FileNotFoundError where the experiment was not run."""
    table = pq.read_table(folder / f"{experiment.name}.parquet")
    about = json.loads(table.schema.metadata[_ABOUT])
    return Result(table.to_pandas(), about["quick"], about["seed"], tuple(about["stand_ins"]))


def provenance(result: Result) -> str:
    """What a reader must know of the run besides its numbers; empty for a full run on real data."""
    said = []
    if result.stand_ins:
        said.append(f"SYNTHETIC stand-in for {', '.join(result.stand_ins)}")
    if result.quick:
        said.append("quick run: smaller sizes, fewer repetitions")
    return "; ".join(said)


def page(experiments: Iterable[Experiment], folder: Path, charts: str) -> str:
    """A Markdown page of all experiments found in the folder; `charts`: the way to it."""
    return "\n".join(_page(experiments, folder, charts))


def _page(experiments: Iterable[Experiment], folder: Path, charts: str) -> Iterator[str]:
    yield "# Results: the papers' figures, measured again"
    yield ""
    yield "Written by `sfumato reproduce --all --page`; every number comes from the Parquet files"
    yield f"beside the charts in `{charts}`."
    yield ""
    found = [(e, read(e, folder)) for e in experiments if (folder / f"{e.name}.parquet").exists()]
    yield "| experiment | what | verdict |"
    yield "|---|---|---|"
    for experiment, result in found:
        status = experiment.judge(result.rows).status
        yield f"| [{experiment.name}](#{experiment.name.lower()}) | {experiment.title} | {status} |"
    for experiment, result in found:
        yield from _section(experiment, result, experiment.judge(result.rows), charts)


def _section(
    experiment: Experiment, result: Result, verdict: Verdict, charts: str
) -> Iterator[str]:
    yield ""
    yield f"## {experiment.name}"
    yield ""
    yield f"**{experiment.title}** ({experiment.source})"
    yield ""
    yield f"- Claim: {experiment.claim}"
    yield f"- Verdict: **{verdict.status}**. {verdict.because}"
    if note := provenance(result):
        yield f"- Note: {note}."
    yield ""
    yield f"![{experiment.title}]({charts}/{experiment.name}.svg)"
