import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score

from tests.custom_functions import write_functions
from tuneline.core.params.section import FunctionName
from tuneline.core.runtime.errors import ParamsError
from tuneline.judge.metrics.functions import load_metric
from tuneline.model.tasks import Classification, Regression

CLASSES, NUMBERS = Classification(("a", "b", "c")), Regression()


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Return a function that loads a metric of docs/custom-loss.md, or of other code."""
    monkeypatch.chdir(tmp_path)

    def load(name, code=None, labels=CLASSES):
        write_functions(tmp_path, **({} if code is None else {"files": {"project/metrics.py": code}}))
        return load_metric(
            "evaluate.metrics", FunctionName.parse("metrics", f"project/metrics.py:{name}"), labels
        )

    return load


def test_balanced_accuracy_equals_that_of_scikit_learn(load):
    random = np.random.default_rng(0)
    logits, labels = (
        random.normal(size=(200, 3)).astype(np.float32),
        random.choice(3, 200, p=[0.8, 0.15, 0.05]),
    )
    value = load("balanced_accuracy").compute(logits, labels)
    assert value == pytest.approx(balanced_accuracy_score(labels, logits.argmax(axis=1)), abs=1e-12)


def test_metric_of_a_regression_gets_two_vectors(load):
    metric = load(
        "worst", "def worst(predictions, labels):\n    return abs(predictions - labels).max()", NUMBERS
    )
    assert (
        metric.compute(np.array([[1.0], [3.0]], dtype=np.float32), np.array([1.0, 1.0], dtype=np.float32))
        == 2.0
    )


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        ("labels * 1.0", r"array\(.*\)"),
        ("float('nan')", "nan"),
    ],
)
def test_metric_that_returns_no_finite_number_is_an_error_at_once(load, result, shown):
    message = rf"evaluate\.metrics: project/metrics\.py:own returns {shown} for 6 rows, not one finite number"
    with pytest.raises(ParamsError, match=message):
        load("own", f"def own(logits, labels): return {result}")


def test_metric_with_the_name_of_one_of_the_pipeline_is_refused(load):
    with pytest.raises(ParamsError, match="name of a metric"):
        load("accuracy", "def accuracy(logits, labels): return 1.0")
