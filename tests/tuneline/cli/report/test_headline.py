import json

import pytest

from tuneline.cli.report.headline import headline
from tuneline.cli.report.reading import Predictions
from tuneline.repo.earlier import earlier
from tuneline.repo.history import read_lock


def read(made):
    metrics = json.loads((made.root / "metrics/evaluate.json").read_text())
    predictions = Predictions.read(made.root / "reports/predictions.parquet")
    return headline(metrics, read_lock(made.root).params(), predictions, earlier(made.root, metrics))


def test_the_interval_surrounds_the_metric_of_the_line(made):
    found = read(made)
    metrics = json.loads((made.root / "metrics/evaluate.json").read_text())
    assert found.value == metrics["accuracy"] == pytest.approx(found.interval.value, abs=1e-6)
    assert found.interval.low < found.value < found.interval.high


@pytest.mark.parametrize("name", ["f1", "matthews_correlation"])
def test_the_headline_is_the_metric_that_the_model_is_chosen_by(made, name):
    made.change_params(**{"train.metric": name})
    made.lock(seed=1)
    found = read(made)
    assert found.name == name
    assert found.interval.value == pytest.approx(found.value, abs=1e-6), "the interval is of the same metric"


def test_a_metric_that_the_report_does_not_know_gives_way_to_accuracy(made):
    made.change_params(**{"train.metric": "bleu"})
    made.lock(seed=1)
    assert read(made).name == "accuracy"


@pytest.mark.parametrize(
    ("skill", "words"), [(3.0, "clearly above the baseline"), (0.2, "not clearly above the baseline"), (-2.0, "clearly below the baseline")]
)
def test_the_majority_baseline_is_what_it_must_beat(made, skill, words):
    made.line(skill=skill)
    assert read(made).against_baseline == words


@pytest.mark.parametrize(("skill", "words"), [(6.0, "clearly better"), (0.1, "clearly worse"), (2.0, "no clear difference")])
def test_the_change_since_the_earlier_commit_is_judged_on_the_same_rows(made, skill, words):
    made.line(skill=skill, seed=2)
    found = read(made)
    assert found.against_earlier == words
    assert found.change.value == pytest.approx(found.value - found.earlier_value, abs=1e-5)


def test_without_the_earlier_predictions_the_difference_stands_without_a_judgement(made):
    before = made.root / ".dvc/cache"
    before.rename(made.root / "gone")
    made.evaluate(skill=3.0, seed=2)
    found = read(made)
    assert found.earlier_value is not None
    assert found.change is None
    assert found.against_earlier == ""


def test_other_rows_are_never_paired(made):
    made.rows = 200
    made.line(seed=2)
    found = read(made)
    assert found.change is None
    assert not found.earlier.comparable


def test_predictions_of_another_run_are_noticed(made):
    """After `git checkout` without `dvc checkout` the metrics are of one commit and the predictions of another."""
    before = (made.root / "metrics/evaluate.json").read_text()
    made.evaluate(skill=0.1, seed=9)
    (made.root / "metrics/evaluate.json").write_text(before)
    found = read(made)
    assert found.stale
    assert found.interval is None
