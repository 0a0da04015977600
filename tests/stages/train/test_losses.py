import numpy as np
import pytest
import torch
from torch.nn import functional

from stages.train.inputs import check_label_params
from stages.train.optimization import Loss, balanced_weights, class_weights
from tests.stages.train import made
from tuneline.batches import TokenizedSplit
from tuneline.errors import ParamsError
from tuneline.files.schemas import LabelSchema

LOGITS = torch.tensor([[2.0, 0.5, -1.0], [0.1, 0.2, 0.3], [-1.0, 3.0, 0.0], [0.0, 0.0, 4.0]])
LABELS = np.array([0, 2, 1, 1])


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("weights", [None, np.array([1.0, 2.0, 0.5], dtype=np.float32)])
def test_loss_over_total_weight_equals_the_mean_of_torch(smoothing, weights):
    loss = Loss(regression=False, label_smoothing=smoothing, class_weights=weights)
    labels = torch.from_numpy(LABELS)
    ours = loss.per_example(LOGITS, labels).sum() / loss.total_weight(LABELS)
    expected = functional.cross_entropy(LOGITS, labels, None if weights is None else torch.from_numpy(weights), label_smoothing=smoothing)
    assert ours.item() == pytest.approx(expected.item(), rel=1e-6)


def test_loss_of_bfloat16_logits_is_float32():
    assert Loss(False).per_example(LOGITS.bfloat16(), torch.from_numpy(LABELS)).dtype == torch.float32


def test_regression_loss_is_the_squared_error():
    loss = Loss(regression=True)
    errors = loss.per_example(torch.tensor([[1.0], [2.0]]), torch.tensor([0.0, 4.0]))
    assert errors.tolist() == [1.0, 4.0]
    assert loss.total_weight(np.array([0.0, 4.0], dtype=np.float32)) == 2


def split(labels, names=made.NAMES):
    count = len(labels)
    return TokenizedSplit({"input_ids": np.zeros(count, dtype=np.int32)}, np.arange(count + 1), np.array(labels), LabelSchema(names))


def test_balanced_class_weights_give_each_class_the_same_total():
    counts = np.array([6, 3, 1])
    weights = balanced_weights(split(np.repeat([0, 1, 2], counts)))
    assert (weights * counts).tolist() == pytest.approx([10 / 3] * 3)


def test_class_weights_are_set_by_name_and_default_to_1():
    settings = made.params(class_weights={"technical": 2.5}).train
    assert class_weights(settings, split([0, 1, 2])).tolist() == [1.0, 1.0, 2.5]


@pytest.mark.parametrize(
    ("names", "given", "message"),
    [
        (made.NAMES, {"class_weights": {"legal": 2.0}}, r"train.class_weights: 'legal' is not a class"),
        (
            None,
            {"class_weights": "balanced", "metric": "mse"},
            "train.class_weights: the labels are numbers, and regression has no classes",
        ),
        (None, {"label_smoothing": 0.1, "metric": "mse"}, "train.label_smoothing: the labels are numbers, and regression has no classes"),
        (None, {}, "train.metric: 'accuracy' is not a metric of regression"),
        (made.NAMES, {"metric": "pearson"}, "train.metric: 'pearson' is not a metric of classification"),
    ],
)
def test_check_label_params_refuses_params_of_the_other_task(names, given, message):
    with pytest.raises(ParamsError, match=message):
        check_label_params(made.params(**given).train, LabelSchema(names))


def test_class_weights_change_the_trained_model(trained):
    plain, weighted = (
        trained(made.params(made.WITHOUT_DROPOUT)),
        trained(made.params(made.WITHOUT_DROPOUT, class_weights={"billing": 20.0})),
    )
    assert plain.state.progress.logged[-1].loss != weighted.state.progress.logged[-1].loss
