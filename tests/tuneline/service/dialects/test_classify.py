import pytest

PAIR = ["the parcel", "never came"]


@pytest.mark.parametrize("path", ["/classify", "/v1/classify"])
def test_answer_is_that_of_vllm(pairs, path):
    answer = pairs.post(path, {"input": [PAIR, ["invoice", "wrong"]]})
    assert answer.status_code == 200
    content = answer.json()
    assert content["object"] == "list"
    assert content["version"] == pairs.service.model.current.version
    assert [row["index"] for row in content["data"]] == [0, 1]
    for row in content["data"]:
        names = list(pairs.service.model.current.task.class_names)
        assert row["num_classes"] == len(row["probs"]) == len(names)
        assert row["label"] == names[row["probs"].index(max(row["probs"]))]
    assert content["usage"]["prompt_tokens"] == content["usage"]["total_tokens"] > 0


def test_text_and_list_of_texts_are_rows_of_a_model_of_one_text(texts):
    one = texts.post("/classify", {"input": "the parcel"}).json()["data"]
    many = texts.post("/classify", {"input": ["the parcel", "invoice"]}).json()["data"]
    assert [one[0]["label"], one[0]["probs"]] == [many[0]["label"], pytest.approx(many[0]["probs"])]
    assert len(many) == 2


def test_list_of_texts_is_one_row_of_a_model_of_pairs(pairs):
    assert len(pairs.post("/classify", {"input": PAIR}).json()["data"]) == 1


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 400),
        ("x", 400),
        ({"input": []}, 400),
        ({"input": "one text"}, 422),
        ({"input": [PAIR, "one text"]}, 422),
        ({"input": [["", " "]]}, 422),
        ({"input": PAIR, "model": "another"}, 404),
    ],
)
def test_body_that_is_no_request_is_an_error(pairs, body, status):
    assert pairs.post("/classify", body).status_code == status


def test_named_model_is_this_one(pairs):
    assert pairs.post("/classify", {"input": PAIR, "model": "tuneline"}).status_code == 200
