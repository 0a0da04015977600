import json

import pytest

from tuneline.files import write_json, write_metrics


def test_metrics_are_rounded_and_counts_stay_whole(tmp_path):
    path = tmp_path / "metrics" / "evaluate.json"
    write_metrics(path, {"rows": 408, "accuracy": 2 / 3})
    assert path.read_text() == '{\n  "rows": 408,\n  "accuracy": 0.666667\n}\n'


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_metric_that_is_no_number_is_refused_by_name(tmp_path, value):
    with pytest.raises(ValueError, match="'loss' is"):
        write_metrics(tmp_path / "train.json", {"loss": value})
    assert not list(tmp_path.iterdir())


def test_json_never_holds_nan(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "x.json", {"deep": [float("nan")]})


def test_text_stays_readable(tmp_path):
    write_json(tmp_path / "x.json", {"name": "Zürich"})
    assert "Zürich" in (tmp_path / "x.json").read_text(encoding="utf-8")
    assert json.loads((tmp_path / "x.json").read_text(encoding="utf-8")) == {"name": "Zürich"}
