"""Who may ask."""

import pytest

from tests.service import running_service

PAIR = {"inputs": ["the parcel", "never came"]}
TOKEN = "a-token-of-tests-only"  # noqa: S105


@pytest.fixture(scope="module")
def closed(pair_folder):
    """A service that wants a token."""
    with running_service(pair_folder, token=TOKEN) as service:
        yield service


def test_service_without_a_token_is_asked_by_the_names_of_this_machine(pairs):
    port = pairs.address.rpartition(":")[2]
    for host in (
        "127.0.0.1",
        f"127.0.0.1:{port}",
        f"localhost:{port}",
        "LOCALHOST",
        "[::1]",
        f"[::1]:{port}",
    ):
        assert pairs.post("/predict", PAIR, host=host).status_code == 200
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1.evil.example", ""):
        assert pairs.post("/predict", PAIR, host=host).status_code == 421


def test_other_names_can_be_allowed(pair_folder):
    with running_service(pair_folder, hosts=frozenset({"models.example"})) as service:
        assert service.post("/predict", PAIR, host="models.example:80").status_code == 200
        assert service.post("/predict", PAIR).status_code == 421


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_pages_of_other_sites_are_refused(pairs, headers):
    answer = pairs.post("/predict", PAIR, **headers)
    assert answer.status_code == 403
    assert "access-control-allow-origin" not in answer.headers


def test_types_that_a_page_may_send_anywhere_are_refused(pairs):
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        answer = pairs.client.post("/predict", content=b"{}", headers={"content-type": kind})
        assert answer.status_code == 415


@pytest.mark.parametrize("header", ["", "Bearer", f"Bearer {TOKEN}x", f"Basic {TOKEN}", TOKEN, "Bearer \xff"])
def test_request_needs_the_token(closed, header):
    headers = {"authorization": header.encode("latin-1")} if header else {}
    answer = closed.client.post("/predict", json=PAIR, headers=headers)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert TOKEN not in answer.text


def test_request_with_the_token_is_answered_by_any_name(closed):
    answer = closed.post("/predict", PAIR, host="models.example", authorization=f"Bearer {TOKEN}")
    assert answer.status_code == 200
    for path in ("/metrics", "/info"):
        assert closed.client.get(path).status_code == 401


def test_probe_needs_no_token(closed):
    assert closed.client.get("/health").status_code == 200


def test_every_answer_has_security_headers(pairs):
    for answer in (
        pairs.post("/predict", PAIR),
        pairs.client.get("/nothing"),
        pairs.post("/predict", {}, host="x.y"),
    ):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "server" not in answer.headers
