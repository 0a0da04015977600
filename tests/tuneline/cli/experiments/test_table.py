"""``tuneline experiments``: the order, what is distinguishable, and the choice of rows."""

import csv
import io

import pytest
from typer.testing import CliRunner

from tests.params import change_params
from tests.tuneline.saved_experiments import ExperimentRepository
from tuneline.cli import app
from tuneline.experiments.rows import read_rows
from tuneline.repository.worktrees import run_git

runner = CliRunner(env={"COLUMNS": "200"})


@pytest.fixture(scope="module")
def three(tmp_path_factory) -> ExperimentRepository:
    """A repository with three experiments. Copy it."""
    made = ExperimentRepository(tmp_path_factory.mktemp("three"))
    made.save("base", 0.70)
    made.save("long", 0.90, train__epochs=9)
    made.save("seeded", 0.895, seed=7, train__epochs=9)
    return made


@pytest.fixture
def repository(three, tmp_path, monkeypatch) -> ExperimentRepository:
    monkeypatch.chdir(tmp_path)
    return three.copied_to(tmp_path)


def lines(*options: str) -> list[dict[str, str]]:
    done = runner.invoke(app, ["experiments", "--csv", *options])
    assert done.exit_code == 0, done.output
    return list(csv.DictReader(io.StringIO(done.output)))


def test_best_is_first_and_others_are_compared_with_it(repository):
    rows = read_rows(repository.root).rows
    assert [(row.experiment.name, row.against_best) for row in rows] == [
        ("long", "best"),
        ("seeded", "-0.005, cannot be told apart on 400 rows"),
        ("base", "-0.200"),
    ]
    assert rows[0].differs == {"train.epochs": 9}


def test_table_shows_score_with_interval_and_short_keys(repository):
    shown = runner.invoke(app, ["experiments"]).output
    assert "0.900 (0.867 to 0.926)" in shown
    assert "seed=7, epochs=9" in shown
    assert "cannot" in shown
    assert "test" not in shown, "nothing was scored on test"


def test_narrow_terminal_breaks_no_name_and_cuts_no_commit(repository):
    made = repository.save(
        "learning_rate-0.00002-label_smoothing-0.1",
        0.89,
        train__learning_rate=2e-5,
        train__label_smoothing=0.1,
    )
    done = CliRunner(env={"COLUMNS": "80"}).invoke(app, ["experiments"])
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert max(map(len, lines)) <= 80
    for name in ("learning_rate-0.00002-label_smoothing-0.1", "long", "seeded", "base"):
        assert sum(line.startswith(f"{name}: ") for line in lines) == 1
    assert f"commit {made.commit[:7]}" in done.output
    assert {"learning_rate=2e-05", "label_smoothing=0.1"} <= set(done.output.replace(",", "").split())


def test_rows_are_chosen_by_text_and_ordered_by_column(repository):
    assert [row["name"] for row in lines("--filter", "EPOCHS=9")] == ["long", "seeded"]
    assert [row["name"] for row in lines("--sort", "name")] == ["base", "long", "seeded"]
    assert [row["name"] for row in lines("--sort", "seed")] == [
        "seeded",
        "long",
        "base",
    ], "those with the value first"
    done = runner.invoke(app, ["experiments", "--sort", "rate"])
    assert done.exit_code == 1
    assert "--sort rate" in done.output
    assert "epochs" in done.output


def test_csv_has_each_parameter_of_each_experiment(repository):
    rows = {row["name"]: row for row in lines()}
    assert {name: row["train.epochs"] for name, row in rows.items()} == {
        "long": "9",
        "seeded": "9",
        "base": "5",
    }
    assert float(rows["base"]["to_best_high"]) < 0
    assert rows["seeded"]["distinguishable"] == "false"


def test_error_is_best_where_it_is_lowest(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    repository = ExperimentRepository(tmp_path)
    repository.save("high", 0.5, metrics={"best_loss": 0.9}, train__metric="loss")
    repository.save("low", 0.5, metrics={"best_loss": 0.2}, train__metric="loss", seed=1)
    assert [row.experiment.name for row in read_rows(tmp_path).rows] == ["low", "high"]


def test_experiments_of_other_commits_are_shown_on_request(repository):
    run_git(repository.root, "commit", "--quiet", "--allow-empty", "--message=Later")
    assert lines() == []
    assert {row["name"] for row in lines("--all")} == {"base", "long", "seeded"}
    assert "--all" in runner.invoke(app, ["experiments"]).output


def test_different_validation_rows_are_not_compared(repository):
    repository.save("fewer", 0.8, rows=300, data__sample__rows=999)
    (row,) = [row for row in read_rows(repository.root).rows if row.experiment.name == "fewer"]
    assert row.against_best == ""


def commit_result(repository: ExperimentRepository, accuracy: float) -> None:
    """Commit the result of an experiment of the unchanged parameters, as ``dvc repro`` would leave it."""
    saved = repository.save("base", accuracy)
    run_git(repository.root, "reset", "--quiet", "--hard", saved.commit)


def test_result_of_the_commit_itself_is_one_of_the_rows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    repository = ExperimentRepository(tmp_path)
    commit_result(repository, 0.9)
    repository.save("short", 0.8, train__epochs=1)
    assert [row["name"] for row in lines()] == ["HEAD", "short"]
    assert float(lines()[1]["to_best"]) == pytest.approx(-0.1)
    assert runner.invoke(app, ["experiments", "page"]).exit_code == 0
    page = (tmp_path / "reports/experiments.html").read_text()
    assert "No experiment is better than what is committed." in page
    assert "experiments apply" not in page
    repository.save("base", 0.9)
    assert [row["name"] for row in lines()] == ["base", "short"], "its own training is the same result"


def test_committed_result_of_other_parameters_is_no_row(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    repository = ExperimentRepository(tmp_path)
    commit_result(repository, 0.9)
    change_params(tmp_path, {"train.epochs": 2})
    run_git(tmp_path, "commit", "--quiet", "--all", "--message=Train less")
    repository.save("long", 0.8, train__epochs=9)
    assert [row["name"] for row in lines()] == ["long"]
