"""Wrong passwords: refused whatever their characters, counted in the log, and answered slowly."""

import asyncio
import base64
import time
from collections import Counter

import httpx
import pytest
from fastapi import FastAPI
from fastapi.responses import PlainTextResponse

from flows.server.passwords import PasswordGuard, WrongPasswords, are_equal
from tests.flows.prefect_server import LOGIN

PASSWORD = "anna:pässwörd"  # noqa: S105 - of this test


def guarded(wrong_passwords: WrongPasswords) -> httpx.AsyncClient:
    """A client of a small server behind the guard, which expects one password as UTF-8, as Prefect does."""
    server = FastAPI()

    @server.middleware("http")
    async def let_in(request, call_next):
        sent = base64.b64decode(request.headers["Authorization"].removeprefix("Basic ")).decode()
        if not are_equal(sent, PASSWORD):
            return PlainTextResponse("no", 401)
        return await call_next(request)

    @server.get("/")
    async def answer():
        return "yes"

    transport = httpx.ASGITransport(PasswordGuard(server, wrong_passwords))
    return httpx.AsyncClient(transport=transport, base_url="http://server")


def basic(password: str, encoding: str = "utf-8") -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(password.encode(encoding)).decode()}


def statuses(wrong_passwords: WrongPasswords, passwords: list[str]) -> Counter[int]:
    """Sends passwords at once, and counts the statuses of the answers."""

    async def send() -> list[httpx.Response]:
        async with guarded(wrong_passwords) as client:
            requests = [client.get("/", headers=basic(password)) for password in passwords]
            return await asyncio.gather(*requests)

    return Counter(answer.status_code for answer in asyncio.run(send()))


def test_wrong_password_is_answered_slowly_and_the_right_one_at_once():
    wrong_passwords = WrongPasswords(seconds=0.3)
    started = time.monotonic()
    assert statuses(wrong_passwords, [PASSWORD]) == {200: 1}
    assert time.monotonic() - started < 0.3

    started = time.monotonic()
    assert statuses(wrong_passwords, ["anna:wrong"]) == {401: 1}
    assert time.monotonic() - started >= 0.3


def test_no_password_is_looked_at_while_its_address_has_too_many_wrong_ones():
    wrong_passwords = WrongPasswords(seconds=0.3, most_open=2)

    async def guess() -> list[int]:
        async with guarded(wrong_passwords) as client:
            wrong = [asyncio.create_task(client.get("/", headers=basic(f"anna:{n}"))) for n in range(2)]
            await asyncio.sleep(0.1)
            refused = await client.get("/", headers=basic(PASSWORD))
            assert refused.headers["Retry-After"] == "1"
            await asyncio.gather(*wrong)
            accepted = await client.get("/", headers=basic(PASSWORD))
            return [refused.status_code, accepted.status_code]

    assert asyncio.run(guess()) == [429, 200]


def test_many_wrong_passwords_at_once_wait_for_each_other():
    started = time.monotonic()
    answers = statuses(WrongPasswords(seconds=0.1, most_open=2), [f"anna:{number}" for number in range(8)])
    assert answers[401] >= 2
    assert time.monotonic() - started >= 0.1 * answers[401] / 2


def test_wrong_passwords_are_counted_in_the_log_by_powers_of_ten(capsys):
    statuses(WrongPasswords(seconds=0.0, most_open=1000), [f"anna:{number}" for number in range(105)])
    lines = capsys.readouterr().out.splitlines()
    address = lines[0].rpartition(" ")[2]
    assert lines == [
        f"server: a wrong password from {address}",
        f"server: 10 wrong passwords from {address}",
        f"server: 100 wrong passwords from {address}",
    ]


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_password_beyond_ascii_is_right_in_the_encoding_of_programs_and_of_browsers(encoding):
    async def send(password: str) -> int:
        async with guarded(WrongPasswords(seconds=0.0)) as client:
            return (await client.get("/", headers=basic(password, encoding))).status_code

    assert asyncio.run(send(PASSWORD)) == 200
    assert asyncio.run(send("anna:pässwärd")) == 401


def test_server_refuses_passwords_whatever_their_characters(served):
    for password in ("tests:wröng", "töst:wrong", LOGIN + "é", "\udc80:x"):
        sent = base64.b64encode(password.encode("utf-8", "surrogatepass")).decode()
        headers = {"Authorization": f"Basic {sent}"}
        answer = httpx.post(f"{served.api}/deployments/filter", json={}, headers=headers)
        assert answer.status_code == 401, password
    assert "a wrong password from 127.0.0.1" in (served.logs / "server.log").read_text()
    assert "Traceback" not in (served.logs / "server.log").read_text()
