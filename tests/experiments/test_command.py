"""The experiments: named, run by the command, repeatable, open about substitutions."""

import dataclasses
import io
import re
from pathlib import Path

import pandas as pd
import pytest
from rich.console import Console
from typer.testing import CliRunner

from experiments.catalogue import experiments
from experiments.command import app, reproduce
from experiments.experiment import Experiment, Setting
from experiments.record import page, read, run, write
from experiments.uncertain_windows.perturbed_streams import existence


def cli(*arguments: str):
    return CliRunner().invoke(app, [*arguments], env={"COLUMNS": "200"})


def test_without_a_name_the_experiments_are_listed():
    listed = cli()
    assert listed.exit_code == 0
    assert all(name in listed.output for name in experiments())


def test_an_unknown_name_is_refused_with_those_there_are():
    refused = cli("A99")
    assert refused.exit_code == 2
    assert "'A99'" in refused.output
    assert "A10" in refused.output


@pytest.mark.nightly
def test_the_command_writes_numbers_charts_and_verdict(tmp_path):
    done = cli("a10", "--quick", "--out", str(tmp_path / "out"), "--page", str(tmp_path / "p.md"))
    assert done.exit_code == 0, done.output
    assert re.search(r"verdict +reproduced", done.output)
    for kind in ("parquet", "html", "svg", "png"):
        assert (tmp_path / "out" / f"A10.{kind}").stat().st_size > 500
    assert "https://" not in (tmp_path / "out" / "A10.svg").read_text().replace(
        "http://www.w3.org", ""
    )
    assert (
        "![Tuples held as existential uncertainty grows](out/A10.svg)"
        in (tmp_path / "p.md").read_text()
    )


@pytest.mark.nightly
def test_the_page_is_written_from_numbers_there_are_without_measuring(tmp_path):
    experiment = experiments()["A10"]
    result = run(experiment, Setting(quick=True))
    write(experiment, result, tmp_path / "out")
    done = cli("--page", str(tmp_path / "p.md"), "--out", str(tmp_path / "out"))
    assert done.exit_code == 0, done.output
    assert experiment.judge(result.rows).because in (tmp_path / "p.md").read_text()


def test_the_page_in_the_documentation_is_the_one_of_the_numbers_beside_it():
    docs = Path(__file__).resolve().parents[2] / "docs"
    written = page(experiments().values(), docs / "results", "results") + "\n"
    assert (docs / "results.md").read_text() == written
    for path in (docs / "results").glob("*.parquet"):
        assert path.stem in experiments()
        assert path.with_suffix(".svg").exists()


def made_up(name: str, measure) -> Experiment:
    return dataclasses.replace(experiments()["D17"], name=name, measure=measure)


def planned(setting: Setting) -> pd.DataFrame:
    plans = ("DP (Algorithm 1)", "GA (Algorithm 2)", "DP, ours")
    return pd.DataFrame(
        [
            {"longest": longest, "plan": plan, "planning_seconds": 1e-3 * longest / (1 + place)}
            for longest in (10_000, 40_000)
            for place, plan in enumerate(plans)
        ]
    )


def failing(setting: Setting) -> pd.DataFrame:
    raise OSError("the disk is full")


def interrupted(setting: Setting) -> pd.DataFrame:
    raise KeyboardInterrupt


def test_an_experiment_that_fails_is_told_and_the_others_are_run(tmp_path):
    console = Console(record=True, width=200, file=io.StringIO())
    wanted = [made_up("X1", failing), made_up("X2", planned)]
    failed = reproduce(wanted, Setting(), tmp_path, console, None)
    said = console.export_text()
    assert failed == ["X1"]
    assert "OSError: the disk is full" in said
    assert re.search(r"1 of 2 experiments in [\d.]+ s", said)
    assert read(wanted[1], tmp_path).rows.equals(planned(Setting()))


def test_a_run_that_is_interrupted_leaves_what_was_done(tmp_path):
    wanted = [made_up("X1", planned), made_up("X2", interrupted), made_up("X3", planned)]
    with pytest.raises(KeyboardInterrupt):
        reproduce(wanted, Setting(), tmp_path, Console(file=io.StringIO()), None)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "X1.html", "X1.parquet", "X1.png", "X1.svg",
    ]  # fmt: skip


def test_results_read_back_say_how_they_were_measured(tmp_path):
    experiment = experiments()["A10"]
    result = run(experiment, Setting(quick=True, seed=3))
    write(experiment, result, tmp_path)
    again = read(experiment, tmp_path)
    pd.testing.assert_frame_equal(again.rows, result.rows)
    assert (again.quick, again.seed) == (True, 3)
    assert "quick run" in page([experiment], tmp_path, ".")


@pytest.mark.parametrize("law", ["uniform", "normal"])
@pytest.mark.parametrize("sd", [0.0, 0.05, 0.25])
def test_perturbed_existence_lies_above_0_and_up_to_1(law, sd):
    import numpy as np

    p = existence(np.random.default_rng(1), 20_000, sd, law)
    assert p.size == 20_000
    assert ((p > 0) & (p <= 1)).all()
    if law == "uniform":
        assert p.std() == pytest.approx(sd, abs=0.005)
