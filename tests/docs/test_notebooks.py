"""The notebooks run from top to bottom, and print the output that they show.

SFUMATO_NOTEBOOKS=1 writes their outputs, including pictures, to the files.
"""

import os
import sys

import pytest

from docs.pages import ROOT

FOLDER = ROOT / "examples" / "notebooks"
NAMES = sorted(path.stem for path in FOLDER.glob("*.ipynb"))


def run(notebook, name: str) -> None:
    """Fill a notebook with its outputs, using a kernel of the running Python."""
    from jupyter_client.kernelspec import KernelSpec
    from jupyter_client.manager import AsyncKernelManager
    from nbclient import NotebookClient

    manager = AsyncKernelManager()
    manager._kernel_spec = KernelSpec(
        argv=[sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        display_name=name,
        language="python",
    )
    where = {"metadata": {"path": str(FOLDER)}}
    client = NotebookClient(notebook, km=manager, timeout=120, resources=where)
    client.record_timing = False
    client.execute(cleanup_kc=True)  # by default, a given manager's kernel keeps running


def printed(notebook) -> list[str]:
    """Return the output of each cell."""
    return [
        "".join(out.text for out in cell.outputs if out.output_type == "stream")
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


def pictures(notebook) -> int:
    return sum(
        "image/svg+xml" in out.get("data", {})
        for cell in notebook.cells
        if cell.cell_type == "code"
        for out in cell.outputs
    )


def test_there_is_a_notebook_for_each_system():
    assert len(NAMES) == 5


@pytest.mark.nightly
@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_prints_what_it_shows_and_ends_in_a_picture(name, monkeypatch, tmp_path):
    import nbformat  # imported here because it takes seconds, even in fast tests

    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    path = FOLDER / f"{name}.ipynb"
    shown = nbformat.read(path, as_version=4)
    now = nbformat.read(path, as_version=4)
    run(now, name)
    if "SFUMATO_NOTEBOOKS" in os.environ:
        for cell in now.cells:
            cell.metadata = {}
        nbformat.write(now, path)
        shown = now
    assert printed(now) == printed(shown)
    assert pictures(now) == pictures(shown) >= 1
