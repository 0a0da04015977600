"""When the comparison of the exported models is of another model."""

import pytest
from ruamel.yaml import YAML

from tests.model_comparisons import FIGURES
from tuneline.core.repository.dvc import md5_of
from tuneline.core.stage.records import file_hash, write_record
from tuneline.onnx.comparison_records import ComparisonRecord, ModelComparison
from tuneline.page.verdict.facts import is_stale, read_comparison


def model():
    return ModelComparison(**FIGURES, violations=(), unclear=(), required=True, published=True)


def comparison(**models):
    return ComparisonRecord(
        split="test", rows=20, metric="accuracy", predictions="-", trained={"accuracy": 0.9}, models=models
    )


@pytest.fixture
def compared(tmp_path):
    """A folder with predictions, and the comparison with them."""
    predictions = tmp_path / "reports/predictions.parquet"
    predictions.parent.mkdir()
    predictions.write_bytes(b"those of this model")
    record = comparison(fp32=model()).model_copy(update={"predictions": file_hash(predictions)})
    (tmp_path / "reports/compare").mkdir()
    write_record(tmp_path / "reports/compare/comparison.json", record)
    return tmp_path


def test_comparison_is_that_of_the_present_predictions(compared):
    assert read_comparison(compared).rows == 20
    assert not is_stale(compared, read_comparison(compared))


def test_comparison_with_the_predictions_of_another_model_is_stale(compared):
    (compared / "reports/predictions.parquet").write_bytes(b"those of the next one")
    assert read_comparison(compared) is None
    assert is_stale(compared, read_comparison(compared))


def write_lock(folder, evaluated, compared):
    """Write a ``dvc.lock`` with the hash of the predictions that ``evaluate`` wrote, and of those that
    ``compare`` read."""
    path = "reports/predictions.parquet"
    evaluate = {"cmd": "python -m stages.evaluate", "outs": [{"path": path, "md5": evaluated}]}
    compare = {"cmd": "python -m stages.compare", "deps": [{"path": path, "md5": compared}]}
    with (folder / "dvc.lock").open("w") as file:
        YAML().dump({"schema": "2.0", "stages": {"evaluate": evaluate, "compare": compare}}, file)


def test_comparison_is_stale_where_dvc_lock_has_other_predictions(compared):
    """After ``git checkout`` without ``dvc checkout``: the metrics are of one commit, predictions and models
    of another."""
    present = md5_of(compared / "reports/predictions.parquet")
    write_lock(compared, present, present)
    assert read_comparison(compared) is not None
    write_lock(compared, "0" * 32, "0" * 32)
    assert read_comparison(compared) is None
