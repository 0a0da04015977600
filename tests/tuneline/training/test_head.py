"""Heads of checkpoints: which rows are of which class, and which heads start anew."""

import numpy as np
import pytest
import torch

from tests.small_pipeline import FAMILIES, tiny_model
from tests.tuneline.training import tiny_task
from tuneline.core.paths import BASE_MODEL
from tuneline.model.tasks import Classification, Multilabel, Regression
from tuneline.training.head import match_head, replace_foreign_head, start_head


@pytest.mark.parametrize("family", FAMILIES)
def test_new_head_starts_with_a_bias_and_a_loaded_one_keeps_its_own(family):
    torch.manual_seed(0)
    model = tiny_model(family, 3)
    bias = np.array([1.0, 2.0, 3.0], np.float32)
    start_head(model, [], bias)
    assert not any(torch.equal(weight.data, torch.from_numpy(bias)) for weight in model.parameters())
    start_head(model, list(model.state_dict()), bias)
    biases = [weight for name, weight in model.named_parameters() if name.endswith(".bias")]
    started = [weight for weight in biases if torch.equal(weight.data, torch.from_numpy(bias))]
    has_bias = any(len(weight) == 3 for weight in biases)
    assert len(started) == int(has_bias)


@pytest.mark.parametrize(
    ("stored", "names", "start"),
    [
        (("NEGATIVE", "POSITIVE"), ("negative", "positive"), "kept"),
        ((0, 1, 2), ("0", "1", "2"), "kept"),
        (("Not-Equivalent", "equivalent"), ("equivalent", "not_equivalent"), "moved"),
        (("1", "-1"), ("1", "2"), "drawn"),
        (("LABEL_0", "LABEL_1"), ("no", "yes"), "drawn"),
        (("us", "US"), ("US", "us"), "moved"),
    ],
)
def test_classes_of_a_head_are_compared_without_how_a_file_writes_them(stored, names, start):
    assert match_head(tiny_model("bert", len(names)), stored, Classification(names)) == start


CLASSES = np.arange(30) % 3
ONE_HOT = np.eye(3, dtype=np.float32)
NLI = Classification(("entailment", "neutral", "contradiction"))
TARGETS = np.linspace(1000, 20_000, 30, dtype=np.float32)


@pytest.mark.parametrize(
    ("task", "logits", "labels", "message"),
    [
        (NLI, 5 * ONE_HOT[CLASSES] - [9, 0, 0], CLASSES, ""),
        (NLI, 5 * ONE_HOT[(CLASSES + 1) % 3], CLASSES, "names of its classes (0 right)"),
        (NLI, 5 * ONE_HOT[2 - CLASSES], CLASSES, "names of its classes (10 right)"),
        (Multilabel(NLI.names), 5 * ONE_HOT[[1, 2, 0]][CLASSES], ONE_HOT[CLASSES], "its classes"),
        (Regression(), TARGETS[:, None] + 1000, TARGETS, ""),
        (Regression(), np.linspace(-11, 11, 30)[:, None], TARGETS, "another unit"),
        (Regression(), np.linspace(11, -11, 30)[:, None], TARGETS, "anew"),
        (Regression(), np.full((30, 1), np.nan), TARGETS, "anew"),
    ],
)
def test_head_that_does_not_mean_the_labels_is_drawn_anew(task, logits, labels, message, capsys):
    model = tiny_model("bert", task.outputs)
    weight = model.classifier.weight.detach().clone()
    new = replace_foreign_head(model, task, logits.astype(np.float32), labels)
    printed = capsys.readouterr().out
    assert message in printed
    assert bool(printed) == bool(message)
    assert new == ({"classifier.weight", "classifier.bias"} if message else frozenset())
    assert torch.equal(model.classifier.weight, weight) == (not message)


def test_training_draws_a_head_whose_names_are_permuted(project, trained, capsys):
    learned = trained(tiny_task.params(tiny_task.WITHOUT_DROPOUT, epochs=12))
    tiny_task.write_checkpoint(project)
    for names, is_drawn in ((tiny_task.NAMES, False), (tiny_task.NAMES[::-1], True)):
        learned.model.config.id2label = dict(enumerate(names))
        learned.model.config.label2id = {name: index for index, name in enumerate(names)}
        learned.model.save_pretrained(BASE_MODEL, state_dict=learned.weights)
        trained(tiny_task.params(tiny_task.FINE_TUNED, max_steps=1, epochs=None))
        assert ("names of its classes" in capsys.readouterr().out) == is_drawn
