import os
import subprocess
import sys

import numpy as np
import pytest

from tests.conftest import ROOT
from tests.hub import LoopbackHub
from tuneline.evaluation.scoring import (
    SplitPredictions,
    baseline_metrics,
    compute_metrics,
    leak_metrics,
    spread_metrics,
)
from tuneline.runtime.errors import StageError
from tuneline.tasks import Classification, Regression

PAIR = Classification(("no", "yes"))
ODD_ONE = """
import datasets
import evaluate


class OddOne(evaluate.Metric):
    def _info(self):
        value = datasets.Value("int64")
        return evaluate.MetricInfo(description="", citation="", inputs_description="",
                                   features=datasets.Features({"predictions": value, "references": value}))

    def _compute(self, predictions, references):
        return RESULT
"""


@pytest.fixture
def odd_one(tmp_path, monkeypatch):
    """Return a function that gives a metric of the library on a hub a certain result, and returns its
    name."""
    from evaluate import config

    monkeypatch.chdir(tmp_path)
    with LoopbackHub(tmp_path / "hub") as hub:
        monkeypatch.setattr(
            config, "HUB_EVALUATE_URL", f"{hub.url}/spaces/{{path}}/resolve/{{revision}}/{{name}}"
        )
        for name in ("HF_MODULES_CACHE", "HF_METRICS_CACHE", "HF_EVALUATE_CACHE", "DOWNLOADED_EVALUATE_PATH"):
            monkeypatch.setattr(config, name, tmp_path / name)
        monkeypatch.setattr(config, "HF_MODULES_CACHE", str(tmp_path / "modules"))
        monkeypatch.syspath_prepend(tmp_path / "modules")

        def write(result):
            hub.add("models", "evaluate-metric/odd_one", {"odd_one.py": ODD_ONE.replace("RESULT", result)})
            return "odd_one"

        yield write
    for name in [name for name in sys.modules if name.partition(".")[0] == "evaluate_modules"]:
        del sys.modules[name]


def test_score_adds_a_metric_of_the_library(odd_one):
    scores = compute_metrics(
        PAIR,
        np.array([0, 1]),
        np.array([0, 1]),
        "binary",
        [odd_one("{'odd': sum(predictions) / 4, 'note': 'x', 'list': [1, 2]}")],
    )
    assert scores.items() >= {"accuracy": 1.0, "f1": 1.0, "odd": 0.25}.items()
    assert not {"note", "list"} & scores.keys()


def test_program_with_the_name_of_a_metric_is_not_run(odd_one, tmp_path):
    """A person has a folder of that name, for another purpose."""
    odd_one("{'odd': 0.5}")
    (tmp_path / "odd_one").mkdir()
    (tmp_path / "odd_one/odd_one.py").write_text("raise SystemExit('this program ran')")
    assert compute_metrics(PAIR, np.array([0, 1]), np.array([0, 1]), "binary", ["odd_one"])["odd"] == 0.5


def test_custom_metric_overrides_the_one_of_the_project(odd_one):
    assert (
        compute_metrics(PAIR, np.array([0, 1]), np.array([0, 1]), "binary", [odd_one("{'accuracy': 0.5}")])[
            "accuracy"
        ]
        == 0.5
    )


@pytest.mark.parametrize("result", ["{'odd': float('nan')}", "{'odd': [1, 2]}", "{}"])
def test_metric_without_finite_numbers_is_an_error(odd_one, result):
    with pytest.raises(StageError, match="gives no finite numbers"):
        compute_metrics(PAIR, np.array([0, 1]), np.array([0, 1]), "binary", [odd_one(result)])


def test_metric_for_other_labels_is_an_error(odd_one):
    with pytest.raises(StageError, match="cannot score this"):
        compute_metrics(
            Regression(),
            np.array([0.5, 1], dtype=np.float32),
            np.array([0.5, 1], dtype=np.float32),
            "binary",
            [odd_one("predictions['no']")],
        )


def test_missing_metric_is_an_error_with_its_name(odd_one):
    with pytest.raises(StageError, match="'no_such'"):
        compute_metrics(PAIR, np.array([0, 1]), np.array([0, 1]), "binary", ["no_such"])


def test_score_leaves_no_files_and_needs_no_network(tmp_path):
    """The library is imported for its own metrics only."""
    script = """
import socket, sys
def refuse(*_): raise AssertionError("connected to the network")
socket.socket.connect = refuse
import numpy as np
from tuneline.evaluation.scoring import compute_metrics
from tuneline.tasks import Classification, Regression
classes = np.array([0, 1])
assert compute_metrics(Classification(("no", "yes")), classes, classes, "binary")["accuracy"] == 1.0
numbers = np.array([0.0, 1.0], dtype=np.float32)
assert compute_metrics(Regression(), numbers, numbers, "binary")["mse"] == 0.0
assert not {"evaluate", "datasets"} & set(sys.modules)
"""
    environment = {
        name: value for name, value in os.environ.items() if name not in ("HF_HOME", "HF_HUB_OFFLINE")
    }
    environment |= {
        "HOME": str(tmp_path / "home"),
        "TMPDIR": str(tmp_path / "tmp"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    (tmp_path / "home").mkdir()
    (tmp_path / "tmp").mkdir()
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=environment, check=True)
    assert list((tmp_path / "tmp").iterdir()) == []
    assert list((tmp_path / "home").rglob("*")) == []


def test_metrics_of_the_majority_are_those_of_predicting_one_class():
    split = SplitPredictions(
        np.array([0, 0, 0, 1]), np.array([0, 0, 0, 1]), Classification(("no", "yes")), "binary", 0
    )
    scores = baseline_metrics(split, "majority", np.ones(4, np.int64))
    assert scores.keys() == {
        "majority_accuracy",
        "majority_f1",
        "accuracy_over_majority_low",
        "accuracy_over_majority_high",
    }
    assert (scores["majority_accuracy"], scores["majority_f1"]) == (0.25, pytest.approx(0.4))


def test_baseline_of_a_regression_is_the_mean():
    labels = np.array([2.0, 4.0], dtype=np.float32)
    split = SplitPredictions(labels, labels, Regression(), "macro", 0)
    assert baseline_metrics(split, "majority", np.full(2, 2.0, np.float32)) == {
        "mean_mse": 2.0,
        "mean_mae": 1.0,
    }


def test_predicted_classes_are_counted():
    split = SplitPredictions(
        np.array([0, 1, 2, 2]), np.array([0, 0, 0, 1]), Classification(("a", "b", "c", "d")), "macro", 0
    )
    counts = spread_metrics(split)
    assert (
        counts["predicted_classes"],
        counts["never_predicted_classes"],
        counts["most_predicted_share"],
    ) == (2, 1, 0.75)
    assert counts["accuracy_low"] < 0.25 < counts["accuracy_high"]


def rare_class(metric):
    """Return 1,000 rows of which 5 % are of class 1, with a model that finds 45 of these 50."""
    labels = np.zeros(1000, np.int64)
    labels[:50] = 1
    found = labels.copy()
    found[45:50] = 0
    found[50:58] = 1
    return SplitPredictions(labels, found, Classification(("ham", "spam")), "binary", 0, metric)


def test_difference_from_simple_models_is_of_the_metric_that_decides():
    split = rare_class("matthews_correlation")
    few = np.where(np.arange(1000) < 22, 1, 0)  # 22 of the 50
    scores = baseline_metrics(split, "tfidf", few) | spread_metrics(split)
    assert {"matthews_correlation_low", "matthews_correlation_high"} <= scores.keys()
    assert not {"accuracy_low", "accuracy_over_tfidf_low"} & scores.keys()
    assert scores["matthews_correlation_over_tfidf_low"] > 0.1
    assert baseline_metrics(split, "majority", np.zeros(1000, np.int64))["majority_accuracy"] == 0.95


def test_metric_without_leaks_is_the_metric_that_decides():
    leaked = np.arange(1000) % 10 == 0
    assert {"f1_without_leaks", "f1_from_leaks_low"} <= leak_metrics(rare_class("f1"), leaked).keys()
