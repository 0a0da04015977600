import pytest

from tuneline.core.stage.records import Metrics, write_record


def test_metrics_round_floats_and_keep_integers(tmp_path):
    path = tmp_path / "metrics" / "evaluate.json"
    write_record(path, Metrics.of({"rows": 408, "accuracy": 2 / 3}))
    assert path.read_text() == '{\n  "rows": 408,\n  "accuracy": 0.666667\n}\n'
    assert Metrics.read(path).values == {"rows": 408, "accuracy": 0.666667}


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_nan_and_infinity_are_refused_by_name(value):
    with pytest.raises(ValueError, match=r"loss\n.*finite number"):
        Metrics.of({"loss": value})
