"""The notebook runs unchanged in a Jupyter kernel."""

from pathlib import Path

import nbclient
import nbformat
import pytest

from tests.conftest import ROOT
from tests.tuneline.training import tiny_task
from tests.tuneline.training.conftest import fill

NOTEBOOK = ROOT / "docs/notebook.ipynb"


@pytest.fixture
def project(tmp_path):
    """A project with a small training set, and a folder ``docs`` in which the notebook runs."""
    tiny_task.write_data(tmp_path / "source")
    tiny_task.write_params(fill(tmp_path, tmp_path / "source"), metric="accuracy")
    (tmp_path / "docs").mkdir()
    return tmp_path


def printed(cell):
    return "".join(output.get("text", "") for output in cell.outputs)


@pytest.mark.slow
def test_notebook_trains_and_shows_curves_without_changing_the_project(project, monkeypatch):
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    before = {path for path in project.rglob("*") if path.is_file()}
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(
        notebook, timeout=120, resources={"metadata": {"path": str(project / "docs")}}
    ).execute()
    cells = {cell.id: cell for cell in notebook.cells}
    assert "step 60: validation loss" in printed(cells["launch"])
    assert any("image/png" in output.get("data", {}) for output in cells["curve"].outputs)
    assert "after step" in printed(cells["best"])
    written = {path.relative_to(project) for path in project.rglob("*") if path.is_file()} - {
        path.relative_to(project) for path in before
    }
    assert {path for path in written if path.parts[:2] != ("data", ".tokenized.mapped")} <= {
        Path("checkpoints/.lock")
    }
