import numpy as np
import pytest

from tuneline.results import figures
from tuneline.results.predictions import ReportedPredictions
from tuneline.tasks import Classification


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
