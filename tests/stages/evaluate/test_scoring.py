import os
import subprocess
import sys

import numpy as np
import pytest

from stages.evaluate.scoring import MetricName, baseline_metrics, score
from tests.conftest import ROOT
from tuneline.core.errors import ParamsError, StageError
from tuneline.core.tables import LabelSchema

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
def odd_one(tmp_path):
    """Return a function that writes a custom metric with a given result."""

    def write(result):
        folder = tmp_path / "odd_one"
        folder.mkdir()
        (folder / "odd_one.py").write_text(ODD_ONE.replace("RESULT", result))
        return str(folder)

    return write


def test_score_adds_a_custom_metric(odd_one):
    scores = score(np.array([0, 1]), np.array([0, 1]), "binary", [odd_one("{'odd': sum(predictions) / 4, 'note': 'x', 'list': [1, 2]}")])
    assert scores.items() >= {"accuracy": 1.0, "f1": 1.0, "odd": 0.25}.items()
    assert not {"note", "list"} & scores.keys()


HUB_THEN_OWN = """
import sys, numpy as np
from stages.evaluate.scoring import score
from tuneline.core.errors import StageError
labels = np.array([0, 1])
try:
    score(labels, labels, "binary", ["no-such-metric"])
except StageError:
    print(score(labels, labels, "binary", [sys.argv[1]])["odd"])
"""


@pytest.mark.slow
def test_custom_metric_is_found_after_a_metric_of_the_hub(odd_one, tmp_path):
    """The library copies both into packages of the same name, in different folders."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "home")}
    command = [sys.executable, "-c", HUB_THEN_OWN, odd_one("{'odd': 0.5}")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "0.5", done.stderr


def test_custom_metric_overrides_the_one_of_the_project(odd_one):
    assert score(np.array([0, 1]), np.array([0, 1]), "binary", [odd_one("{'accuracy': 0.5}")])["accuracy"] == 0.5


@pytest.mark.parametrize("result", ["{'odd': float('nan')}", "{'odd': [1, 2]}", "{}"])
def test_metric_without_finite_numbers_is_an_error(odd_one, result):
    with pytest.raises(StageError, match="gives no finite numbers"):
        score(np.array([0, 1]), np.array([0, 1]), "binary", [odd_one(result)])


def test_metric_for_other_labels_is_an_error(odd_one):
    with pytest.raises(StageError, match="cannot score this"):
        score(np.array([0.5, 1], dtype=np.float32), np.array([0.5, 1], dtype=np.float32), "binary", [odd_one("predictions['no']")])


@pytest.mark.parametrize("name", ["accuracy", "somebody/metric", "./no/such/folder"])
def test_missing_metric_is_an_error_with_its_name(name):
    with pytest.raises(StageError, match=r"evaluate\.metrics: .* cannot be loaded") as caught:
        score(np.array([0, 1]), np.array([0, 1]), "binary", [name])
    assert name in str(caught.value)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("accuracy", ("accuracy", None, None)),
        ("glue:mrpc", ("glue", "mrpc", None)),
        ("somebody/metric@v1.0", ("somebody/metric", None, "v1.0")),
        ("glue:mrpc@0123abc", ("glue", "mrpc", "0123abc")),
    ],
)
def test_metric_name_has_configuration_and_revision(text, parts):
    name = MetricName.parse(text)
    assert (name.path, name.config, name.revision) == parts


@pytest.mark.parametrize("text", ["", ":mrpc", "@main"])
def test_invalid_metric_name_is_an_error(text):
    with pytest.raises(ParamsError, match=r"evaluate\.metrics"):
        MetricName.parse(text)


def test_score_leaves_no_files_and_needs_no_network(odd_one, tmp_path):
    """Two simultaneous runs share no folder, and the user's cache does not change. The library is imported for custom metrics only."""
    script = """
import socket, sys
def refuse(*_): raise AssertionError("connected to the network")
socket.socket.connect = refuse
import numpy as np
from stages.evaluate.scoring import score
assert score(np.array([0, 1]), np.array([0, 1]), "binary")["accuracy"] == 1.0
assert score(np.array([0.0, 1.0], dtype=np.float32), np.array([0.0, 1.0], dtype=np.float32), "binary")["mse"] == 0.0
assert not {"evaluate", "datasets"} & set(sys.modules)
assert score(np.array([0, 1]), np.array([0, 1]), "binary", [sys.argv[1]])["odd"] == 0.5
"""
    environment = {name: value for name, value in os.environ.items() if name not in ("HF_HOME", "HF_HUB_OFFLINE")}
    environment |= {"HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path / "tmp"), "PYTHONDONTWRITEBYTECODE": "1"}
    (tmp_path / "home").mkdir()
    (tmp_path / "tmp").mkdir()
    metric = odd_one("{'odd': 0.5}")
    subprocess.run([sys.executable, "-c", script, metric], cwd=ROOT, env=environment, check=True)
    assert list((tmp_path / "tmp").iterdir()) == []
    assert list((tmp_path / "home").rglob("*")) == []


def test_majority_baseline_is_the_majority_of_the_train_split():
    scores = baseline_metrics([np.array([1, 1]), np.array([0])], np.array([0, 0, 0, 1]), LabelSchema(("no", "yes")), "binary")
    assert scores == {"majority_accuracy": 0.25, "majority_f1": pytest.approx(0.4)}


def test_baseline_of_a_regression_is_the_mean():
    train, labels = np.array([1.0, 3.0], dtype=np.float32), np.array([2.0, 4.0], dtype=np.float32)
    assert baseline_metrics([train[:1], train[1:]], labels, LabelSchema(None), "macro") == {"mean_mse": 2.0}
