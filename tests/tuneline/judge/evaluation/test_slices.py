import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tuneline.judge.evaluation.slices import (
    ENOUGH_ROWS,
    RowSlice,
    SliceMetrics,
    label_slices,
    length_slices,
    score_slices,
    slices_report,
)
from tuneline.judge.metrics.predictions import Predictions
from tuneline.model.tasks import Classification, Regression

PAIR, NUMBER = Classification(("no", "yes")), Regression()


@settings(max_examples=60)
@given(st.lists(st.integers(1, 60), min_size=1, max_size=80))
def test_length_slices_are_not_empty_and_contain_every_row_once(lengths):
    slices = list(length_slices(np.array(lengths)))
    assert sorted(row for one in slices for row in one.rows.tolist()) == list(range(len(lengths)))
    assert all(len(one.rows) for one in slices)
    assert len(slices) <= 4
    spans = [(min(lengths[row] for row in one.rows), max(lengths[row] for row in one.rows)) for one in slices]
    assert all(high < low for (_, high), (low, _) in itertools.pairwise(spans))


def test_slice_is_scored_on_its_own_rows():
    predictions = Predictions(np.array([0, 1, 0, 0]), np.array([0, 1, 1, 0]), PAIR)
    slices = [RowSlice("length", "x", np.array([0, 1])), RowSlice("length", "y", np.array([2, 3]))]
    scored = score_slices(slices, predictions, 0)
    assert [(one.name, one.rows, one.metrics["accuracy"]) for one in scored] == [
        ("x", 2, 1.0),
        ("y", 2, 0.5),
    ]
    assert scored[1].low < 0.5 < scored[1].high


def test_slices_report_has_the_worst_slice_with_enough_rows():
    scored = [
        SliceMetrics.model_validate(
            {"by": "length", "slice": name, "rows": rows, "accuracy": accuracy, "low": 0.0, "high": 1.0}
        )
        for name, rows, accuracy in (
            ("tiny", ENOUGH_ROWS - 1, 0.0),
            ("weak", ENOUGH_ROWS, 0.4),
            ("good", 500, 0.9),
        )
    ]
    report = slices_report(scored, "accuracy")
    assert report.worst.name == "weak"
    assert slices_report(scored[:1], "accuracy").worst is None


def test_slices_are_compared_by_accuracy_whatever_metric_decides():
    """A slice with one class has no Matthews correlation: its accuracy is the recall."""
    labels = np.repeat([0, 1], [950, 50])
    predictions = np.where(np.arange(1000) < 960, 0, labels)
    split = Predictions(labels, predictions, PAIR)
    slices = [*label_slices(split), RowSlice("length", "short", np.arange(900, 1000))]
    report = slices_report(score_slices(slices, split, 0), "accuracy")
    assert (report.worst.name, report.value(report.worst)) == ("yes", 0.8)
