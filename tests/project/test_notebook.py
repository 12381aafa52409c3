"""The example notebook runs unchanged and shows answers, without log output or escape codes."""

import sys
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).resolve().parents[2] / "examples" / "first_look.ipynb"


@pytest.mark.nightly
@pytest.mark.spark
def test_the_notebook_runs_and_shows_answers_only(tmp_path, monkeypatch):
    import nbformat
    from jupyter_client.kernelspec import KernelSpec
    from jupyter_client.manager import AsyncKernelManager
    from nbclient import NotebookClient

    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    # With it, a kernel hides the output of programs that it starts; for users it does not.
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    manager = AsyncKernelManager()
    # This Python, not the one behind a kernel of that name on the machine.
    manager._kernel_spec = KernelSpec(
        argv=[sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        display_name="tests",
        language="python",
    )
    NotebookClient(notebook, km=manager, timeout=240, resources=_at(tmp_path)).execute()
    outputs = [cell.get("outputs", []) for cell in notebook.cells if cell.cell_type == "code"]
    said = [out.text for cell in outputs for out in cell if out.output_type == "stream"]
    assert said == []
    ordered, plan, answers = (
        out["data"]["text/plain"]
        for cell in outputs
        for out in cell
        if out.output_type == "execute_result"
    )
    assert len(ordered.splitlines()) == 6
    lines = plan.splitlines()
    assert len(lines) > 5
    assert "\\n" not in plan
    assert lines[0][0] not in "'\""
    assert len(answers.splitlines()) == 6


def _at(folder):
    return {"metadata": {"path": str(folder)}}
