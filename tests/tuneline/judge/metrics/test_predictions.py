from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tuneline.core.runtime.errors import DataError
from tuneline.core.stage.tables import read_table
from tuneline.judge.metrics.predictions import (
    Predictions,
    read_baselines,
    read_predictions,
    write_baselines,
    write_predictions,
)
from tuneline.model.tasks import Classification, Multilabel, Regression

NAMES = ("a", "b", "c")
LOGITS = np.float32([[2, 1, 0], [0, 3, 1], [0, 1, 5], [1, 0, 0.5]])
CASES = [
    (Classification(NAMES), np.array([0, 1, 2, 1]), LOGITS),
    (
        Multilabel(NAMES, thresholds=(0.5, 0.9, 0.2)),
        np.int8([[1, 0, 0], [0, 1, 1], [0, 0, 0], [1, 1, 0]]),
        LOGITS,
    ),
    (Regression(), np.float32([1, 2, 3, 0.5]), LOGITS[:, :1]),
]
by_kind = pytest.mark.parametrize(("task", "labels", "logits"), CASES, ids=["classes", "sets", "numbers"])


@by_kind
def test_predictions_are_read_as_they_were_written(tmp_path, task, labels, logits):
    path = tmp_path / "predictions.parquet"
    clusters = np.int32([0, 1, 1, 2])
    write_predictions(path, Predictions.of_logits(labels, logits, task, clusters))

    predictions = read_predictions(path, rows=4)
    assert predictions.task == task
    assert np.array_equal(predictions.labels, labels)
    assert np.array_equal(predictions.values, task.predictions(logits))
    assert np.array_equal(predictions.clusters, clusters)
    assert predictions.logits.size == 0
    assert np.array_equal(read_predictions(path, rows=4, with_logits=True).logits, logits)


@by_kind
def test_rows_in_another_order_are_read_in_that_of_the_split(tmp_path, task, labels, logits):
    path = tmp_path / "predictions.parquet"
    write_predictions(path, Predictions.of_logits(labels, logits, task, np.int32([0, 1, 1, 2])))
    before = read_predictions(path, with_logits=True)
    pq.write_table(read_table(path).take(pa.array([2, 0, 3, 1])), path)
    after = read_predictions(path, with_logits=True)
    assert np.array_equal(after.logits, before.logits)
    assert np.array_equal(after.labels, before.labels)
    assert np.array_equal(after.clusters, before.clusters)


@pytest.mark.parametrize("rows", [[0, 0, 1, 2], [0, 1, 2], [1, 2, 3]])
def test_rows_that_are_missing_or_twice_there_are_refused(tmp_path, rows):
    path = tmp_path / "predictions.parquet"
    task, labels, logits = CASES[0]
    write_predictions(path, Predictions.of_logits(labels, logits, task))
    pq.write_table(read_table(path).take(pa.array(rows)), path)
    with pytest.raises(DataError, match="not have exactly one prediction for each of the 4 rows"):
        read_predictions(path, rows=4)


@pytest.mark.parametrize("damage", ["no table", "no logits", "no label names"])
def test_file_of_something_else_is_refused(tmp_path, damage):
    path = tmp_path / "predictions.parquet"
    task, labels, logits = CASES[0]
    write_predictions(path, Predictions.of_logits(labels, logits, task))
    if damage == "no table":
        path.write_bytes(b"no table")
    elif damage == "no logits":
        pq.write_table(read_table(path).drop_columns(["logits", "prediction"]), path)
    else:
        pq.write_table(read_table(path).replace_schema_metadata(None), path)
    with pytest.raises(DataError):
        read_predictions(path, with_logits=True)


@by_kind
def test_taken_rows_have_what_is_known_of_them(task, labels, logits):
    known = replace(Predictions.of_logits(labels, logits, task, np.arange(4)), ids=np.array(list("pqrs")))
    for rows in (np.array([1, 3]), np.arange(4) % 2 == 1):
        taken = known.take(rows)
        assert np.array_equal(taken.labels, labels[[1, 3]])
        assert np.array_equal(taken.values, task.predictions(logits[[1, 3]]))
        assert np.array_equal(taken.logits, logits[[1, 3]])
        assert (taken.clusters.tolist(), taken.ids.tolist()) == ([1, 3], ["q", "s"])
    assert Predictions(labels, labels, task).take(np.array([0])).logits.size == 0


def test_classes_in_another_order_are_translated_with_the_labels():
    predictions = Predictions(np.array([0, 1, 2]), np.array([2, 1, 0]), Classification(NAMES))
    translated = predictions.translated(Classification(("c", "a")))
    assert translated.labels.tolist() == [1, -1, 0]
    assert translated.values.tolist() == [0, -1, 1]
    assert translated.task.names == ("c", "a")


@by_kind
def test_baselines_are_read_by_name(tmp_path, task, labels, logits):
    path = tmp_path / "test.parquet"
    predicted = {"majority": np.zeros_like(labels), "tfidf": task.predictions(logits)}
    halves = [{name: values[:2] for name, values in predicted.items()}]
    halves.append({name: values[2:] for name, values in predicted.items()})
    write_baselines(path, task, ["tfidf", "majority"], halves)
    assert read_table(path).column_names == ["tfidf", "majority"]
    baselines = read_baselines(path, 4, task)
    for name, values in predicted.items():
        assert np.array_equal(baselines[name], values)
    with pytest.raises(DataError, match="has 4 rows, and the reported split has 5"):
        read_baselines(path, 5, task)
