import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import f1_score, matthews_corrcoef, mean_absolute_error

from tuneline.judge.metrics.scores import compute_metric, distinct_rows, numeric_columns, prediction_metrics
from tuneline.judge.metrics.table import METRIC_TABLE, project_metric


def class_pairs(classes: int):
    """Draw labels and predictions, both of shape ``(rows,)``."""
    ids = st.integers(0, classes - 1)
    return st.lists(st.tuples(ids, ids), min_size=1, max_size=60).map(lambda pairs: np.array(pairs).T)


@pytest.mark.parametrize(("classes", "average"), [(2, 0), (2, 1), (2, "macro"), (4, "macro")])
@given(data=st.data())
@settings(max_examples=50)
@pytest.mark.filterwarnings("ignore:A single label was found")
def test_class_metrics_equal_those_of_scikit_learn(classes, average, data):
    labels, predictions = data.draw(class_pairs(classes))
    scored = None if average == "macro" else [average]
    assert prediction_metrics("classification", labels, predictions, average) == {
        "accuracy": pytest.approx((labels == predictions).mean()),
        "f1": pytest.approx(f1_score(labels, predictions, labels=scored, average="macro", zero_division=0)),
        "matthews_correlation": pytest.approx(matthews_corrcoef(labels, predictions), abs=1e-9),
    }


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_number_metrics_equal_those_of_scipy(dtype):
    labels = np.random.default_rng(0).normal(size=200).astype(dtype)
    predictions = np.round(labels + np.random.default_rng(1).normal(size=200), 1).astype(dtype)  # with ties
    assert prediction_metrics("regression", labels, predictions, "macro") == {
        "pearson": pytest.approx(stats.pearsonr(labels, predictions).statistic, rel=1e-5),
        "spearmanr": pytest.approx(stats.spearmanr(labels, predictions).statistic, rel=1e-5),
        "mse": pytest.approx(((labels - predictions) ** 2).mean(), rel=1e-5),
        "mae": pytest.approx(mean_absolute_error(labels, predictions), rel=1e-5),
    }


@pytest.mark.parametrize("value", [1.0, 0.1])  # the mean of ten 0.1 is not 0.1
def test_correlations_of_a_constant_are_zero(value):
    constant, other = np.full(10, value), np.arange(10.0)
    correlations = prediction_metrics("regression", other, constant, "macro")
    assert (correlations["pearson"], correlations["spearmanr"]) == (0.0, 0.0)
    assert prediction_metrics("regression", constant, constant, "macro")["pearson"] == 0.0
    assert prediction_metrics("regression", other, other * 2, "macro")["pearson"] == pytest.approx(1.0)


@pytest.mark.parametrize(
    "metric", [metric for metric in METRIC_TABLE.values() if metric.of_predictions], ids=lambda it: it.name
)
def test_formula_scores_each_resample_by_itself(metric):
    random = np.random.default_rng(0)
    labels, *resamples = random.integers(0, 3, (4, 50))
    if "multilabel" in metric.kinds:
        labels, *resamples = random.integers(0, 2, (4, 50, 2))
    expected = [compute_metric(metric, labels, predictions) for predictions in resamples]
    if metric.count_score is not None:
        kinds, _, numbers = distinct_rows((np.concatenate([labels] * 3), np.concatenate(resamples)))
        counts = [np.bincount(rows, minlength=len(kinds[0])) for rows in np.split(numbers, 3)]
        values = metric.count_score(np.array(counts, dtype=np.float64), *kinds, "macro")
    else:
        columns = [numeric_columns((labels, predictions), metric.on_ranks) for predictions in resamples]
        values = metric.row_score(*np.stack(columns, axis=1))
    assert values.tolist() == pytest.approx(expected)


@given(
    rows=st.lists(
        st.tuples(st.integers(-1, 2), st.integers(-1, 5), st.integers(7, 9)), min_size=1, max_size=30
    )
)
def test_distinct_rows_equal_those_of_numpy(rows):
    values, counts = np.unique(np.array(rows), axis=0, return_counts=True)
    columns = tuple(np.array(rows).T)
    distinct, occurrences, numbers = distinct_rows(columns)
    assert (np.stack(distinct).T.tolist(), occurrences.tolist()) == (values.tolist(), counts.tolist())
    assert np.array_equal(np.stack(distinct)[:, numbers], np.stack(columns))


@pytest.mark.parametrize(
    ("kind", "name", "decides"),
    [
        ("classification", "matthews_correlation", "matthews_correlation"),
        ("classification", None, "accuracy"),
        ("classification", "loss", "accuracy"),
        ("classification", "project/metrics.py:cost", "accuracy"),
        ("classification", "pearson", "accuracy"),
    ],
)
def test_project_metric_is_train_metric_if_it_is_a_score_with_an_interval(kind, name, decides):
    assert project_metric(kind, name).name == decides
