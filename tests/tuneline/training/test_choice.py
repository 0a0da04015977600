"""The choice of ``model.head: auto`` between the fine-tuned model and the linear one on the frozen
checkpoint."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy import stats

from tests.tuneline.training import launcher, tiny_task
from tests.tuneline.training.test_frozen_head import prepared_with
from tuneline.model.tasks import Classification, Regression
from tuneline.training.choice import advantage, begins_with_linear_model, choose_head
from tuneline.training.data import Inputs
from tuneline.training.optimization import ValidationMetric


@dataclass
class Rows:
    """What two models are compared on."""

    labels: Any
    task: Any

    def __len__(self):
        return len(self.labels)


METRIC = ValidationMetric("accuracy", greater_is_better=True)


SPLIT = Rows(np.tile(np.array([0, 1]), 20), Classification(("a", "b")))
"""Half of the rows have each class."""


def logits(wrong, confidence=2.0):
    """Return the logits of a model that is wrong in the first rows, and equally sure everywhere."""
    right = np.where(np.arange(40) < wrong, -confidence, confidence)
    return np.stack(
        [np.where(SPLIT.labels == 0, right, 0), np.where(SPLIT.labels == 1, right, 0)], axis=1
    ).astype(np.float32)


def choice(frozen, tuned, between=None, **options):
    """Choose by the validation split; ``between`` are the logits of an average."""
    candidates = {0.0: frozen, 1.0: tuned}
    if between is not None:
        candidates[0.5] = between
    return choose_head(candidates, SPLIT, METRIC, **options)


@pytest.mark.parametrize("between", [None, logits(wrong=10)])
def test_model_that_is_right_more_often_is_published_although_it_is_too_sure_of_itself(between):
    assert choice(logits(wrong=10), logits(wrong=2, confidence=20), between).share == 1


@pytest.mark.parametrize("between", [None, logits(wrong=10)])
def test_fine_tuned_model_that_is_clearly_worse_is_not_published(between):
    assert choice(logits(wrong=2), logits(wrong=10), between).share == 0


@pytest.mark.parametrize("between", [None, logits(wrong=4)])
def test_model_that_is_better_by_chance_is_not_published(between):
    """As on CoLA with 200 rows, 40 of validation: on other rows, such a model is worse."""
    frozen, slightly_better = logits(wrong=4), np.roll(logits(wrong=3), 4, axis=0)
    assert choice(frozen, slightly_better, between).share == 0
    assert choice(frozen, frozen, between=slightly_better).share == 0
    assert choice(frozen, slightly_better, between, is_contrastive=True).share == 1


def test_average_that_is_clearly_better_is_published():
    assert choice(logits(wrong=10), logits(wrong=8), between=logits(wrong=2)).share == 0.5


@pytest.mark.parametrize(("is_contrastive", "share"), [(True, 1), (False, 0.5)])
def test_average_after_a_contrastive_training_is_published_only_where_it_has_lost(is_contrastive, share):
    frozen, between, tuned, lost = (logits(wrong) for wrong in (8, 2, 4, 10))
    assert choice(frozen, tuned, between, is_contrastive=is_contrastive).share == share
    assert choice(frozen, lost, between, is_contrastive=is_contrastive).share == 0.5


def test_numbers_are_compared_by_their_squared_errors():
    numbers = Rows(labels=np.linspace(0, 5, 40).astype(np.float32), task=Regression())
    close, far = (numbers.labels[:, None] + offset for offset in (0.1, 0.5))
    metric = ValidationMetric("pearson", greater_is_better=True)
    far = far + np.sin(np.arange(40))[:, None]
    assert choose_head({0.0: close, 1.0: far}, numbers, metric).share == 0
    assert choose_head({0.0: far, 1.0: close}, numbers, metric).share == 1


@pytest.mark.parametrize(
    ("wrong", "pairs", "rows", "expected"),
    [(2, True, 100, True), (19, True, 100, False), (19, False, 100, True), (2, True, 10_000, False)],
)
def test_fine_tuning_of_pairs_begins_with_the_linear_model_if_their_vectors_predict_the_label(
    wrong, pairs, rows, expected
):
    inputs = Inputs(range(rows), SPLIT, tokenizer=None)
    assert begins_with_linear_model(logits(wrong), inputs, pairs) == expected


@pytest.fixture(scope="module")
def outs(tmp_path_factory, data):
    """Return a function that trains with a head, and returns what is published, the metrics and the
    output."""

    def run(head, before=None, **train):
        folder = prepared_with(
            tmp_path_factory.mktemp(str(head)), data, {**tiny_task.FINE_TUNED, "head": head}, **train
        )
        assert launcher.run(folder, before=before) == [0], launcher.output(folder)
        return launcher.outs(folder), launcher.metrics(folder), launcher.output(folder)

    return run


def same_model(first, second):
    names = {name for name in first if name.startswith("models/classifier/")}
    assert names
    return names == {name for name in second if name.startswith("models/classifier/")} and all(
        first[name] == second[name] for name in names
    )


def test_fine_tuning_begins_with_the_linear_model(outs):
    """Without a step, it is the same model; then the best of both and their averages is published."""
    chosen, metrics, output = outs("auto", epochs=1, learning_rate=1e-9)
    _, of_frozen, _ = outs("frozen")
    assert metrics["tuned_calibrated_loss"] == pytest.approx(metrics["frozen_calibrated_loss"], abs=1e-4)
    assert metrics["best_loss"] == pytest.approx(of_frozen["best_loss"], abs=1e-4)
    learned, metrics, output = outs("auto", epochs=8)
    assert metrics["tuned_calibrated_loss"] < metrics["frozen_calibrated_loss"]
    assert metrics["head_is_frozen"] == 0
    assert "is published: by the losses of the rows" in output
    assert not same_model(chosen, learned)


def test_model_that_is_clearly_better_by_the_metric_is_published_although_its_losses_are_not():
    """The linear model has the better likelihood, and never predicts the rare class."""
    labels = np.repeat([0, 1], [380, 20])
    split = Rows(labels=labels, task=Classification(("ham", "spam")))
    never = np.stack([np.zeros(400), np.where(labels == 1, -0.1, -6.0)], axis=1).astype(np.float32)
    margin = np.where(labels == 1, 0.5, -2.0)
    margin[[0, 1]] = 8.0
    finds = np.stack([np.zeros(400), margin], axis=1).astype(np.float32)
    metric = ValidationMetric("matthews_correlation", greater_is_better=True)
    chosen = choose_head({0.0: never, 1.0: finds}, split, metric)
    assert chosen.metrics["frozen_calibrated_loss"] < chosen.metrics["tuned_calibrated_loss"]
    assert chosen.share == 1
    assert "matthews_correlation is clearly better" in chosen.sentence
    assert chosen.metrics["head_by_metric"] == 1
    assert choose_head({0.0: finds, 1.0: never}, split, metric).share == 0


def test_advantage_of_copies_is_that_of_the_texts():
    random = np.random.default_rng(0)
    losses, reference = random.random((2, 30))
    texts = advantage(losses, reference)
    clusters = np.repeat(np.arange(30), 10)
    rows = advantage(np.repeat(losses, 10), np.repeat(reference, 10), clusters)
    assert rows == pytest.approx(texts)
    assert abs(advantage(np.repeat(losses, 10), np.repeat(reference, 10))) > 3 * abs(texts)


def test_advantage_of_single_rows_is_the_mean_by_its_standard_error():
    random = np.random.default_rng(0)
    losses, reference = random.random((2, 30))
    gains = reference - losses
    assert advantage(losses, reference) == pytest.approx(gains.mean() / stats.sem(gains))
    assert advantage(losses, reference, np.arange(30)) == pytest.approx(advantage(losses, reference))
