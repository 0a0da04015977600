"""Sets of labels: how they are stored, predicted, trained and judged."""

import numpy as np
import pyarrow as pa
import pytest

from tests.tuneline.model.tasks.label_sets import random_rows
from tuneline.judge.metrics.scores import prediction_metrics
from tuneline.model.tasks import Multilabel
from tuneline.model.tasks.columns import (
    array_of,
    column_of,
    encoded_predictions,
    parsed_labels,
    raw_schema,
    read_task,
    stored_labels,
)
from tuneline.serve.columns import cell_text

TASK = Multilabel(("angry", "billing", "technical"))
NAMES = pa.list_(pa.string())


def test_rows_that_rightly_get_no_label_are_right():
    nothing = np.zeros((5, 3), np.int8)
    scores = prediction_metrics("multilabel", nothing, nothing, "macro")
    assert scores == {
        "macro_f1": 1.0,
        "micro_f1": 1.0,
        "subset_accuracy": 1.0,
    }


def test_sets_are_columns_of_ids_and_arrays_of_0_and_1():
    labels = np.array([[1, 0, 1], [0, 0, 0], [-1, -1, -1]], np.int8)
    column = column_of(TASK, labels)
    assert column.to_pylist() == [[0, 2], [], [-1]]
    assert np.array_equal(array_of(TASK, column), labels)
    assert np.array_equal(
        array_of(TASK, pa.chunked_array([column, column])), np.concatenate([labels, labels])
    )
    assert array_of(TASK, column_of(TASK, labels[:0])).shape == (0, 3)
    assert TASK.unlabelled(labels).tolist() == [False, False, True]


def test_names_of_a_source_become_ids_in_their_order_and_an_unknown_one_is_missing():
    written = pa.array([["technical", "angry"], [], None, ["angry", "new"]], NAMES)
    assert stored_labels(TASK, written, TASK.names).to_pylist() == [[0, 2], [], None, [-1]]


def test_table_tells_the_task_its_names_and_its_thresholds():
    task = TASK.with_decisions(
        {"thresholds": {"angry": 0.1, "billing": 0.2, "technical": 0.3}, "at_least_one": True}
    )
    restored = read_task(raw_schema(["text"], task))
    assert restored == TASK
    assert restored.thresholds == (0.1, 0.2, 0.3)
    assert restored.at_least_one
    assert read_task(raw_schema(["text"], TASK)).thresholds == ()


def test_row_has_the_labels_above_their_thresholds():
    task = Multilabel(TASK.names, (0.9, 0.5, 0.1))
    logits = np.zeros((1, 3), np.float32)  # a probability of 0.5 each
    assert task.predictions(logits).tolist() == [[0, 0, 1]]
    assert TASK.predictions(logits).tolist() == [[0, 0, 0]]


def test_text_of_a_set_has_its_names_in_their_order_and_reads_back():
    assert TASK.text(TASK.parse(" technical;angry;; ")) == "angry;technical"
    assert TASK.text(TASK.value([1, 0, 1])) == "angry;technical"
    assert TASK.text(TASK.value([0, 0, 0])) == "(none)"
    texts = pa.chunked_array([["technical;angry", "", "angry;unknown", None]])
    assert parsed_labels(TASK, texts).tolist() == [[1, 0, 1], [0, 0, 0], [-2, -2, -2], [0, 0, 0]]


@pytest.mark.parametrize(
    "text", ["technical, angry", "technical|angry", "angry;technical", "angry\ttechnical"]
)
def test_people_may_join_labels_by_any_separator(text):
    assert TASK.parse(text) == ["angry", "technical"]
    assert Multilabel(("wet, cold", "dry")).parse("dry;wet, cold") == ["wet, cold", "dry"], "part of a name"


def test_sets_of_another_model_are_translated_by_name():
    other = Multilabel(("technical", "angry", "refund"))
    labels = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]], np.int8)
    assert TASK.translated(labels, other).tolist() == [[0, 0, 1], [1, 0, 0], [-1, -1, -1], [0, 0, 0]]


def test_predictions_in_a_file_read_back_as_lists_and_as_text():
    labels, _ = random_rows(20)
    lists = [TASK.value(row) for row in labels.tolist()]
    texts = pa.array([cell_text(TASK, names) for names in lists], pa.string())
    assert np.array_equal(encoded_predictions(TASK, pa.chunked_array([pa.array(lists, NAMES)])), labels)
    assert np.array_equal(encoded_predictions(TASK, pa.chunked_array([texts])), labels)
