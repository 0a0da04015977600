"""``tuneline experiments``: the order, and what is distinguishable."""

import pytest
from typer.testing import CliRunner

from tests.custom_functions import write_functions
from tests.tuneline.saved_experiments import ExperimentRepository
from tuneline.cli import app
from tuneline.core.repository.worktrees import run_git

runner = CliRunner(env={"COLUMNS": "200"})


@pytest.fixture
def repository(tmp_path, monkeypatch) -> ExperimentRepository:
    monkeypatch.chdir(tmp_path)
    return ExperimentRepository(tmp_path)


def rows(*options: str) -> list[list[str]]:
    """Return the cells of each experiment."""
    done = runner.invoke(app, ["experiments", *options])
    assert done.exit_code == 0, done.output
    lines = [line for line in done.output.splitlines() if line.strip()]
    return [[cell for cell in line.split("  ") if cell.strip()] for line in lines[2:]]


def test_best_is_first_and_others_are_compared_with_it_on_the_same_rows(repository):
    base = repository.save("same", 0.70)
    repository.save("long", 0.90, train__epochs=9)
    repository.save("seeded", 0.895, seed=7, train__epochs=9)
    repository.save("fewer", 0.8, rows=300, data__sample__rows=999)
    shown = [[cell.strip() for cell in row] for row in rows()]
    assert [row[0] for row in shown] == ["long", "seeded", "fewer", "same"]
    assert shown[0][1:4] == ["epochs=9", "accuracy 0.900 (0.867 to 0.926)", "best"]
    assert shown[1][1] == "seed=7, epochs=9"
    assert shown[1][3] == "-0.005, cannot be told apart on 400 rows"
    assert len(shown[2]) == 4, "other rows are not compared"
    assert shown[3][1] == "nothing"
    assert shown[3][3:] == ["-0.200", base.commit[:7]]


def test_result_of_the_commit_is_a_row_and_other_commits_are_shown_on_request(repository):
    committed = repository.save("base", 0.9).commit
    run_git(repository.root, "reset", "--quiet", "--hard", committed)
    repository.save("short", 0.8, train__epochs=1)
    assert [row[0].strip() for row in rows()] == [committed[:7], "short"]
    run_git(repository.root, "commit", "--quiet", "--allow-empty", "--message=Later")
    assert "--all" in runner.invoke(app, ["experiments"]).output
    assert "short" in {row[0].strip() for row in rows("--all")}


def test_cost_of_the_user_is_better_where_it_is_lower(repository):
    write_functions(repository.root)
    run_git(repository.root, "add", "project", "dvc.yaml")
    run_git(repository.root, "commit", "--quiet", "--message=Functions")
    for name, cost, seed in (("dear", 2.0, 1), ("cheap", 1.0, 2)):
        metrics = {"best_cost": cost}
        repository.save(name, 0.9, metrics=metrics, seed=seed, train__metric="project/metrics.py:cost")
    assert [row[0].strip() for row in rows()] == ["cheap", "dear"]
