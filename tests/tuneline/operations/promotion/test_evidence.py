import pyarrow.parquet as pq
import pytest

from tests.shards import into_shards
from tuneline.core.repository.registry import Version
from tuneline.model.tasks import Classification
from tuneline.operations.promotion.evidence import paired_predictions, validation_predictions

NAMES = Classification(("billing", "parcel", "login", "other"))


def accuracy(labels, predicted) -> float:
    return float((labels == predicted).mean())


def test_predictions_without_a_model_in_production(toy, pipeline, make):
    make()
    found = paired_predictions(pipeline, toy.root, None)
    assert found.production is None
    assert found.candidate.task == NAMES
    assert accuracy(found.candidate.labels, found.candidate.values) == pytest.approx(0.825)


def test_predictions_for_equal_rows_are_those_of_productions_run(toy, pipeline, make):
    production = Version("v0.1.0", make())
    make("task=strong")
    found = paired_predictions(pipeline, toy.root, production)
    assert accuracy(found.candidate.labels, found.production) == pytest.approx(0.825)
    assert accuracy(found.candidate.labels, found.candidate.values) > 0.9


def test_predictions_for_other_rows_come_from_productions_model(toy, pipeline, make):
    production = Version("v0.1.0", make())
    make("seed=7")
    into_shards(toy.root / "data/raw", rows=400)
    found = paired_predictions(pipeline, toy.root, production)
    # The same words are known, so both models are right about the same rows: production really saw the new
    # ones.
    assert found.production.tolist() == found.candidate.values.tolist()
    assert len(found.candidate) == 600


def test_predictions_report_why_production_cannot_be_compared(toy, pipeline, make):
    production = Version("v0.1.0", make())
    make("seed=7")
    path = toy.root / "data" / "raw" / "test.parquet"
    renamed = pq.read_table(path).rename_columns(["body", "labels", "idx"])
    path.unlink()
    pq.write_table(renamed, path)
    found = paired_predictions(pipeline, toy.root, production)
    assert found.production is None
    assert "no column 'text'" in found.incomparable


def test_validation_predictions_for_equal_rows_are_those_of_productions_run(toy, pipeline, make):
    production = Version("v0.1.0", make())
    make("task=strong")
    found = validation_predictions(pipeline, toy.root, production)
    assert (
        accuracy(found.candidate.labels, found.candidate.values)
        > accuracy(found.candidate.labels, found.production) + 0.05
    )
    validation = pq.read_table(toy.root / "data/raw/validation.parquet")
    assert found.candidate.labels.tolist() == validation["labels"].to_pylist()


def test_validation_says_nothing_where_it_is_the_reported_split_or_was_not_predicted(toy, pipeline, make):
    production = Version("v0.1.0", make())
    make("evaluate.split=validation")
    assert validation_predictions(pipeline, toy.root, production) is None
    make("task=strong")
    (toy.root / "reports/validation.parquet").unlink()
    assert validation_predictions(pipeline, toy.root, production) is None
