"""``tuneline show --against``: two models on the rows of both, by the present labels."""

import re
import shutil

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.shards import into_shards
from tests.tuneline.finished_project import FinishedProject
from tuneline.cli import app
from tuneline.cli.show import Predicted, compare_revisions, numbered
from tuneline.core.errors import DataError
from tuneline.tasks import Multilabel, Regression, task_with_names

runner = CliRunner(env={"COLUMNS": "200"})


def predicted(texts: str, labels: str, predictions: str, names: str = "abc") -> Predicted:
    """Return predictions: one letter for each row's text, label and prediction."""
    rows = {key: row for row, key in enumerate(numbered(list(texts)))}
    ids = [np.array([names.index(one) for one in values]) for values in (labels, predictions)]
    return Predicted(rows, *ids, task_with_names(tuple(names)))


def test_rows_are_joined_by_their_texts_and_scored_by_the_present_labels():
    now = predicted("pqrss", labels="abcaa", predictions="abcab")
    then = predicted("sxrqp", labels="dabba", predictions="dacbb", names="dcba")
    found = compare_revisions(now, then, {})
    assert found.rows == 4, "p, q, r and the first s"
    assert found.left_out == (1, 1)
    assert found.relabelled == 2, "r was b, and s was d"
    accuracy, test = found.models.differences["accuracy"], found.models.test
    assert (accuracy.first, accuracy.second) == (1.0, 0.5), "p was wrong; s was d, an unknown class"
    assert (test.first_only, test.second_only) == (2, 0)


def test_models_without_a_common_row_or_task_are_refused():
    now = predicted("p", "a", "a")
    with pytest.raises(DataError, match="no row in common"):
        compare_revisions(now, predicted("q", "a", "a"), {})
    with pytest.raises(DataError, match="the other numbers"):
        compare_revisions(now, Predicted({("p", 0): 0}, np.zeros(1), np.zeros(1), Regression()), {})


def test_models_of_one_class_and_of_several_labels_are_refused():
    sets = np.zeros((1, 3), np.int8)
    then = Predicted({("p", 0): 0}, sets, sets, Multilabel(tuple("abc")))
    with pytest.raises(DataError, match="different kinds of task, classification and multilabel"):
        compare_revisions(predicted("p", "a", "a"), then, {})


def test_sets_of_labels_are_compared_by_their_names():
    rows = {("p", 0): 0, ("q", 0): 1, ("r", 0): 2}
    labels = np.array([[1, 1], [0, 1], [0, 0]], np.int8)
    now = Predicted(rows, labels, labels, Multilabel(("a", "b")))
    # b and c; b; none: c is a label that the present model does not have
    predictions_then = np.array([[1, 1, 0], [1, 0, 0], [0, 0, 0]], np.int8)
    labels_then = np.array([[1, 0, 1], [1, 0, 1], [0, 0, 0]], np.int8)
    then = Predicted(rows, labels_then, predictions_then, Multilabel(("b", "c", "a")))
    found = compare_revisions(now, then, {})
    assert found.relabelled == 1, "q had a, too"
    subset = found.models.differences["subset_accuracy"]
    assert (subset.first, subset.second) == (1.0, pytest.approx(2 / 3)), "p got a label that there is no more"
    assert found.models.differences["micro_f1"].second == pytest.approx(2 / 4)
    assert found.models.test is None, "McNemar's test is of single classes"


def test_retrained_model_is_compared_with_the_one_before_the_corrections(project):
    raw = project.root / "data/raw"
    into_shards(raw, rows=50)
    project.lock(seed=1)
    before = project.commit("Another commit, with shards")
    shutil.rmtree(raw)
    project.rows -= 20
    project.data(relabelled=6)
    into_shards(raw, rows=30)
    project.evaluate(skill=8.0, seed=2)
    project.lock(seed=2)
    done = runner.invoke(app, ["show", "--against", before])
    assert done.exit_code == 0, done.output
    assert re.search(rf"now +┃ {before} +┃ difference", done.output)
    assert "On 100 rows of both" in done.output
    assert "Clearly better (McNemar's test: p = " in done.output
    assert f"6 of these rows had another label at {before}" in done.output
    assert (
        f"Left out: 0 rows that only this model predicted, and 20 that only that of {before} did."
        in done.output
    )
    assert "git knows no such commit" in runner.invoke(app, ["show", "--against", "nosuch"]).output
    assert "Leave the folder out" in runner.invoke(app, ["show", "--against", before, "models/onnx"]).output
    (project.root / ".dvc/cache").rename(project.root / ".dvc/gone")
    assert (
        f"Run `dvc fetch --rev {before} reports/predictions.parquet data/raw`"
        in runner.invoke(app, ["show", "--against", before]).output
    )
    (project.root / "reports/predictions.parquet").unlink()
    assert "run `dvc repro evaluate`" in runner.invoke(app, ["show", "--against", before]).output


def test_numbers_are_compared_without_a_test_of_classes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    project = FinishedProject(tmp_path, names=None).run_pipeline(skill=1.0)
    project.commit()
    project.evaluate(skill=3.0, seed=2)
    output = runner.invoke(app, ["show", "--against", "HEAD"]).output
    assert re.search(r"Pearson's r +│ +0\.\d+", output)
    assert "Clearly better.\n" in output
