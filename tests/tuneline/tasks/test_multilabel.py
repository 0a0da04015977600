"""Sets of labels: how they are stored, predicted, trained and judged."""

import json

import numpy as np
import pyarrow as pa
import pytest
import torch
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    brier_score_loss,
    f1_score,
    hamming_loss,
    log_loss,
)

from tuneline.core.errors import ParamsError
from tuneline.core.tables import FEATURES, raw_schema
from tuneline.metrics.scores import prediction_metrics
from tuneline.params.train import ThresholdParams
from tuneline.tasks import Classification, Multilabel, read_task
from tuneline.tasks.thresholds import divisions

TASK = Multilabel(("angry", "billing", "technical"))
NAMES = pa.list_(pa.string())


def random_rows(rows=300, seed=0):
    """Return labels, and logits that have something to do with them."""
    random = np.random.default_rng(seed)
    labels = (random.random((rows, 3)) < [0.1, 0.3, 0.6]).astype(np.int8)
    logits = (random.normal(size=(rows, 3)) + 2 * labels - 1.5).astype(np.float32)
    return labels, logits


def test_metrics_are_those_of_scikit_learn():
    labels, logits = random_rows()
    predictions = TASK.predictions(logits)
    assert prediction_metrics("multilabel", labels, predictions, "macro") == {
        "macro_f1": pytest.approx(f1_score(labels, predictions, average="macro")),
        "micro_f1": pytest.approx(f1_score(labels, predictions, average="micro")),
        "samples_f1": pytest.approx(f1_score(labels, predictions, average="samples", zero_division=1)),
        "subset_accuracy": pytest.approx(accuracy_score(labels, predictions)),
        "hamming_loss": pytest.approx(hamming_loss(labels, predictions)),
    }
    probability = TASK.scores(logits)
    metrics = TASK.probability_metrics(logits, labels)
    assert metrics["mean_average_precision"] == pytest.approx(average_precision_score(labels, probability))
    assert metrics["macro_f1_at_half"] == pytest.approx(f1_score(labels, probability > 0.5, average="macro"))
    brier = [brier_score_loss(labels[:, label], probability[:, label]) for label in range(3)]
    assert metrics["brier_score"] == pytest.approx(np.mean(brier))
    losses = [log_loss(labels[:, label], probability[:, label]) for label in range(3)]
    assert TASK.mean_loss(logits, labels) == pytest.approx(np.mean(losses))


def test_labels_that_nobody_has_or_gets_do_not_lower_macro_f1():
    labels = np.array([[1, 0, 0], [1, 1, 0]], np.int8)
    assert prediction_metrics("multilabel", labels, labels, "macro")["macro_f1"] == 1.0


def test_rows_that_rightly_get_no_label_are_right():
    nothing = np.zeros((5, 3), np.int8)
    scores = prediction_metrics("multilabel", nothing, nothing, "macro")
    assert scores == {
        "macro_f1": 1.0,
        "micro_f1": 1.0,
        "samples_f1": 1.0,
        "subset_accuracy": 1.0,
        "hamming_loss": 0.0,
    }


def test_sets_are_columns_of_ids_and_arrays_of_0_and_1():
    labels = np.array([[1, 0, 1], [0, 0, 0], [-1, -1, -1]], np.int8)
    column = TASK.column_of(labels)
    assert column.to_pylist() == [[0, 2], [], [-1]]
    assert np.array_equal(TASK.array_of(column), labels)
    assert np.array_equal(TASK.array_of(pa.chunked_array([column, column])), np.concatenate([labels, labels]))
    assert TASK.array_of(TASK.column_of(labels[:0])).shape == (0, 3)
    assert TASK.unlabelled(labels).tolist() == [False, False, True]


def test_names_of_a_source_become_ids_in_their_order_and_an_unknown_one_is_missing():
    written = pa.array([["technical", "angry"], [], None, ["angry", "new"]], NAMES)
    assert TASK.stored(written, TASK.names).to_pylist() == [[0, 2], [], None, [-1]]


def test_table_tells_the_task_its_names_and_its_thresholds():
    task = TASK.with_decisions(
        {"thresholds": {"angry": 0.1, "billing": 0.2, "technical": 0.3}, "at_least_one": True}
    )
    restored = read_task(raw_schema(["text"], task))
    assert restored == TASK
    assert restored.thresholds == (0.1, 0.2, 0.3)
    assert restored.at_least_one
    assert read_task(raw_schema(["text"], TASK)).thresholds == ()


def test_datasets_library_reads_a_list_of_class_labels():
    from datasets import ClassLabel, Features, List

    features = json.loads(raw_schema(["text"], TASK).metadata[FEATURES])["info"]["features"]
    assert Features.from_dict(features)["labels"] == List(ClassLabel(names=list(TASK.names)))


def test_row_has_the_labels_above_their_thresholds():
    task = Multilabel(TASK.names, (0.9, 0.5, 0.1))
    logits = np.zeros((1, 3), np.float32)  # a probability of 0.5 each
    assert task.predictions(logits).tolist() == [[0, 0, 1]]
    assert TASK.predictions(logits).tolist() == [[0, 0, 0]]


def test_row_without_a_label_gets_the_most_probable_one_if_it_must_have_one():
    logits = np.array([[-3, -1, -2], [2, 2, -2]], np.float32)
    task = Multilabel(TASK.names, at_least_one=True)
    assert task.predictions(logits).tolist() == [[0, 1, 0], [1, 1, 0]]


@pytest.mark.parametrize("choose", ["f1", "precision", "recall", "half"])
def test_no_row_is_decided_by_thresholds_that_it_has_chosen(choose):
    labels, logits = random_rows()
    rule = ThresholdParams(choose=choose, target=0.8 if choose in ("precision", "recall") else None)
    predictions = TASK.cross_fitted(logits, labels, rule)
    for held_out, _ in divisions(len(labels)):
        others = labels.copy()
        others[held_out] = 1 - others[held_out]
        assert (TASK.cross_fitted(logits, others, rule)[held_out] == predictions[held_out]).all()
    if choose != "half":
        assert (TASK.decided(logits, labels, rule).predictions(logits) != predictions).any()


def test_cross_fitted_rows_get_at_least_one_label_if_they_must():
    labels, logits = random_rows()
    rule = ThresholdParams(at_least_one=True)
    assert TASK.cross_fitted(logits, labels, rule).any(axis=1).all()
    assert TASK.decided(logits, labels, rule).at_least_one


def test_cross_fitted_classes_are_the_most_probable_ones():
    classes = Classification(("no", "yes"))
    logits = np.array([[0.1, 0.2], [3, 1]], np.float32)
    assert classes.cross_fitted(logits, np.array([1, 1]), ThresholdParams()).tolist() == [1, 0]


def test_precision_needs_a_target():
    with pytest.raises(ValueError, match="target"):
        ThresholdParams(choose="precision")
    with pytest.raises(ValueError, match="target"):
        ThresholdParams(choose="f1", target=0.9)


def test_loss_is_the_binary_cross_entropy_of_torch_with_weights_of_the_labels_that_rows_have():
    labels, logits = random_rows(8)
    weight = torch.tensor([5.0, 1.0, 1.0])
    losses = TASK.losses(torch.from_numpy(logits), torch.from_numpy(labels), weight, 0.0)
    expected = torch.nn.BCEWithLogitsLoss(pos_weight=weight, reduction="none")
    assert torch.allclose(
        losses, expected(torch.from_numpy(logits), torch.from_numpy(labels).float()).mean(1)
    )
    assert TASK.total_weight(labels, weight.numpy()) == 8


def test_smoothed_targets_are_between_the_label_and_a_half():
    (loss,) = TASK.losses(torch.full((1, 3), 50.0), torch.ones((1, 3)), None, 0.2)
    assert float(loss) == pytest.approx(0.1 * 50, rel=1e-3)


def test_balanced_weights_give_rows_with_and_without_a_label_the_same_total():
    labels, _ = random_rows()
    weights = TASK.balanced_weights(labels)
    assert weights * labels.sum(axis=0) == pytest.approx((1 - labels).sum(axis=0))
    assert TASK.balanced_weights(labels * [1, 1, 0])[2] == 1.0


def test_new_head_starts_with_the_frequencies_of_the_labels():
    labels, _ = random_rows(3_000)
    bias = TASK.new_bias(labels, None)
    assert TASK.scores(bias[None])[0] == pytest.approx(labels.mean(axis=0), abs=1e-3)
    balanced = TASK.new_bias(labels, TASK.balanced_weights(labels))
    assert TASK.scores(balanced[None])[0] == pytest.approx([0.5] * 3, abs=1e-2)


def test_loss_of_the_user_cannot_be_weighted():
    with pytest.raises(ParamsError, match=r"train\.class_weights"):
        TASK.weighted(torch.ones(2), torch.ones((2, 3)), torch.ones(3))


def test_most_frequent_set_is_predicted_without_a_text():
    labels = np.array([[1, 0, 0], [0, 1, 1], [0, 1, 1], [0, 0, 0]], np.int8)
    assert TASK.constant_prediction([labels[:2], labels[2:]]).tolist() == [0, 1, 1]


def test_each_label_is_a_stratum_and_no_label_is_one_but_a_missing_set_is_in_none():
    column = pa.array([["b", "a"], ["a"], [], None], NAMES)
    assert Multilabel.strata(column).to_pylist() == [["b", "a"], ["a"], [""], []]


def test_text_of_a_set_has_its_names_in_their_order_and_reads_back():
    assert TASK.exact_text(" technical;angry;; ") == "angry;technical"
    assert TASK.label_value([1, 0, 1]) == "angry;technical"
    assert TASK.label_text([0, 0, 0]) == "(none)"
    texts = pa.chunked_array([["technical;angry", "", "angry;unknown", None]])
    assert TASK.parsed(texts).tolist() == [[1, 0, 1], [0, 0, 0], [-2, -2, -2], [0, 0, 0]]


@pytest.mark.parametrize(
    "text", ["technical, angry", "technical|angry", "angry;technical", "angry\ttechnical"]
)
def test_people_may_join_labels_by_any_separator(text):
    assert TASK.exact_text(text) == "angry;technical"
    assert Multilabel(("wet, cold", "dry")).exact_text("dry;wet, cold") == "wet, cold;dry", "part of a name"


def test_separator_is_one_that_no_name_contains():
    assert Multilabel(("a;b", "c")).separator == "|"
    with pytest.raises(ParamsError, match="Rename"):
        _ = Multilabel(("a;b|c,d\te",)).separator


def test_sets_of_another_model_are_translated_by_name():
    other = Multilabel(("technical", "angry", "refund"))
    labels = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]], np.int8)
    assert TASK.translated(labels, other).tolist() == [[0, 0, 1], [1, 0, 0], [-1, -1, -1], [0, 0, 0]]


def test_predictions_in_a_file_read_back_as_lists_and_as_text():
    labels, _ = random_rows(20)
    lists = TASK.decoded(labels)
    texts = pa.array([TASK.cell_text(names) for names in lists.to_pylist()], pa.string())
    assert np.array_equal(TASK.encoded(pa.chunked_array([lists])), labels)
    assert np.array_equal(TASK.encoded(pa.chunked_array([texts])), labels)


def test_prediction_rows_have_the_names_and_the_probability_of_each_label():
    rows = list(TASK.prediction_rows(np.array([[0.91234, 0.2, 0.6], [0.1, 0.2, 0.3]]), 2))
    assert rows == [[["angry", "technical"], 0.91, 0.2, 0.6], [[], 0.1, 0.2, 0.3]]
    assert len(TASK.prediction_columns) == len(TASK.prediction_types) == 4


def test_collapse_shows_in_the_share_of_the_most_predicted_set():
    labels, _ = random_rows(50)
    spread = TASK.spread(np.tile(np.array([0, 1, 0], np.int8), (50, 1)), labels)
    assert spread == {
        "predicted_classes": 1,
        "never_predicted_classes": 2,
        "most_predicted_share": 1.0,
        "labels_per_row": pytest.approx(labels.sum() / 50),
        "predicted_labels_per_row": 1.0,
    }


def test_agreement_is_the_f1_of_the_exported_sets_where_the_trained_ones_are_true():
    trained = np.array([[1, 1, 1], [1, 1, 1], [-1, -1, -1], [-1, -1, 1]], np.float32)
    exported = np.array([[1, 1, -1], [1, 1, 1], [-1, -1, -1], [1, -1, -1]], np.float32)
    agreement = TASK.agreement(trained, exported, trained, 0.0)
    assert agreement.tolist() == [pytest.approx(4 / 5), 1.0, 1.0, 0.0]

    expected = f1_score(trained > 0, exported > 0, average="samples", zero_division=1.0)
    assert agreement.mean() == pytest.approx(expected)
    assert TASK.agreement_metrics(trained, exported) == {
        "set_agreement": 0.5,
        "label_agreement": pytest.approx(9 / 12),
        "lowest_label_agreement": 0.5,
    }


def test_one_label_per_row_agrees_as_it_does_for_one_class():
    trained, exported = np.random.default_rng(3).normal(size=(2, 200, 3)).astype(np.float32)
    sets = [np.where(logits == logits.max(axis=1, keepdims=True), 1, -1) for logits in (trained, exported)]
    classes = Classification(TASK.names).agreement(trained, exported, trained, 0.0)
    assert 0.2 < classes.mean() < 0.5
    assert TASK.agreement(*sets, trained, 0.0).tolist() == classes.tolist()


def test_binary_averaging_is_refused():
    with pytest.raises(ParamsError, match=r"evaluate\.f1"):
        TASK.averaging("binary")
