"""A recipient that redirects, hangs or is away stops nothing else, and obeys no word of a message."""

import asyncio
import contextlib
import email
import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import StreamRequestHandler, ThreadingTCPServer

import pytest
from apprise.plugins.slack import NotifySlack
from pydantic import SecretStr

from flows.server import recipient
from flows.server.recipient import AddressError, Deliveries, Recipient, open_address, plain

HIDDEN = "s3cret-T0ken"
SLACK = f"https://hooks.slack.com/services/T1JJ3T3L2/A1BRTD4JD/{HIDDEN.replace('-', '')}00000000000000"
TEAMS = (
    "https://prod-1.westus.logic.azure.com:443/workflows/a1/triggers/manual/paths/invoke?api-version=1&sv=1.0"
    "&sig=s3cret"
)
MAIL = "mailtos://me:pass%40word@smtp.example.com:587?from=me@example.com&to=ops@example.com"
MARKUP = "<!channel> <@U123> <http://evil.example|click> [click](http://evil.example) @everyone a & b"


@pytest.mark.parametrize(
    ("address", "service"),
    [(SLACK, "Slack"), (TEAMS, "Workflows"), (MAIL, "E-Mail"), ("https://example.com/hook/s3cret", "JSON")],
)
def test_addresses_of_the_documented_services_are_known(address, service):
    known = Recipient.of(address)
    assert service in known.service
    assert "s3cret" not in repr(known)


@pytest.mark.parametrize("address", ["", "s3cret", "slack://s3cret", "nosuch://s3cret"])
def test_unknown_address_is_refused_without_showing_it(address, capfd):
    with pytest.raises(AddressError) as error:
        Recipient.of(address)
    assert "s3cret" not in str(error.value) + "".join(capfd.readouterr())


@contextlib.contextmanager
def receiver(answer: Callable[[BaseHTTPRequestHandler, dict], None]) -> Iterator[str]:
    """Serve web hooks that answer each message in some way, and yield the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            content = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with contextlib.suppress(OSError):  # the client is gone
                answer(self, content)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def take(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    handler.wfile.write(b"ok")


def test_message_that_is_not_taken_says_why_without_the_address():
    reason = Recipient(url=SecretStr(f"json://127.0.0.1:9/{HIDDEN}")).send_once("subject", "body")
    assert reason is not None
    assert "connection error" in reason.lower()
    assert HIDDEN not in reason


@pytest.mark.parametrize("query", ["", "?redirect=yes&retry=5"])
def test_redirect_is_not_followed(query):
    asked = []

    def redirect(handler, content):
        asked.append(content)
        handler.send_response(307)
        handler.send_header("Location", handler.path)
        handler.end_headers()

    with receiver(redirect) as address:
        assert "307" in Recipient.of(f"{address}/{HIDDEN}{query}").send_once("subject", "body")
    assert len(asked) == 1


def drip(handler: BaseHTTPRequestHandler, _content: dict) -> None:
    """Send an answer byte by byte, without an end."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Header: ")
    while True:
        handler.wfile.write(b"x")
        time.sleep(0.1)


def test_receiver_that_hangs_is_given_up_in_time_and_then_not_tried_again_and_again(monkeypatch):
    monkeypatch.setattr(recipient, "SECONDS", 0.5)
    monkeypatch.setattr(Recipient, "_hanging", [])
    with receiver(drip) as address:
        hanging = Recipient.of(address)
        started = time.monotonic()
        for _ in range(recipient.MOST_HANGING):
            assert hanging.send_once("subject", "body") == "It did not answer within 0.5 s."
        assert "earlier attempts" in hanging.send_once("subject", "body")
        assert time.monotonic() - started < 0.5 * recipient.MOST_HANGING + 1.5


def test_message_waits_for_its_recipient_while_others_are_sent(monkeypatch):
    monkeypatch.setattr(recipient, "PAUSES", (0.3, 0.3))
    away, read, reports = threading.Event(), [], []
    away.set()

    def answer(handler, content):
        if content["title"] != "later" or not away.is_set():
            read.append(content["title"])
            take(handler)
        else:
            handler.send_error(503)

    async def record(what, _time):
        reports.append(what)

    async def main(address: str) -> None:
        deliveries = Deliveries()
        deliveries.report = record
        started = time.monotonic()
        for title in ("later", "now"):
            deliveries.add(Recipient.of(address), title, "body")
        deliveries.add(Recipient(url=SecretStr("json://127.0.0.1:9/")), "never", "body")
        assert time.monotonic() - started < 0.2, "nobody waits for them"
        while read != ["now"]:
            await asyncio.sleep(0.02)
        away.clear()
        while len(reports) < 3:
            await asyncio.sleep(0.02)

    with receiver(answer) as address:
        asyncio.run(asyncio.wait_for(main(address), 30))
    assert read == ["now", "later"]
    assert sorted(reports) == ["accepted", "accepted", "lost"]


def test_messages_beyond_what_may_wait_are_lost_and_named(monkeypatch, capfd):
    monkeypatch.setattr(recipient, "MOST_WAITING", 0)
    Deliveries().add(Recipient.of("https://example.com/hook"), "a\x1b[31m title", "body")
    assert "this one is lost: a\\x1b[31m title" in capfd.readouterr().err


def test_slack_gets_words_and_nothing_that_it_obeys(monkeypatch):
    read = []

    def answer(handler, content):
        read.append(content)
        take(handler)

    with receiver(answer) as address:
        monkeypatch.setattr(NotifySlack, "webhook_url", address)
        for query in ("", "?format=markdown"):
            assert Recipient.of(SLACK + query).send_once(MARKUP, MARKUP) is None
    for payload in read:
        (words,) = payload["attachments"]
        for text in (words["title"], words["text"]):
            assert not set("<>") & set(text)
            assert text.startswith("&lt;!channel&gt; &lt;@U123&gt; &lt;http://evil.example|click&gt;")
            assert text.endswith("a &amp; b")


@pytest.mark.parametrize(
    "address",
    [
        TEAMS,
        "https://discord.com/api/webhooks/4174216298/JHMHI8qBe7bk2ZwO5U711o3dV_js",
        "tgram://123456789:abcdefg_hijklmnop/12315544",
        "mmost://example.com/3ccdd113474722377935511fc85d3dd4",
    ],
)
def test_chats_get_the_same_words_without_mentions_and_links(address):
    text = plain(MARKUP, open_address(address))
    assert text.replace("\u200b", "") == MARKUP
    for obeyed in ("<!", "<@", "<http", "](", "@U", "@everyone"):
        assert obeyed not in text


@pytest.mark.parametrize("address", ["json://example.com", "xml://example.com", "form://example.com", MAIL])
def test_programs_and_mail_get_words_as_they_are(address):
    assert plain(MARKUP, open_address(address)) == MARKUP


class Mailbox(StreamRequestHandler):
    """One mail over SMTP."""

    def handle(self):
        self.wfile.write(b"220 tests\r\n")
        while line := self.rfile.readline().strip():
            if line.upper() == b"DATA":
                self.wfile.write(b"354 go on\r\n")
                while (line := self.rfile.readline()) != b".\r\n":
                    self.server.mail.append(line.decode())
            self.wfile.write(b"221 bye\r\n" if line.upper() == b"QUIT" else b"250 ok\r\n")


def test_html_of_mail_has_no_tag_of_a_message():
    with ThreadingTCPServer(("127.0.0.1", 0), Mailbox) as server:
        server.daemon_threads = True
        server.mail = []
        threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
        address = f"mailto://127.0.0.1:{server.server_address[1]}?from=me@example.com&to=ops@example.com"
        assert Recipient.of(address).send_once("subject", "<a href='http://evil.example'>click</a>") is None
        server.shutdown()
    mail = email.message_from_string("".join(server.mail))
    parts = {
        part.get_content_type(): part.get_payload(decode=True).decode()
        for part in mail.walk()
        if not part.is_multipart()
    }
    assert "&lt;a" in parts["text/html"]
    assert "<a " not in parts["text/html"]
