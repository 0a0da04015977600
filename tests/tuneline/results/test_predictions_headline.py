import json

import pytest

from tuneline.repository.dvc import read_lock
from tuneline.results.predictions import ReportedPredictions, headline


def read_headline(project):
    metrics = json.loads((project.root / "metrics/evaluate.json").read_text())
    predictions = ReportedPredictions.read(project.root / "reports/predictions.parquet")
    return headline(metrics, read_lock(project.root).params(), predictions)


@pytest.mark.parametrize("name", ["f1", "matthews_correlation"])
def test_headline_is_the_metric_of_model_selection(project, name):
    project.change_params(**{"train.metric": name})
    project.lock(seed=1)
    result = read_headline(project)
    assert result.name == name
    assert result.interval.value == pytest.approx(result.value, abs=1e-6), (
        "the interval is of the same metric"
    )


def test_predictions_that_do_not_match_the_metrics_are_detected(project):
    """After `git checkout` without `dvc checkout` the metrics are of one commit and the predictions of
    another."""
    before = (project.root / "metrics/evaluate.json").read_text()
    project.evaluate(skill=0.1, seed=9)
    (project.root / "metrics/evaluate.json").write_text(before)
    result = read_headline(project)
    assert result.stale
    assert result.interval is None
