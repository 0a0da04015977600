import json

import onnx
import pytest

from stages.export.record import embed, label_names, use_record
from tuneline.errors import DataError


def write_classifier(folder, **config):
    (folder / "config.json").write_text(json.dumps({"model_type": "bert", "id2label": {"0": "no", "1": "yes"}, **config}))
    (folder / "tokenizer.json").write_text("{}")
    (folder / "tokenizer_config.json").write_text('{"truncation_side": "left"}')


def test_class_names_come_in_the_order_of_their_ids():
    """JSON keys are text: sorted as such, 10 would come before 2."""
    names = [f"class {position}" for position in range(12)]
    assert label_names({"id2label": {str(position): names[position] for position in sorted(range(12), key=str)}}) == names


def test_a_model_without_class_names_is_refused():
    with pytest.raises(DataError, match="no id2label"):
        label_names({})


def test_a_classifier_is_recorded_with_its_classes(tmp_path):
    write_classifier(tmp_path, pad_token_id=3)
    record = use_record(tmp_path, ["subject", "body"], 64)
    assert (record["task"], record["labels"], record["pad_token_id"], record["max_length"]) == ("classification", ["no", "yes"], 3, 64)
    assert record["text_columns"] == ["subject", "body"]
    assert record["tokenizer"]["truncation_side"] == "left"


def test_a_regression_has_no_classes(tmp_path):
    write_classifier(tmp_path, problem_type="regression", id2label={"0": "LABEL_0"}, pad_token_id=None)
    record = use_record(tmp_path, ["text"], 64)
    assert (record["task"], record["labels"], record["pad_token_id"]) == ("regression", None, 0)


def test_the_record_travels_inside_the_model():
    model = onnx.ModelProto()
    model.metadata_props.add(key="left", value="over")
    embed(model, {"task": "classification", "labels": ["ja", "nö"], "max_length": 64})
    held = {entry.key: entry.value for entry in model.metadata_props}
    assert held == {"task": "classification", "labels": '["ja", "nö"]', "max_length": "64"}
