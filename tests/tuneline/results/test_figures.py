import numpy as np
import pytest

from tuneline.results import figures
from tuneline.results.predictions import ReportedPredictions
from tuneline.tasks import Classification, Multilabel, Regression


@pytest.mark.parametrize(("name", "best_step"), [("accuracy", 20), ("cost", 30)])
def test_validation_metric_circles_the_best_evaluation(monkeypatch, name, best_step):
    monkeypatch.setattr(figures, "to_svg", lambda figure, *_: figure.axes[0].lines[-1].get_xdata())
    curve = {"step": np.array([10.0, 20.0, 30.0]), name: np.array([0.5, 0.9, 0.4])}
    assert figures.draw_validation_metric(curve, name, best_step) == [best_step]


@pytest.fixture
def axes(monkeypatch):
    """Draw a figure and return its axes instead of SVG."""
    monkeypatch.setattr(figures, "to_svg", lambda figure, *_: figure.axes[0])


def test_confidence_histogram_counts_correct_and_wrong_predictions(axes):
    logits = np.array([[9, 0], [9, 0], [0, 9], [0, 0.1]], dtype=np.float32)
    drawn = figures.draw_confidence(
        ReportedPredictions(np.array([0, 0, 0, 1]), logits, Classification(("no", "yes")))
    )
    correct, wrong = ([bar.get_height() for bar in bars] for bars in drawn.containers)
    assert (sum(correct), sum(wrong)) == (3, 1)
    assert (correct[-1], wrong[-1], correct[10]) == (2, 1, 1)


def test_confidence_of_several_labels_is_of_the_least_certain_one(axes):
    logits = np.array([[9, 0.1], [9, 9], [9, -0.1]], dtype=np.float32)
    labels = np.array([[1, 1], [1, 0], [1, 0]], dtype=np.int8)
    drawn = figures.draw_confidence(ReportedPredictions(labels, logits, Multilabel(("no", "yes"))))
    correct, wrong = ([bar.get_height() for bar in bars] for bars in drawn.containers)
    assert (correct[10], wrong[-1]) == (2, 1)


def test_residuals_are_predicted_minus_actual_numbers(axes):
    drawn = figures.draw_residuals(
        ReportedPredictions(np.float32([1, 1]), np.float32([[3], [1]]), Regression())
    )
    edges = [bar.get_x() for bar in drawn.patches if bar.get_height()]
    assert (min(edges) >= 0, max(edges) > 1.9) == (True, True)


def test_calibration_dots_grow_with_their_rows(axes):
    bins = {
        "confidence": np.array([0.6, 0.9]),
        "accuracy": np.array([0.5, 0.9]),
        "rows": np.array([10.0, 90.0]),
    }
    [dots] = [
        collection
        for collection in figures.draw_calibration(bins).collections
        if len(collection.get_offsets()) == 2
    ]
    assert dots.get_offsets().tolist() == [[0.6, 0.5], [0.9, 0.9]]
    assert dots.get_sizes()[1] > dots.get_sizes()[0]


@pytest.mark.parametrize("points", [1, 2, 3, 50])
def test_running_mean_has_a_value_for_each_point(points):
    """A training of a few steps logs one row."""
    assert figures.running_mean(np.ones(points)).tolist() == pytest.approx([1.0] * points)
