"""Files of URLs and rows of databases."""

import http.server
import json
import os
import sqlite3
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from flows.ingestion.harvest import Delivery, collect_deliveries
from flows.ingestion.ledger import Ingested, Ledger
from tests.flows.postgres import postgres
from tuneline.settings import IngestSource

TICKETS = {"name": "tickets", "query": Path("labels.sql"), "database": "TICKETS_URL"}


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_arguments) -> None:
        """Nothing: the tests' output is their own."""


@pytest.fixture
def web(tmp_path) -> Iterator[str]:
    (tmp_path / "web").mkdir()
    handler = partial(Quiet, directory=str(tmp_path / "web"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


class Collected(NamedTuple):
    deliveries: list[Delivery]
    problems: list[str]


def collected(source: IngestSource, root: Path, ledger: Ledger = Ledger()) -> Collected:  # noqa: B008 - it is frozen
    scratch = root / "scratch" / str(len(list((root / "scratch").glob("*"))))
    scratch.mkdir(parents=True)
    return Collected(*collect_deliveries(source, root, scratch, ledger, lambda _line: None))


def entry(found: Collected, **values) -> Ingested:
    """The entry of the ledger for what was collected."""
    return Ingested(
        date="2026-11-22", source="tickets", files=[one.read for one in found.deliveries], **values
    )


def test_url_is_read_again_only_when_it_changed(web, tmp_path):
    file = tmp_path / "web/labels.csv"
    file.write_text("text,label\na,b\n")
    source = IngestSource(name="tickets", url=f"{web}/labels.csv?token=open-sesame")
    first = collected(source, tmp_path)
    assert [one.path.read_text() for one in first.deliveries] == ["text,label\na,b\n"], first.problems
    assert first.deliveries[0].read.name == f"{web}/labels.csv", "what may be a secret is in no record"
    ledger = Ledger(entries=[entry(first, added=1)])
    assert not collected(source, tmp_path, ledger).deliveries
    assert collected(source, tmp_path, ledger.plus([entry(first, unmatched=1)])).deliveries, (
        "its late labels are tried again"
    )
    file.write_text("text,label\na,b\nc,d\n")
    os.utime(file, (0, 0))
    assert len(collected(source, tmp_path, ledger).deliveries) == 1

    gone = collected(IngestSource(name="tickets", url=f"{web}/gone.csv?token=open-sesame"), tmp_path)
    assert not gone.deliveries
    assert gone.problems[0].startswith("tickets: ")
    assert "open-sesame" not in gone.problems[0]


def test_url_pattern_names_several_files_and_options_come_from_the_environment(tmp_path, monkeypatch):
    for name in ("b.csv", "a.jsonl", "c.txt"):
        (tmp_path / name).write_text("x")
    source = IngestSource(
        name="tickets", url=f"file://{tmp_path}/[ab].*", options={"auto_mkdir": "TICKETS_OPTION"}
    )
    assert (
        collected(source, tmp_path)
        .problems[0]
        .startswith("tickets: The environment variable TICKETS_OPTION is not set.")
    )
    monkeypatch.setenv("TICKETS_OPTION", "")
    source = IngestSource(
        name="tickets", url=f"file://{tmp_path}/*.*", options={"auto_mkdir": "TICKETS_OPTION"}
    )
    found = collected(source, tmp_path)
    assert [Path(one.read.name).name for one in found.deliveries] == ["a.jsonl", "b.csv"]
    assert "c.txt: its name ends with none of .csv" in found.problems[0]


def test_query_of_a_database_reads_on_from_its_watermark_and_writes_nothing(tmp_path, monkeypatch):
    with sqlite3.connect(tmp_path / "tickets.db") as database:
        database.execute("create table tickets (id integer, body text, queue text)")
        database.executemany(
            "insert into tickets values (?, ?, ?)", [(1, "a", "x"), (2, "b", None), (3, "c", "y")]
        )
    monkeypatch.setenv("TICKETS_URL", f"sqlite:///{tmp_path}/tickets.db")
    source = IngestSource(**TICKETS, watermark="id", since=1)
    (tmp_path / "labels.sql").write_text(
        "select id, body as text, queue as label from tickets where id > :since order by id"
    )
    found = collected(source, tmp_path)
    (delivery,) = found.deliveries
    assert [json.loads(line) for line in delivery.path.read_text().splitlines()] == [
        {"id": 2, "text": "b", "label": None},
        {"id": 3, "text": "c", "label": "y"},
    ]
    assert delivery.watermark == 3
    assert not collected(source, tmp_path, Ledger(entries=[entry(found, watermark=3)])).deliveries

    (tmp_path / "labels.sql").write_text("delete from tickets")
    assert "readonly" in collected(source, tmp_path).problems[0]
    (tmp_path / "labels.sql").write_text("select body from tickets")
    assert "gives no column 'id' (watermark)" in collected(source, tmp_path).problems[0]
    monkeypatch.delenv("TICKETS_URL")
    assert "TICKETS_URL is not set" in collected(source, tmp_path).problems[0]


@pytest.mark.slow
def test_query_of_postgresql_is_read_only_in_batches_and_by_time(tmp_path, monkeypatch):
    import psycopg

    source = IngestSource(**TICKETS, watermark="changed", since="1970-01-01")
    select = (
        "select id, 'text ' || id as text, 'x' as label, changed from tickets where changed >= :since order"
        " by id"
    )
    with postgres() as address:
        url = address.replace("+asyncpg", "")
        monkeypatch.setenv("TICKETS_URL", url)
        with psycopg.connect(url) as connection:
            connection.execute("create table tickets (id numeric, changed timestamptz)")
            rows = (
                "select n, timestamptz '2026-03-29 02:30+02' + n * interval '1 microsecond' from"
                " generate_series(1, 25000) n"
            )
            connection.execute(f"insert into tickets {rows}")
        (tmp_path / "labels.sql").write_text(select)
        found = collected(source, tmp_path)
        (delivery,) = found.deliveries
        lines = delivery.path.read_text().splitlines()
        assert len(lines) == 25_000
        assert json.loads(lines[0])["id"] == 1
        again = collected(source, tmp_path, Ledger(entries=[entry(found, watermark=delivery.watermark)]))
        assert len(again.deliveries[0].path.read_text().splitlines()) == 1, (
            "only the row of the watermark itself"
        )

        for writing in ("delete from tickets returning id as text, changed", "select setval('s', 1)"):
            (tmp_path / "labels.sql").write_text(writing)
            assert collected(source, tmp_path).problems, writing
        with psycopg.connect(url) as connection:
            assert connection.execute("select count(*) from tickets").fetchone() == (25_000,)
        password = url.rpartition("@")[0].rpartition(":")[2]
        monkeypatch.setenv("TICKETS_URL", url.replace("127.0.0.1:", "127.0.0.1:1"))
        assert password not in collected(source, tmp_path).problems[0]
