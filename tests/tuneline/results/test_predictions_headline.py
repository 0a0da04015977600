import json

import pytest

from tuneline.repository.dvc import read_lock
from tuneline.repository.git import find_previous
from tuneline.results.predictions import ReportedPredictions, headline


def read_headline(project):
    metrics = json.loads((project.root / "metrics/evaluate.json").read_text())
    predictions = ReportedPredictions.read(project.root / "reports/predictions.parquet")
    return headline(
        metrics, read_lock(project.root).params(), predictions, find_previous(project.root, metrics)
    )


@pytest.mark.parametrize("name", ["f1", "matthews_correlation"])
def test_headline_is_the_metric_of_model_selection(project, name):
    project.change_params(**{"train.metric": name})
    project.lock(seed=1)
    result = read_headline(project)
    assert result.name == name
    assert result.interval.value == pytest.approx(result.value, abs=1e-6), (
        "the interval is of the same metric"
    )


@pytest.mark.parametrize(
    ("skill", "words"), [(6.0, "clearly better"), (0.1, "clearly worse"), (2.0, "no clear difference")]
)
def test_change_since_the_previous_commit_is_tested_on_the_same_rows(project, skill, words):
    project.run_pipeline(skill=skill, seed=2)
    result = read_headline(project)
    assert result.against_previous == words
    assert result.change.value == pytest.approx(result.value - result.previous_value, abs=1e-5)


def test_change_without_cached_predictions_has_no_interval(project):
    before = project.root / ".dvc/cache"
    before.rename(project.root / "gone")
    project.evaluate(skill=3.0, seed=2)
    result = read_headline(project)
    assert result.previous_value is not None
    assert result.change is None
    assert result.against_previous == ""


def test_results_on_other_rows_are_not_paired(project):
    project.rows = 200
    project.run_pipeline(seed=2)
    result = read_headline(project)
    assert result.change is None
    assert not result.previous.comparable


def test_predictions_that_do_not_match_the_metrics_are_detected(project):
    """After `git checkout` without `dvc checkout` the metrics are of one commit and the predictions of
    another."""
    before = (project.root / "metrics/evaluate.json").read_text()
    project.evaluate(skill=0.1, seed=9)
    (project.root / "metrics/evaluate.json").write_text(before)
    result = read_headline(project)
    assert result.stale
    assert result.interval is None
