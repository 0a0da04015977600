"""Requests from end to end, over a socket."""

import gzip
import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict

import numpy as np
import pytest

from tests.exported_pipeline import published_pipeline
from tests.service import running_service
from tests.small_pipeline import WORDS
from tuneline import TextClassifier
from tuneline.serve.occlusion import word_effects
from tuneline.serve.requests import ServiceLimits

PAIR = ["the parcel", "is late again, my refund was fine"]


def test_many_clients_get_their_own_answers(pairs):
    rows = [[f"{word} parcel", "came"] for word in ("the", "no", "late", "wrong", "my", "a", "one", "two")]
    expected = [pairs.post("/predict", {"inputs": row}).json() for row in rows]
    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(lambda row: pairs.post("/predict", {"inputs": row}).json(), rows * 12))
    for answer, wanted in zip(answers, expected * 12, strict=True):
        assert [item["label"] for item in answer] == [item["label"] for item in wanted]
        scores = [item["score"] for item in wanted]
        assert [item["score"] for item in answer] == pytest.approx(scores, abs=1e-6)


def test_predictions_have_everything_that_a_program_gets(pairs, pair_folder):
    model = TextClassifier.load(pair_folder, threads=1)
    rows = [PAIR, {"subject": "refund", "body": "fine", "more": 1}, ["the", " ".join(WORDS * 3)]]
    answer = pairs.post("/v1/predictions", {"rows": rows})
    assert answer.headers["tuneline-version"] == answer.json()["version"] == model.version
    expected = model.predict([tuple(PAIR), ("refund", "fine"), tuple(rows[2])])
    for got, prediction in zip(answer.json()["predictions"], expected, strict=True):
        wanted = asdict(prediction)
        scores = got.pop("scores")
        assert list(scores) == list(wanted["scores"])
        np.testing.assert_allclose(list(scores.values()), list(wanted.pop("scores").values()), atol=1e-6)
        assert got.pop("probability") == pytest.approx(wanted.pop("probability"), abs=1e-6)
        assert got == wanted
    assert [row["truncated"] for row in answer.json()["predictions"]] == [False, False, True]


@pytest.mark.parametrize("kind", ["classification", "regression"])
def test_effects_of_words_are_those_that_programs_get(tmp_path_factory, kind):
    folder = published_pipeline(tmp_path_factory, kind) / "models/onnx"
    model = TextClassifier.load(folder, threads=1)
    effects = word_effects(model, PAIR)
    with running_service(folder) as service:
        answer = service.post("/v1/why", {"row": PAIR}).json()
    assert answer["prediction"]["label"] == model.predict_one(tuple(PAIR)).label
    for got, effect in zip(answer["effects"], effects, strict=True):
        assert (got["column"], got["start"], got["label"]) == (effect.column, effect.start, effect.label)
        assert got["effect"] == pytest.approx(effect.effect, abs=2e-6)


@pytest.mark.parametrize(
    ("path", "body", "status", "named"),
    [
        ("/v1/predictions", {"row": PAIR}, 400, '"rows"'),
        ("/v1/predictions", {"rows": "late"}, 400, '"rows"'),
        ("/v1/predictions", {"rows": [PAIR, ["late"]]}, 422, "row 1"),
        ("/v1/predictions", {"rows": [PAIR], "use_activation": False}, 400, "use_activation"),
        ("/v1/predictions?top_k=1", {"rows": [PAIR]}, 400, "question mark"),
        ("/v1/predictions/", {"rows": [PAIR]}, 404, "Not Found"),
        ("/v1/why", {"rows": [PAIR]}, 400, '"row"'),
        ("/v1/why", {"row": PAIR, "truncate_prompt_tokens": 8}, 400, "truncate_prompt_tokens"),
        ("/v1/why", {"row": ["  ", "\n"]}, 422, "row 0"),
        ("/v1/why", {"row": ["late", "x" * 10_000]}, 413, "10,004"),
    ],
)
def test_body_that_is_no_request_is_refused(pairs, path, body, status, named):
    answer = pairs.post(path, body)
    assert answer.status_code == status
    assert named in answer.json()["error"]


def test_metrics_count_rows_and_have_no_text(pairs):
    def count():
        lines = pairs.client.get("/metrics").text.splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith("tuneline_predictions_total"))

    before = count()
    pairs.post("/predict", {"inputs": [["unmistakable parcel", "came"]] * 3})
    assert count() == before + 3
    page = pairs.client.get("/metrics").text
    assert "unmistakable" not in page
    assert f'tuneline_model{{version="{pairs.service.model.current.version}"}} 1.0' in page


def test_client_that_does_not_finish_its_body_is_answered_and_left(pair_folder):
    with running_service(pair_folder, limits=ServiceLimits(body_seconds=0.2)) as service:
        host, port = service.address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as slow:
            head = f"POST /predict HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
            slow.sendall(f"{head}Content-Length: 100\r\n\r\n{{".encode())
            slow.settimeout(20)
            assert slow.recv(1000).startswith(b"HTTP/1.1 408")


def test_large_bodies_and_rows_are_refused(pair_folder):
    limits = ServiceLimits(body_bytes=1000, row_characters=500)
    with running_service(pair_folder, limits=limits) as service:
        assert service.post("/predict", {"inputs": ["x" * 1000, "y"]}).status_code == 413
        chunks = (b"x" * 600 for _ in range(3))
        headers = {"content-type": "application/json"}
        assert service.client.post("/predict", content=chunks, headers=headers).status_code == 413
        refused = service.post("/predict", {"inputs": [PAIR, ["x" * 499, "yy"]]})
        assert (refused.status_code, refused.json()["error"][:5]) == (413, "row 1")
        assert service.post("/predict", {"inputs": PAIR}).status_code == 200


def test_bodies_of_all_requests_have_a_limit(pair_folder):
    with running_service(pair_folder, limits=ServiceLimits(waiting_bytes=1500)) as service:
        head = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1001\r\n\r\n"
        clients = []
        for _ in range(2):
            clients.append(socket.create_connection(("127.0.0.1", int(service.address.rpartition(":")[2]))))
            clients[-1].sendall(head + b"[" * 1000)
        clients[1].settimeout(20)
        assert clients[1].recv(100).startswith(b"HTTP/1.1 429")
        for client in clients:
            client.close()
        assert service.post("/predict", {"inputs": PAIR}).status_code == 200


def test_fault_of_the_service_is_in_the_log_with_the_address_of_its_client(pairs, monkeypatch, caplog):
    def predictions(*_):
        raise RuntimeError("a fault")

    monkeypatch.setattr(TextClassifier, "predictions", predictions)
    assert pairs.post("/predict", {"inputs": PAIR}).status_code == 500
    until = time.monotonic() + 10
    while not caplog.records:  # written after the answer
        assert time.monotonic() < until
        time.sleep(0.01)
    (record,) = caplog.records
    assert record.message.startswith("127.0.0.1:")
    assert record.exc_info[0] is RuntimeError


def test_compressed_body_is_refused(pairs):
    headers = {"content-type": "application/json", "content-encoding": "gzip"}
    body = gzip.compress(json.dumps({"inputs": PAIR}).encode())
    answer = pairs.client.post("/predict", content=body, headers=headers)
    assert answer.status_code == 415
    assert "Content-Encoding" in answer.json()["error"]


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"\xff\xfe", b"[" * 100_000, b'{"inputs": "\\ud800"}', b'{"inputs": NaN}', b"nul"],
    ids=["empty", "open", "bytes", "deep", "surrogate", "nan", "word"],
)
def test_body_that_is_no_json_is_an_error(pairs, content):
    answer = pairs.client.post("/predict", content=content, headers={"content-type": "application/json"})
    assert answer.status_code in {400, 422}
    assert set(answer.json()) == {"error", "error_type"}
