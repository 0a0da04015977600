import json

import pytest

from tuneline.onnx.candidates import POOLED_KEY, write_configuration


@pytest.mark.parametrize(
    ("config", "architectures"),
    [
        ({"architectures": ["BertForSequenceClassification"]}, ["BertForSequenceClassification"]),
        ({"architectures": ["BertModel"], POOLED_KEY: "x"}, ["BertForSequenceClassification"]),
    ],
    ids=["trained", "frozen"],
)
def test_other_servers_read_a_classifier_of_so_many_tokens(tmp_path, config, architectures):
    (tmp_path / "config.json").write_text(json.dumps(config))
    folder = tmp_path / "onnx"
    folder.mkdir()
    write_configuration(tmp_path, folder, 64)
    assert json.loads((folder / "config.json").read_text())["architectures"] == architectures
    assert json.loads((folder / "sentence_bert_config.json").read_text())["max_seq_length"] == 64
