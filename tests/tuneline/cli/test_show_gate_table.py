import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.flows.conftest import sh
from tests.tuneline.gating.test_error_budget import judged
from tuneline.cli import app
from tuneline.cli.show import tonight
from tuneline.gating.error_budget import GateEntry, as_message, history_ref
from tuneline.settings import PromotionPolicy

runner = CliRunner(env={"COLUMNS": "200"})
POLICY = PromotionPolicy()


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


def test_gate_without_decisions_says_what_a_candidate_needs(repository, monkeypatch):
    output = shown(repository, monkeypatch)
    assert "nothing is used up" in output
    assert "tested at 0.008 at best" in output
    assert "at least 7 rows" in output


def test_gate_shows_what_the_year_has_used_up_on_all_splits(repository, monkeypatch):
    entries = judged(12, until=time.time())
    entries[3] = entries[3].model_copy(update={"outcome": "promoted"})
    other = entries[0].model_copy(update={"rows_hash": "b" * 64, "split": "validation"})
    remember(repository, [other, *entries])
    rows = []
    for line in shown(repository, monkeypatch).splitlines():
        rows.append([cell.strip() for cell in line.split("│")[1:-1]])
    assert ["13", "1", "0.0014 of 0.04", "0.039"] in rows


def test_gate_says_how_many_rows_a_candidate_needs_by_what_validation_says():
    said = tonight(judged(1, until=time.time()), POLICY)
    assert "at best 40 of 60 rows, 20 more than production or +2.00 points" in said
    assert "with p = 0.5 on validation 46 of 60 rows, 32 more than production or +3.20 points" in said
