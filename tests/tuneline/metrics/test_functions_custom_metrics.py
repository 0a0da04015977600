import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score

from tests.custom_functions import write_functions
from tuneline.metrics.functions import load_metric
from tuneline.params.section import FunctionName
from tuneline.runtime.errors import ParamsError
from tuneline.tasks import Classification, Regression

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


def test_cost_counts_errors_by_their_cost_and_is_better_if_lower(load):
    cost = load("cost")
    assert cost.compute(np.eye(3, dtype=np.float32)[[1, 1, 2, 2]], np.array([0, 1, 1, 2])) == (5 + 1) / 4
    assert (cost.name, cost.greater_is_better) == ("cost", False)
    assert load("balanced_accuracy").greater_is_better


def test_metric_of_a_regression_gets_two_vectors(load):
    metric = load(
        "worst", "def worst(predictions, labels):\n    return abs(predictions - labels).max()", NUMBERS
    )
    assert (
        metric.compute(np.array([[1.0], [3.0]], dtype=np.float32), np.array([1.0, 1.0], dtype=np.float32))
        == 2.0
    )


def test_metric_cannot_change_what_it_is_given(load):
    metric = load("last", "def last(logits, labels):\n    logits[:] = 0\n    return 1")
    logits = np.ones((2, 3), dtype=np.float32)
    metric.compute(logits, np.array([0, 1]))
    assert logits.all()


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        ("labels * 1.0", r"array\(.*\)"),
        ("float('nan')", "nan"),
        ("None", "None"),
        ("'0.5'", "'0.5'"),
    ],
)
def test_metric_that_returns_no_finite_number_is_an_error_at_once(load, result, shown):
    message = rf"evaluate\.metrics: project/metrics\.py:own returns {shown} for 6 rows, not one finite number"
    with pytest.raises(ParamsError, match=message):
        load("own", f"def own(logits, labels): return {result}")


def test_metric_with_the_name_of_one_of_the_pipeline_is_refused(load):
    with pytest.raises(ParamsError, match="name of a metric"):
        load("accuracy", "def accuracy(logits, labels): return 1.0")


def test_greater_is_better_must_be_a_boolean(load):
    with pytest.raises(ParamsError, match="greater_is_better"):
        load("own", "def own(logits, labels): return 1.0\nown.greater_is_better = 'no'")
