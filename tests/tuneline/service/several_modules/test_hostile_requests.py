"""Requests that are meant to harm the service get an error, and others their answers meanwhile."""

import json
import random
import socket
import threading
import time
from urllib.parse import urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.service.hostile import MARK, attack, honest, request, send, tensor, whole_requests
from tests.service import running_service
from tuneline.service.limits import ServiceLimits

INFER = "/v2/models/tuneline/infer"


def port_of(service):
    return urlsplit(service.address).port


def test_hostile_requests_get_an_error_and_leave_no_text_in_the_log(pairs, capfd, caplog):
    requests = whole_requests(random.Random(0))
    statuses = [send(port_of(pairs), content, 15) for content in requests]
    log = "".join((*capfd.readouterr(), caplog.text))
    assert not any("500" in status for status in statuses)
    assert "Traceback" not in log
    assert MARK not in log
    assert pairs.post("/predict", {"inputs": ["a", "b"]}).status_code == 200


VALUES = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
KEYS = ("inputs", "input", "id", "model", "truncate", "raw_scores", "truncation_direction", "parameters")
BODIES = st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4) | VALUES
TENSORS = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(["subject", "body"]) | VALUES,
        "datatype": st.just("BYTES") | VALUES,
        "shape": st.just([1]) | VALUES,
        "data": st.lists(st.text(max_size=4), max_size=2) | VALUES,
        "parameters": st.fixed_dictionaries({"binary_data_size": VALUES}) | VALUES,
    },
)


def assert_handled(answer):
    assert answer.status_code in {200, 400, 404, 413, 422}, answer.text
    assert answer.status_code == 200 or answer.json()["error"]


@given(st.sampled_from(["/predict", "/", "/classify", INFER]), BODIES)
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_json_is_answered_or_refused(pairs, path, body):
    content = json.dumps(body).encode()
    assert_handled(pairs.client.post(path, content=content))


@given(st.lists(TENSORS, max_size=3), VALUES)
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_tensors_are_answered_or_refused(pairs, tensors, request_id):
    content = json.dumps({"id": request_id, "inputs": tensors}).encode()
    assert_handled(pairs.client.post(INFER, content=content))


@pytest.mark.parametrize("length", ["²".encode("latin-1"), b"9" * 5000, b"-1", b"1e3"])
def test_a_length_of_json_that_is_no_number_is_refused(pairs, length):
    headers = {b"inference-header-content-length": length}
    assert pairs.client.post(INFER, content=tensor(), headers=headers).status_code == 400


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(tensor(shape=[int("9" * 4_300)] * 460), id="shape"),
        pytest.param(b'{"inputs": [' + b'["a","b"],' * 190_000 + b'["a","b"]]}', id="rows"),
    ],
)
def test_large_requests_are_refused_without_a_look_at_all_they_have(pairs, content):
    started = time.monotonic()
    path = INFER if content.startswith(b'{"inputs": [{') else "/predict"
    assert pairs.client.post(path, content=content).status_code in {413, 422}
    assert time.monotonic() - started < 1.2


def test_rows_of_too_many_characters_are_refused(pair_folder):
    with running_service(pair_folder, limits=ServiceLimits(row_characters=1000)) as service:
        answer = service.post("/predict", {"inputs": [["a", "b"], ["a", "!" * 1000]]})
        assert answer.status_code == 413
        assert "row 1" in answer.json()["error"]
        assert service.post("/predict", {"inputs": ["a", "!" * 999]}).status_code == 200


def test_rows_of_clients_that_leave_are_not_computed(pair_folder):
    with running_service(pair_folder, workers=1) as service:
        many = json.dumps({"inputs": [[f"subject {number}", "body " * 100] for number in range(1000)]})
        opened = [socket.create_connection(("127.0.0.1", port_of(service))) for _ in range(3)]
        for connection in opened:
            connection.sendall(request("/predict", many.encode()))
        time.sleep(0.2)
        for connection in opened:
            connection.close()

        answer = service.post("/predict", {"inputs": ["a", "b"]})
        assert answer.status_code == 200
        assert answer.json() == service.post("/predict", {"inputs": ["a", "b"]}).json()
        waiting, computed = numbers(service, "tuneline_waiting_rows", "tuneline_batch_rows_sum")
        assert waiting == 0
        assert computed < 2000


def test_a_client_that_leaves_fails_no_row_that_shares_its_batch(pair_folder):
    with running_service(pair_folder, workers=1) as service:
        row = {"inputs": ["where is it", "the parcel never came"]}
        expected = service.post("/predict", row).json()
        answers = []

        def ask():
            for _ in range(20):
                answers.append(service.post("/predict", row).json())

        honest_clients = [threading.Thread(target=ask) for _ in range(4)]
        for client in honest_clients:
            client.start()
        for _ in range(100):
            with socket.create_connection(("127.0.0.1", port_of(service))) as opened:
                opened.sendall(request("/predict", json.dumps(row).encode()))
        for client in honest_clients:
            client.join()
        assert len(answers) == 80
        for answer in answers:
            assert [item["label"] for item in answer] == [item["label"] for item in expected]
            for item, other in zip(answer, expected, strict=True):
                assert item["score"] == pytest.approx(other["score"], abs=2e-5)


def test_too_much_is_refused_with_a_time_and_the_service_recovers(pair_folder):
    limits = ServiceLimits(waiting_rows=300)
    with running_service(pair_folder, limits=limits, workers=1) as service:
        many = {"inputs": [["subject", "body " * 50] for _ in range(200)]}
        answers = []
        clients = [
            threading.Thread(target=lambda: answers.append(service.post("/predict", many))) for _ in range(12)
        ]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        statuses = {answer.status_code for answer in answers}
        assert statuses == {200, 429}
        refused = [answer for answer in answers if answer.status_code == 429]
        assert all(int(answer.headers["retry-after"]) >= 1 for answer in refused)
        assert service.post("/predict", many).status_code == 200


def numbers(service, *names):
    """Return values of ``/metrics``."""
    lines = service.client.get("/metrics").text.splitlines()
    values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    return [float(values[name]) for name in names]


@pytest.mark.slow
def test_a_thousand_hostile_requests_keep_no_honest_client_from_its_answers(pair_folder):
    with running_service(pair_folder) as service:
        stop = threading.Event()
        milliseconds, faults = [], []
        arguments = (port_of(service), stop, ["a", "b"], milliseconds, faults)
        client = threading.Thread(target=honest, args=arguments)
        client.start()
        outcomes = attack(port_of(service), 1000, seed=1)
        stop.set()
        client.join()
        assert not faults
        assert len(milliseconds) > 100
        assert not any("500" in outcome for outcome in outcomes)
