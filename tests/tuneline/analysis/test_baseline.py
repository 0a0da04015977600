import json

import pytest
from typer.testing import CliRunner

from tests.tuneline.finished_project import FinishedProject
from tuneline.analysis.leaks import BaselineComparison
from tuneline.cli import app

BETTER = {"accuracy": 0.9, "tfidf_accuracy": 0.8, "accuracy_over_tfidf_low": 0.05, "accuracy_over_tfidf_high": 0.15}
UNCLEAR = {"accuracy": 0.81, "tfidf_accuracy": 0.8, "accuracy_over_tfidf_low": -0.02, "accuracy_over_tfidf_high": 0.04}
WORSE = {"accuracy": 0.8405, "tfidf_accuracy": 0.8616, "accuracy_over_tfidf_low": -0.035, "accuracy_over_tfidf_high": -0.007}


@pytest.mark.parametrize(
    ("metrics", "beaten", "words"),
    [
        (BETTER, True, "The model beats TF-IDF with logistic regression: Accuracy 0.900 against 0.800"),
        (UNCLEAR, False, "The model does not clearly beat TF-IDF with logistic regression: Accuracy 0.810 against 0.800"),
        (
            WORSE,
            False,
            "does not beat TF-IDF with logistic regression: Accuracy 0.841 against 0.862 (95 % interval",
        ),
    ],
)
def test_sentence_says_whether_the_baseline_is_beaten(metrics, beaten, words):
    comparison = BaselineComparison.read(metrics)
    assert comparison.beaten == beaten
    assert words in comparison.sentence
    assert ("Fine-tune a pretrained checkpoint" in comparison.sentence) == (not beaten)


def test_regression_is_compared_by_pearsons_r_with_ridge_regression():
    metrics = {name.replace("accuracy", "pearson"): value for name, value in BETTER.items()}
    assert "TF-IDF with ridge regression: Pearson's r 0.900 against 0.800" in BaselineComparison.read(metrics).sentence


def test_metrics_of_a_version_without_the_baseline_are_not_compared():
    assert BaselineComparison.read({"accuracy": 0.9, "majority_accuracy": 0.5}) is None


CLASSES = ("a", "b", "c")


@pytest.mark.parametrize(("names", "skill", "verb"), [(CLASSES, 6.0, "beats"), (CLASSES, 0.5, "does not beat"), (None, 2.0, "beats")])
def test_report_card_and_show_say_the_same(tmp_path, monkeypatch, names, skill, verb):
    monkeypatch.chdir(tmp_path)
    FinishedProject(tmp_path, names).run_pipeline(skill=skill).commit()
    sentence = BaselineComparison.read(json.loads((tmp_path / "metrics/evaluate.json").read_text())).sentence
    assert f"The model {verb} TF-IDF" in sentence
    assert CliRunner().invoke(app, ["report", "--no-latency"]).exit_code == 0
    page = (tmp_path / "reports/index.html").read_text()
    assert sentence.replace("'", "&#39;") in page
    assert ('<li class="bad">The model does not' in page) == (verb != "beats")
    assert sentence in (tmp_path / "reports/model_card.md").read_text().replace("\\", "")
    assert sentence in CliRunner(env={"COLUMNS": "300"}).invoke(app, ["show"]).output


def test_custom_metric_is_in_report_card_and_show(project):
    metrics = json.loads((project.root / "metrics/evaluate.json").read_text())
    others = {"invariance_pass_rate": 0.4321, "worst_slice_accuracy": 0.4321}
    project.write("metrics/evaluate.json", {**metrics, **others, "balanced_accuracy": 0.1234})
    assert CliRunner().invoke(app, ["report", "--no-latency"]).exit_code == 0
    shown = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["show"]).output
    card = (project.root / "reports/model_card.md").read_text()
    assert "<dt>Balanced accuracy</dt><dd>0.123" in (project.root / "reports/index.html").read_text()
    assert "| Balanced accuracy | 0.123 |" in card
    assert "type: balanced_accuracy" in card
    assert "Balanced accuracy" in shown
    assert "0.1234" in shown
    assert "0.4321" not in shown
