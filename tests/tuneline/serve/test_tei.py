"""The paths of text-embeddings-inference, also by Hugging Face's own client."""

import pytest
from huggingface_hub import InferenceClient, constants
from huggingface_hub.errors import HfHubHTTPError

from tests.exported_pipeline import published_pipeline
from tests.service import running_service
from tuneline import TextClassifier

PAIR = ["the parcel", "never came"]


def test_answer_is_sorted_and_has_the_probabilities_of_the_program(pairs, pair_folder):
    answer = pairs.post("/predict", {"inputs": PAIR})
    assert answer.status_code == 200
    scores = TextClassifier.load(pair_folder, threads=1).predict_one(tuple(PAIR)).scores
    expected = sorted(scores.items(), key=lambda item: -item[1])
    assert [(item["label"], item["score"]) for item in answer.json()] == expected


def test_batch_is_a_list_of_lists(pairs):
    answer = pairs.post("/predict", {"inputs": [PAIR, ["invoice", "wrong"]]}).json()
    assert [type(row) for row in answer] == [list, list]
    assert answer[0] == pairs.post("/predict", {"inputs": PAIR}).json()


def test_raw_scores_are_the_outputs_of_the_model(pairs, pair_folder):
    model = TextClassifier.load(pair_folder, threads=1)
    answer = pairs.post("/predict", {"inputs": PAIR, "raw_scores": True}).json()
    logits = model.logits(model.encode([tuple(PAIR)]), 1)[0]
    assert sorted(item["score"] for item in answer) == pytest.approx(sorted(logits.tolist()))


def test_model_of_one_text_takes_a_text_a_batch_and_no_pair(texts):
    one = texts.post("/predict", {"inputs": "the parcel never came"})
    assert texts.post("/predict", {"inputs": ["the parcel never came"]}).json() == one.json()
    assert texts.post("/predict", {"inputs": [["the parcel never came"]]}).json() == [one.json()]
    refused = texts.post("/predict", {"inputs": ["the parcel never came", "invoice"]})
    assert refused.status_code == 422
    assert '{"inputs": [["a text"], ["a text"]]}' in refused.json()["error"]


def test_truncation_is_that_of_training_unless_it_is_forbidden(pairs):
    long = ["parcel " * 600, "came"]
    assert pairs.post("/predict", {"inputs": long}).status_code == 200
    assert pairs.post("/predict", {"inputs": long, "truncate": True}).status_code == 200
    forbidden = pairs.post("/predict", {"inputs": [PAIR, long], "truncate": False})
    assert forbidden.status_code == 413
    assert forbidden.json()["error"].startswith("row 1: longer than")
    assert pairs.post("/predict", {"inputs": long, "truncation_direction": "Right"}).status_code == 200
    refused = pairs.post("/predict", {"inputs": long, "truncation_direction": "Left"})
    assert refused.status_code == 422
    assert "truncated right" in refused.json()["error"]


@pytest.mark.parametrize(
    ("body", "status", "kind"),
    [
        ({}, 400, "Validation"),
        ({"inputs": PAIR, "truncate": "yes"}, 400, "Validation"),
        ({"inputs": PAIR, "top_k": 1}, 400, "Validation"),
        ({"inputs": PAIR, "return_all_scores": False}, 400, "Validation"),
        ({"inputs": PAIR, "parameters": {"function_to_apply": "none"}}, 400, "Validation"),
        ({"inputs": PAIR, "parameters": ["top_k"]}, 400, "Validation"),
        ({"inputs": [PAIR, ["one"]]}, 422, "Tokenizer"),
        ({"inputs": [PAIR, ["a", 7]]}, 422, "Tokenizer"),
        ({"inputs": [PAIR, [" ", ""]]}, 422, "Tokenizer"),
        ({"inputs": [PAIR, {"subject": "a"}]}, 422, "Tokenizer"),
        ({"inputs": [PAIR] * 1025}, 413, "Validation"),
    ],
)
def test_body_that_is_no_request_is_an_error_as_text_embeddings_inference_has_it(pairs, body, status, kind):
    answer = pairs.post("/predict", body)
    assert (answer.status_code, answer.json()["error_type"]) == (status, kind)


def test_regression_has_one_output(tmp_path_factory):
    folder = published_pipeline(tmp_path_factory, "regression") / "models/onnx"
    expected = TextClassifier.load(folder, threads=1).predict_one(tuple(PAIR)).number
    with running_service(folder) as service:
        assert service.post("/predict", {"inputs": PAIR}).json() == [{"score": expected, "label": "LABEL_0"}]


def test_client_of_hugging_face_gets_all_classes(pairs, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)  # it takes any address for the hub
    expected = pairs.post("/predict", {"inputs": PAIR}).json()
    client = InferenceClient(model=pairs.address)
    answer = client.text_classification(PAIR)
    assert [(item.label, item.score) for item in answer] == [(row["label"], row["score"]) for row in expected]
    with pytest.raises(HfHubHTTPError, match="top_k is not done here"):
        client.text_classification(PAIR, top_k=1)
