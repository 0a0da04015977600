import numpy as np
import pytest

from tuneline.evaluation.table import ALL_METRICS
from tuneline.metrics.scores import compute_metric
from tuneline.metrics.stats import leak_difference
from tuneline.results.verdict import RunFacts, leak_finding

EVALUATED = {
    "accuracy": 0.823,
    "accuracy_without_leaks": 0.792,
    "accuracy_without_leaks_low": 0.771,
    "accuracy_without_leaks_high": 0.813,
    "accuracy_from_leaks_low": 0.026,
    "accuracy_from_leaks_high": 0.035,
    "leaked_rows": 271,
    "rows": 1725,
}


def predicted(kind: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return labels, predictions that are better on leaked rows, and which rows are leaked."""
    generator = np.random.default_rng(0)
    leaked = generator.random(600) < 0.2
    if kind == "pearson":
        labels = generator.normal(size=600)
        return labels, labels + generator.normal(size=600) * np.where(leaked, 0.1, 1.0), leaked
    labels = generator.integers(0, 3, 600)
    return (
        labels,
        np.where(generator.random(600) < np.where(leaked, 0.98, 0.75), labels, (labels + 1) % 3),
        leaked,
    )


@pytest.mark.parametrize("name", ["accuracy", "f1", "pearson"])
def test_interval_equals_that_of_drawing_rows_of_each_stratum(name):
    metric = ALL_METRICS[name]
    labels, predictions, leaked = predicted(name)
    difference = leak_difference(metric, labels, predictions, leaked)
    assert difference.first == pytest.approx(compute_metric(metric, labels, predictions))
    assert difference.second == pytest.approx(compute_metric(metric, labels[~leaked], predictions[~leaked]))
    generator, drawn = np.random.default_rng(1), []
    for _ in range(400):
        clean, others = (
            generator.choice(rows, len(rows)) for rows in (np.flatnonzero(~leaked), np.flatnonzero(leaked))
        )
        both = np.r_[clean, others]
        every, without = (compute_metric(metric, labels[rows], predictions[rows]) for rows in (both, clean))
        drawn.append(every - without)
    low, high = np.quantile(drawn, [0.025, 0.975])
    assert (difference.low, difference.high) == pytest.approx((low, high), abs=0.2 * (high - low))


def test_sentence_tells_the_metric_without_leaked_rows():
    effect = leak_finding(RunFacts(EVALUATED))
    assert effect.level == "warning"
    assert (
        effect.sentence
        == "271 of 1,725 rows (15.7%) repeat or resemble a row of an earlier split. Accuracy without them:"
        " 0.792 (95 % interval 0.771 to 0.813). They raise it: +0.031 (95 % interval +0.026 to +0.035)."
    )


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (-0.01, 0.02, "They do not clearly change it: "),
        (-0.02, -0.01, "They lower it: "),
        (0.01, 0.02, "They raise it"),
    ],
)
def test_sentence_follows_the_interval(low, high, words):
    effect = leak_finding(
        RunFacts(EVALUATED | {"accuracy_from_leaks_low": low, "accuracy_from_leaks_high": high})
    )
    assert words in effect.sentence
    assert (effect.level == "warning") == (low > 0)


def test_gain_that_is_shown_as_zero_is_no_gain():
    gain = {"accuracy_without_leaks": EVALUATED["accuracy"] - 0.0004}
    gain |= {"accuracy_from_leaks_low": 0.0002, "accuracy_from_leaks_high": 0.0006}
    effect = leak_finding(RunFacts(EVALUATED | gain))
    assert "They do not clearly change it: +0.000" in effect.sentence
    assert effect.level == "note"
    assert not effect.advice


def test_sentence_of_one_row_is_singular():
    effect = leak_finding(RunFacts(EVALUATED | {"leaked_rows": 1}))
    assert effect.sentence.startswith("1 of 1,725 rows (0.1%) repeats or resembles a row of an earlier")
    assert "Accuracy without it: 0.792" in effect.sentence
    assert "This row raises it: +0.031" in effect.sentence
    assert effect.advice.startswith("Trust the metric without it;")


def test_metrics_without_leaked_rows_have_no_effect_to_tell():
    assert leak_finding(RunFacts({"accuracy": 0.8, "rows": 10, "leaked_rows": 0})) is None
