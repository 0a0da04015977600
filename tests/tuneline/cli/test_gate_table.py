import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.flows.conftest import sh
from tests.tuneline.gating.test_error_budget import judged
from tuneline.cli import app
from tuneline.cli.gate_table import tonight
from tuneline.gating.error_budget import GateEntry
from tuneline.gating.gate_history import as_message, history_ref
from tuneline.settings import PromotionPolicy

runner = CliRunner(env={"COLUMNS": "200"})
POLICY = PromotionPolicy()


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
    assert "at least 14 rows" in output


def test_gate_shows_what_each_split_has_used_up(repository, monkeypatch):
    entries = judged(12, until=time.time())
    entries[3] = entries[3].model_copy(update={"outcome": "promoted"})
    other = entries[0].model_copy(update={"rows_hash": "b" * 64, "split": "validation"})
    remember(repository, [other, *entries])
    output = shown(repository, monkeypatch)
    row = next(line for line in output.splitlines() if "test a" in line)
    assert [cell.strip() for cell in row.split("│")[1:-1]] == [
        "test a", "12", "1", "0.00011", "0.0016 of 0.04", "0.038",
    ]  # fmt: skip
    assert "validation bbbbbbbbbbbb" in output
    assert "45 of 60 rows" in output
    assert "30 rows more than production, +3.00 points of 1,000 independent rows" in output


def test_used_up_budget_is_said(repository):
    assert "used up: no candidate is promoted" in tonight(judged(365, until=time.time()), POLICY)


def test_metric_without_a_test_needs_an_interval(repository):
    entry = judged(1, until=time.time())[0].model_copy(update={"discordant": None})
    assert "99.97808% above promotion.min_gain" in tonight([entry], POLICY)
