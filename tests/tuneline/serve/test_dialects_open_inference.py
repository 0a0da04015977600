"""The Open Inference Protocol."""

import pytest

from tests.exported_pipeline import published_pipeline
from tests.service import running_service

INFER = "/v2/models/tuneline/infer"
SUBJECTS = ["the parcel", "Rechnung ü"]
BODIES = ["never came", "wrong"]


def tensor(name, values, **more):
    return {"name": name, "shape": [len(values)], "datatype": "BYTES", "data": values, **more}


def request(*tensors, **more):
    return {"inputs": list(tensors or (tensor("subject", SUBJECTS), tensor("body", BODIES))), **more}


def test_answer_has_the_names_of_the_labels_and_the_numbers_of_the_other_dialect(pairs):
    answer = pairs.post(INFER, request(id="17"))
    assert answer.status_code == 200
    assert answer.json()["id"] == "17"
    assert answer.json()["model_version"] == pairs.service.model.current.version
    found = {output["name"]: output for output in answer.json()["outputs"]}
    names = found["scores"]["parameters"]["labels"]
    assert found["scores"]["shape"] == [2, len(names)]
    rows = [list(row) for row in zip(SUBJECTS, BODIES, strict=True)]
    rows = pairs.post("/predict", {"inputs": rows}).json()
    assert found["label"]["data"] == [row[0]["label"] for row in rows]
    assert found["probability"]["data"] == [row[0]["score"] for row in rows]
    scores = found["scores"]["data"][: len(names)]
    assert dict(zip(names, scores, strict=True)) == {item["label"]: item["score"] for item in rows[0]}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 400),
        ({"inputs": ["x"]}, 400),
        (request(id=7), 400),
        (request(parameters={"top_k": 1}), 400),
        (request(parameters=["top_k"]), 400),
        (request(outputs=[{"name": "label"}]), 400),
        (
            request(
                tensor("subject", SUBJECTS, parameters={"content_type": "base64"}), tensor("body", BODIES)
            ),
            400,
        ),
        (request(tensor("subject", SUBJECTS)), 422),
        (request(tensor("subject", SUBJECTS), tensor("body", BODIES[:1])), 422),
        (request(tensor("subject", SUBJECTS, shape=[3]), tensor("body", BODIES)), 422),
        (request(tensor("subject", [1, 2]), tensor("body", BODIES)), 422),
        (request(tensor("subject", SUBJECTS, datatype="FP32"), tensor("body", BODIES)), 422),
    ],
)
def test_body_that_is_no_request_is_an_error(pairs, body, status):
    assert pairs.post(INFER, body).status_code == status


def test_parameters_that_ask_for_what_is_done_anyway_are_accepted(pairs):
    body = request(parameters={"content_type": "str", "binary_data_output": False})
    assert pairs.post(INFER, body).status_code == 200


def test_metadata_and_health(pairs):
    assert pairs.client.get("/v2").json()["name"] == "tuneline"
    assert pairs.client.get("/v2/health/live").status_code == 200
    assert pairs.client.get("/v2/health/ready").status_code == 200
    metadata = pairs.client.get("/v2/models/tuneline").json()
    assert [each["name"] for each in metadata["inputs"]] == ["subject", "body"]
    assert metadata["versions"] == [pairs.service.model.current.version]
    assert pairs.client.get("/v2/models/tuneline/ready").json()["ready"] is True


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_metadata_name_each_output_of_an_answer(tmp_path_factory, task):
    folder = published_pipeline(tmp_path_factory, task) / "models/onnx"
    with running_service(folder) as service:
        metadata = service.client.get("/v2/models/tuneline").json()
        answer = service.post(INFER, request()).json()
    described = {output["name"]: output for output in metadata["outputs"]}
    assert list(described) == [output["name"] for output in answer["outputs"]]
    for output in answer["outputs"]:
        assert output["datatype"] == described[output["name"]]["datatype"]
        assert output["shape"][1:] == described[output["name"]]["shape"][1:]
    if task == "regression":
        assert described["interval"]["shape"] == [-1, 2]
