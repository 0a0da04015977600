"""The Open Inference Protocol, also in the binary form that Triton's client sends."""

import json
import struct

import pytest

NAME = "tuneline"
SUBJECTS = ["the parcel", "Rechnung ü"]
BODIES = ["never came", "wrong"]


def tensor(name, values, **more):
    return {"name": name, "shape": [len(values)], "datatype": "BYTES", "data": values, **more}


def request(subjects=SUBJECTS, bodies=BODIES, **more):
    return {"inputs": [tensor("subject", subjects), tensor("body", bodies)], **more}


def outputs(answer):
    return {output["name"]: output for output in answer.json()["outputs"]}


def test_answer_has_the_names_of_the_labels(pairs):
    answer = pairs.post(f"/v2/models/{NAME}/infer", request(id="17"))
    assert answer.status_code == 200
    assert answer.json()["id"] == "17"
    assert answer.json()["model_version"] == pairs.service.model.current.version
    found = outputs(answer)
    names = found["scores"]["parameters"]["labels"]
    assert found["scores"]["shape"] == [2, len(names)]
    for row in range(2):
        scores = found["scores"]["data"][row * len(names) : (row + 1) * len(names)]
        assert found["label"]["data"][row] == names[scores.index(max(scores))]
        assert found["probability"]["data"][row] == max(scores)


def test_answers_are_those_of_the_other_dialects(pairs):
    found = outputs(pairs.post(f"/v2/models/{NAME}/infer", request()))
    rows = pairs.post(
        "/predict", {"inputs": [list(row) for row in zip(SUBJECTS, BODIES, strict=True)]}
    ).json()
    assert found["label"]["data"] == [row[0]["label"] for row in rows]
    assert found["probability"]["data"] == [row[0]["score"] for row in rows]


def test_binary_texts_are_read_as_tritons_client_sends_them(pairs):
    def binary(values):
        return b"".join(struct.pack("<I", len(value.encode())) + value.encode() for value in values)

    parts = [binary(SUBJECTS), binary(BODIES)]
    inputs = []
    for name, part in zip(("subject", "body"), parts, strict=True):
        parameters = {"binary_data_size": len(part)}
        inputs.append({"name": name, "shape": [2], "datatype": "BYTES", "parameters": parameters})
    head = json.dumps({"inputs": inputs}).encode()
    headers = {"Inference-Header-Content-Length": str(len(head))}
    content = head + b"".join(parts)
    answer = pairs.client.post(f"/v2/models/{NAME}/infer", content=content, headers=headers)
    assert answer.status_code == 200
    assert outputs(answer) == outputs(pairs.post(f"/v2/models/{NAME}/infer", request()))

    for broken in (content[:-1], content[:-9], head + b"\x07"):
        refused = pairs.client.post(f"/v2/models/{NAME}/infer", content=broken, headers=headers)
        assert refused.status_code in {400, 422}


def test_only_input_of_a_model_of_one_text_may_have_any_name(texts):
    body = {"inputs": [tensor("text", ["the parcel never came"])]}
    assert texts.post(f"/v2/models/{NAME}/infer", body).status_code == 200


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 400),
        ({"inputs": "x"}, 400),
        ({"inputs": ["x"]}, 400),
        ({"inputs": []}, 422),
        ({"inputs": [tensor("subject", SUBJECTS)]}, 422),
        ({"inputs": [tensor("subject", SUBJECTS), tensor("other", BODIES)]}, 422),
        ({"inputs": [tensor("subject", SUBJECTS), tensor("body", BODIES[:1])]}, 422),
        ({"inputs": [tensor("subject", SUBJECTS, shape=[3]), tensor("body", BODIES)]}, 422),
        ({"inputs": [tensor("subject", SUBJECTS, shape="x"), tensor("body", BODIES)]}, 400),
        ({"inputs": [tensor("subject", SUBJECTS, data="x"), tensor("body", BODIES)]}, 400),
        ({"inputs": [tensor("subject", [1, 2]), tensor("body", BODIES)]}, 422),
        ({"inputs": [tensor("subject", SUBJECTS, datatype="FP32"), tensor("body", BODIES)]}, 422),
        ({"inputs": [tensor("subject", [], shape=[0]), tensor("body", [], shape=[0])]}, 400),
        (
            {
                "inputs": [
                    tensor("subject", ["a"], parameters={"binary_data_size": -1}),
                    tensor("body", ["b"]),
                ]
            },
            400,
        ),
    ],
)
def test_body_that_is_no_request_is_an_error(pairs, body, status):
    assert pairs.post(f"/v2/models/{NAME}/infer", body).status_code == status


def test_metadata_and_health(pairs):
    version = pairs.service.model.current.version
    assert pairs.client.get("/v2").json()["name"] == "tuneline"
    assert pairs.client.get("/v2/health/live").status_code == 200
    assert pairs.client.get("/v2/health/ready").status_code == 200
    metadata = pairs.client.get(f"/v2/models/{NAME}").json()
    assert [each["name"] for each in metadata["inputs"]] == ["subject", "body"]
    assert metadata["versions"] == [version]
    for path in (f"/v2/models/{NAME}/ready", f"/v2/models/{NAME}/versions/{version}/ready"):
        assert pairs.client.get(path).json()["ready"] is True


def test_other_model_or_version_is_not_found(pairs):
    for path in ("/v2/models/other", f"/v2/models/{NAME}/versions/7", f"/v2/models/{NAME}/versions/7/ready"):
        assert pairs.client.get(path).status_code == 404
    assert pairs.post("/v2/models/other/infer", request()).status_code == 404
