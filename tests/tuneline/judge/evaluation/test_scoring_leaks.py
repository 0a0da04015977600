import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tuneline.core.runtime.errors import DataError
from tuneline.judge.evaluation.scoring import leak_metrics, leaked_rows
from tuneline.judge.metrics.predictions import Predictions
from tuneline.judge.metrics.scores import compute_metric
from tuneline.judge.metrics.table import METRIC_TABLE, primary_metric
from tuneline.model.tasks import Classification, Regression

NO_YES = Classification(("no", "yes"))


def write(folder, check: str, *rows: tuple[str, int, str]) -> None:
    names = ("split", "row", "other_split")
    pq.write_table(
        pa.table(dict(zip(names, zip(*rows, strict=True), strict=True))), folder / f"{check}.parquet"
    )


def test_leaked_rows_are_those_with_a_row_of_another_split(tmp_path):
    write(tmp_path, "leakage", ("validation", 1, "train"), ("test", 2, "train"))
    write(
        tmp_path,
        "near_duplicates",
        ("train", 0, "train"),
        ("test", 0, "test"),
        ("test", 2, "train"),
        ("test", 4, "validation"),
    )
    write(tmp_path, "duplicates", ("test", 3, "test"))
    assert np.flatnonzero(leaked_rows(tmp_path, "test", 5)).tolist() == [2, 4]
    assert np.flatnonzero(leaked_rows(tmp_path, "validation", 5)).tolist() == [1]
    assert not leaked_rows(tmp_path / "none", "test", 5).any()
    with pytest.raises(DataError, match=r"near_duplicates\.parquet"):
        leaked_rows(tmp_path, "test", 4)


@pytest.mark.parametrize("schema", [NO_YES, Regression()], ids=["classes", "numbers"])
def test_primary_metric_is_computed_without_leaked_rows(schema):
    generator, leaked = np.random.default_rng(0), np.arange(200) < 60
    labels = (
        generator.normal(size=200).astype(np.float32)
        if not schema.has_classes
        else generator.integers(0, 2, 200)
    )
    predictions = np.where(leaked, labels, generator.permutation(labels))
    deciding = primary_metric(schema.kind)
    metrics = leak_metrics(Predictions(labels, predictions, schema), leaked, {}, deciding, 0)
    name = deciding.name
    without = compute_metric(METRIC_TABLE[name], labels[~leaked], predictions[~leaked])
    assert metrics["leaked_rows"] == 60
    assert metrics[f"{name}_without_leaks"] == pytest.approx(without)
    assert metrics[f"{name}_without_leaks_low"] < without < metrics[f"{name}_without_leaks_high"]
