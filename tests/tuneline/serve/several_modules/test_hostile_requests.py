"""Requests that are meant to harm the service get an error, and others their answers meanwhile."""

import json
import random
import threading
import time
from urllib.parse import urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.service import running_service
from tests.tuneline.serve.hostile import MARK, attack, honest, send, whole_requests


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
KEYS = ("inputs", "rows", "row", "id", "truncate", "raw_scores", "truncation_direction", "parameters")
BODIES = st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4) | VALUES


def assert_handled(answer):
    assert answer.status_code in {200, 400, 404, 413, 422}, answer.text
    assert answer.status_code == 200 or answer.json()["error"]


@given(st.sampled_from(["/predict", "/", "/v1/predictions", "/v1/why"]), BODIES)
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_json_is_answered_or_refused(pairs, path, body):
    content = json.dumps(body).encode()
    assert_handled(pairs.client.post(path, content=content))


def test_large_request_is_refused_without_a_look_at_all_it_has(pairs):
    content = b'{"inputs": [' + b'["a","b"],' * 190_000 + b'["a","b"]]}'
    started = time.monotonic()
    assert pairs.client.post("/predict", content=content).status_code == 413
    assert time.monotonic() - started < 1.2


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
