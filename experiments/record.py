"""An experiment's results on disk: raw numbers in Parquet, charts, and one page."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from experiments.experiment import Experiment, Setting
from sfumato.charts.style import FILE_OPTIONS, save

_ABOUT = b"sfumato.experiment"


@dataclass(frozen=True)
class Result:
    """The raw numbers of one run, with the information needed to read them."""

    rows: pd.DataFrame
    quick: bool
    seed: int


def run(experiment: Experiment, setting: Setting) -> Result:
    """Measure an experiment."""
    return Result(experiment.measure(setting), setting.quick, setting.seed)


def write(experiment: Experiment, result: Result, folder: Path) -> None:
    """Write NAME.parquet (raw numbers) and the chart as NAME.html, NAME.svg and NAME.png."""
    folder.mkdir(parents=True, exist_ok=True)
    about = {"quick": result.quick, "seed": result.seed}
    table = pa.Table.from_pandas(result.rows, preserve_index=False)
    table = table.replace_schema_metadata(
        {**(table.schema.metadata or {}), _ABOUT: json.dumps(about).encode()}
    )
    pq.write_table(table, folder / f"{experiment.name}.parquet")
    chart = experiment.chart(result.rows, provenance(result))
    for kind in FILE_OPTIONS:
        save(chart, folder / f"{experiment.name}{kind}")


def read(experiment: Experiment, folder: Path) -> Result:
    """Read a result written by `write`. Raises FileNotFoundError if the experiment was not run."""
    table = pq.read_table(folder / f"{experiment.name}.parquet")
    about = json.loads(table.schema.metadata[_ABOUT])
    return Result(table.to_pandas(), about["quick"], about["seed"])


def provenance(result: Result) -> str:
    """Return a note on a run for its page; empty for a full run."""
    return "quick run: smaller sizes, fewer repetitions" if result.quick else ""


def page(experiments: Iterable[Experiment], folder: Path, charts: str) -> str:
    """Return a Markdown page of all experiments found in the folder; `charts` is the path to it."""
    found = [(e, read(e, folder)) for e in experiments if (folder / f"{e.name}.parquet").exists()]
    rows = [
        f"| [{e.name}](#{e.name.lower()}) | {e.title} | {e.judge(result.rows).status} |"
        for e, result in found
    ]
    return PAGE.format(
        charts=charts, rows="\n".join(rows), sections="".join(_section(*f, charts) for f in found)
    )


PAGE = """\
# Results: the papers' figures, measured again

This page compares the measurements in the papers with ours. `python -m experiments --all --page`
writes it: every number and every verdict is computed from the Parquet files next to the charts in
`{charts}`.

A verdict compares the measured rows with the statements in the text of the paper. It is
`reproduced` if every part of the claim holds, `refuted` if the main part is contradicted, and
`differs` otherwise, with the parts that do not hold. "Substitutions" lists the data, sizes and
parameters that differ from the paper's. [Errata of the papers](research/errata.md) lists misprints
that were found in the process.

| experiment | what | verdict |
|---|---|---|
{rows}{sections}"""
SECTION = """

## {0.name}

**{0.title}** ({0.source})

- Claim: {0.claim}
- Verdict: **{1.status}**. {1.because}{substitutions}{note}

![{0.title}]({charts}/{0.name}.svg)"""


def _section(experiment: Experiment, result: Result, charts: str) -> str:
    note = provenance(result)
    note = f"\n- Note: {note}." if note else ""
    listed = "".join(f"\n  - {sentence}" for sentence in experiment.substitutions)
    return SECTION.format(
        experiment,
        experiment.judge(result.rows),
        substitutions=f"\n- Substitutions:{listed}" if listed else "\n- Substitutions: none known.",
        note=note,
        charts=charts,
    )
