import pytest

from tuneline.core.records import Metrics
from tuneline.core.written_records import write_record
from tuneline.runtime.errors import DataError


def test_metrics_round_floats_and_keep_integers(tmp_path):
    path = tmp_path / "metrics" / "evaluate.json"
    write_record(path, Metrics.of({"rows": 408, "accuracy": 2 / 3}))
    assert path.read_text() == '{\n  "rows": 408,\n  "accuracy": 0.666667\n}\n'
    assert Metrics.read(path).values == {"rows": 408, "accuracy": 0.666667}


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_nan_and_infinity_are_refused_by_name(value):
    with pytest.raises(ValueError, match=r"loss\n.*finite number"):
        Metrics.of({"loss": value})


def test_metrics_may_have_the_names_of_methods():
    values = {"values": 1, "copy": 2.5, "model_config": 3}
    assert Metrics.of(values).values == values


@pytest.mark.parametrize(
    "content", ['{"loss": NaN}', '{"loss": "0.5"}', '{"loss": {"train": 0.5}}', "[0.5]", "{"]
)
def test_invalid_metrics_are_refused_with_the_stage_that_writes_them(tmp_path, content):
    (tmp_path / "train.json").write_text(content)
    with pytest.raises(DataError, match="dvc repro -f train"):
        Metrics.read(tmp_path / "train.json")
    assert Metrics.read_values(tmp_path / "train.json") == {}
