import numpy as np
import pytest

from tuneline.cli.report.figures import training


@pytest.mark.parametrize(("name", "best_step"), [("accuracy", 20), ("pearson", 20), ("mse", 30)])
def test_validation_metric_circles_the_best_evaluation(monkeypatch, name, best_step):
    monkeypatch.setattr(training, "to_svg", lambda figure, *_: figure.axes[0].lines[-1].get_xdata())
    curve = {"step": np.array([10.0, 20.0, 30.0]), name: np.array([0.5, 0.9, 0.4])}
    assert training.validation_metric(curve, name) == [best_step]
