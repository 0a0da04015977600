"""The choice of ``model.head: auto`` between the fine-tuned model and the linear one on the frozen checkpoint."""

import numpy as np
import pytest

from stages.train.choice import Candidate, HeadChoice
from stages.train.optimization import ValidationMetric
from tests.stages.train import launcher, tiny_task
from tests.stages.train.test_frozen import prepared_with
from tuneline.core.tables import LabelSchema
from tuneline.model import linear

METRIC = ValidationMetric("accuracy", greater_is_better=True)


class Split:
    """What a candidate is scored on."""

    label_schema = LabelSchema(("a", "b"))

    def __init__(self, labels):
        self.labels = np.asarray(labels)


def candidate(right, confidence, rows=40):
    """Return a model that is right in some of the rows, and equally sure everywhere."""
    logits = np.zeros((rows, 2), np.float32)
    logits[:right, 0] = confidence
    logits[right:, 1] = confidence
    return Candidate.of(logits, Split(np.zeros(rows, np.int64)), METRIC)


def choice(frozen, tuned):
    return HeadChoice(frozen, tuned, 40, "accuracy")


def test_model_that_is_right_more_often_is_chosen_although_it_is_too_sure_of_itself():
    frozen, tuned = candidate(30, confidence=1), candidate(35, confidence=20)
    assert not choice(frozen, tuned).is_frozen


def test_fine_tuned_model_that_is_right_less_often_is_not_published():
    assert choice(candidate(35, confidence=1), candidate(30, confidence=1)).is_frozen


def test_of_two_equal_models_the_linear_one_is_published():
    assert choice(candidate(30, confidence=1), candidate(30, confidence=1)).is_frozen


def test_sentence_has_both_numbers_and_the_choice():
    sentence = choice(candidate(35, confidence=1), candidate(30, confidence=1)).sentence
    assert sentence.startswith("on 40 rows of validation, the frozen checkpoint loss 0.3")
    assert "accuracy 0.8750 and fine-tuned loss 0.5" in sentence
    assert sentence.endswith("accuracy 0.7500: the linear model on the frozen checkpoint is published")


@pytest.fixture(scope="module")
def outs(tmp_path_factory, data):
    """Return a function that trains with a head, and returns what is published, the metrics and the output."""

    def run(head, before=None, **train):
        folder = prepared_with(tmp_path_factory.mktemp(str(head)), data, {**tiny_task.FINE_TUNED, "head": head}, **train)
        assert launcher.run(folder, before=before) == [0], launcher.output(folder)
        return launcher.outs(folder), launcher.metrics(folder), launcher.output(folder)

    return run


def few_rows():
    """Let the linear model see four rows only."""
    linear.MAX_ROWS = 4


def same_model(first, second):
    names = {name for name in first if name.startswith("models/classifier/")}
    assert names
    return names == {name for name in second if name.startswith("models/classifier/")} and all(
        first[name] == second[name] for name in names
    )


def test_fine_tuned_model_that_is_better_is_published_as_without_the_choice(outs):
    chosen, metrics, output = outs("auto", few_rows, epochs=30)
    tuned, of_tuned, _ = outs(None, epochs=30)
    assert metrics["head_is_frozen"] == 0, metrics
    assert same_model(chosen, tuned)
    assert metrics.items() >= of_tuned.items()
    assert metrics["tuned_calibrated_loss"] < metrics["frozen_calibrated_loss"]
    assert output.strip().splitlines()[-2].endswith("the fine-tuned model is published")


def test_linear_model_is_published_where_training_learns_nothing(outs):
    chosen, metrics, output = outs("auto", epochs=1, learning_rate=1e-9)
    frozen, of_frozen, _ = outs("frozen")
    assert metrics["head_is_frozen"] == 1
    assert same_model(chosen, frozen)
    assert metrics.items() >= of_frozen.items(), "they are those of the published model"
    assert metrics["frozen_calibrated_loss"] < metrics["tuned_calibrated_loss"]
    assert "the linear model on the frozen checkpoint is published" in output
