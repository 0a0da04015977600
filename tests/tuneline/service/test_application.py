"""Requests from end to end, over a socket."""

import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.service import running_service
from tuneline.service.jobs import RowJob
from tuneline.service.limits import ServiceLimits

PAIR = ["the parcel", "never came"]


def test_many_clients_get_their_own_answers(pairs):
    rows = [[f"{word} parcel", "came"] for word in ("the", "no", "late", "wrong", "my", "a", "one", "two")]
    expected = [pairs.post("/predict", {"inputs": row}).json() for row in rows]
    with ThreadPoolExecutor(16) as threads:
        asked = rows * 12
        answers = list(threads.map(lambda row: pairs.post("/predict", {"inputs": row}), asked))
    for row, answer in zip(asked, answers, strict=True):
        best = expected[rows.index(row)][0]
        assert answer.json()[0]["label"] == best["label"]
        assert answer.json()[0]["score"] == pytest.approx(best["score"], abs=1e-5)


def test_path_or_method_that_there_is_not_is_an_error_of_the_service(pairs):
    for method, path, status in (
        ("GET", "/nothing", 404),
        ("GET", "/predict", 405),
        ("PUT", "/classify", 405),
    ):
        answer = pairs.client.request(method, path)
        assert (answer.status_code, set(answer.json())) == (status, {"error", "error_type"})


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


def test_rows_that_wait_too_long_are_given_up(pair_folder):
    with running_service(pair_folder, workers=1, limits=ServiceLimits(seconds=0.0)) as service:
        answer = service.post("/predict", {"inputs": PAIR})
    assert answer.status_code == 429
    assert answer.headers["retry-after"]
    assert answer.json()["error"].startswith("row 0: the row was not computed in time")


def test_too_many_waiting_rows_are_refused_with_a_time(pair_folder):
    with running_service(pair_folder, workers=1, limits=ServiceLimits(waiting_rows=50)) as service:
        body = {"inputs": [["parcel " * 100, "came"]] * 50}
        with ThreadPoolExecutor(20) as threads:
            answers = list(threads.map(lambda _: service.post("/predict", body), range(20)))
        statuses = {answer.status_code for answer in answers}
        assert statuses == {200, 429}
        refused = next(answer for answer in answers if answer.status_code == 429)
        assert int(refused.headers["retry-after"]) >= 1
        assert refused.json()["error_type"] == "Overloaded"
        assert service.post("/predict", {"inputs": PAIR}).status_code == 200


def test_rows_of_a_client_that_has_left_are_not_computed(pair_folder):
    """It leaves while the only worker is busy."""
    with running_service(pair_folder, workers=1) as service:
        is_free = threading.Event()
        model = service.service.model.current
        busy = RowJob(model, [model.encode([tuple(PAIR)])], is_free.wait, time.monotonic() + 60)
        service.service.engine.queue.add(busy)
        with pytest.raises(httpx.ReadTimeout):
            service.client.post("/predict", json={"inputs": [PAIR] * 400}, timeout=0.5)
        time.sleep(0.3)  # until the service has seen that the connection is closed
        is_free.set()
        assert service.post("/predict", {"inputs": PAIR}).status_code == 200
        page = service.client.get("/metrics").text
        (rows,) = [line for line in page.splitlines() if line.startswith("tuneline_batch_rows_sum")]
        assert float(rows.split()[-1]) == 2
        assert service.service.engine.queue.waiting_rows == 0


def test_client_that_does_not_finish_its_body_is_answered_and_left(pair_folder):
    limits = ServiceLimits(body_seconds=0.2)
    with running_service(pair_folder, limits=limits) as service:
        host, port = service.address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as slow:
            head = f"POST /predict HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
            slow.sendall(f"{head}Content-Length: 100\r\n\r\n{{".encode())
            slow.settimeout(20)
            assert slow.recv(1000).startswith(b"HTTP/1.1 408")


def test_large_bodies_are_refused_before_they_are_read(pair_folder):
    with running_service(pair_folder, limits=ServiceLimits(body_bytes=1000)) as service:
        answer = service.post("/predict", {"inputs": ["x" * 1000, "y"]})
        assert answer.status_code == 413
        chunks = (b"x" * 600 for _ in range(3))
        headers = {"content-type": "application/json"}
        answer = service.client.post("/predict", content=chunks, headers=headers)
        assert answer.status_code == 413
        assert service.post("/predict", {"inputs": PAIR}).status_code == 200


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"\xff\xfe", b"[" * 100_000, b'{"inputs": "\\ud800"}', b'{"inputs": NaN}', b"nul"],
    ids=["empty", "open", "bytes", "deep", "surrogate", "nan", "word"],
)
def test_body_that_is_no_json_is_an_error(pairs, content):
    answer = pairs.client.post("/predict", content=content, headers={"content-type": "application/json"})
    assert answer.status_code in {400, 422}
    assert set(answer.json()) == {"error", "error_type"}
