import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.flows.conftest import sh
from tests.tuneline.gating.test_error_budget import judged
from tuneline.cli import app
from tuneline.gating.error_budget import GateEntry, as_message, history_ref

runner = CliRunner(env={"COLUMNS": "200"})


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository of git without a commit."""
    sh("git", "init", "--quiet", cwd=tmp_path)
    return tmp_path


def remember(root: Path, entries: list[GateEntry]) -> None:
    tree = sh("git", "mktree", cwd=root, input="").strip()
    parents: list[str] = []
    for entry in entries:
        commit = sh("git", "commit-tree", tree, *parents, "-m", as_message(entry), cwd=root).strip()
        parents = ["-p", commit]
    sh("git", "update-ref", history_ref("onnx"), parents[1], cwd=root)


def shown(root: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(root)
    done = runner.invoke(app, ["show", "--gate"])
    assert done.exit_code == 0, done.output
    return done.output


def test_gate_shows_what_the_year_has_used_up_on_all_splits(repository, monkeypatch):
    entries = judged(12, until=time.time())
    entries[3] = entries[3].model_copy(update={"outcome": "promoted"})
    other = entries[0].model_copy(update={"rows_hash": "b" * 64})
    remember(repository, [other, *entries])
    output = shown(repository, monkeypatch)
    assert "13 candidates have used up 0.0014 of 0.04; 1 of them are promoted. 0.039 is left" in output
