"""Which conditions are alerts, and how long ago something was, in words."""

import json
import os
import shutil
import time
from datetime import UTC, datetime, timedelta

import pytest
from prefect.settings import PREFECT_API_DATABASE_CONNECTION_URL, temporary_settings

from flows.runs.repository import Repository
from flows.watch import (
    Condition,
    disk_filling,
    files_unread,
    folder_size,
    scoring_behind,
    spell,
    stores,
    weekly_growth,
)
from tests.dvc_files import add_remote
from tuneline.settings import Scoring, Settings


@pytest.mark.parametrize(
    ("age", "limit", "alert"),
    [(37.0, 36, True), (36.0, 36, False), (1.0, 36, False), (None, 36, False), (1000.0, None, False)],
)
def test_condition_is_an_alert_beyond_its_limit(age, limit, alert):
    assert (
        Condition("tuneline.runs.silent", "tuneline.runs.train", "train", "silent", age, limit).alert is alert
    )


def test_condition_of_what_is_to_come_is_an_alert_below_its_limit():
    ahead = [Condition("e", "r", "disk", "fills", hours, 48, ahead=True) for hours in (47.0, 49.0, None)]
    assert [condition.alert for condition in ahead] == [True, False, False]


def test_growth_is_that_of_the_last_week(tmp_path):
    record, start = tmp_path / "sizes.json", 1e9
    record.write_text("damaged")
    assert weekly_growth(record, {"cache": 5000}, start) == {}
    for hour in range(1, 40 * 24):
        growth = weekly_growth(
            record, {"cache": 10 * hour, **({"remote": 7} if hour > 30 * 24 else {})}, start + hour * 3600
        )
    assert growth == {"cache": pytest.approx(10 * 7 * 24), "remote": 0}
    assert len(json.loads(record.read_text())) <= 9, "days"
    assert weekly_growth(record, {"cache": 0}, start) == {}, "the clock was set back"


def test_stores_are_those_on_a_disk_of_this_machine(tmp_path):
    (tmp_path / ".dvc" / "cache").mkdir(parents=True)
    database = tmp_path / "prefect.db"
    for path in (database, database.with_name("prefect.db-wal")):
        path.write_bytes(b"x" * 500)
    with temporary_settings({PREFECT_API_DATABASE_CONNECTION_URL: f"sqlite+aiosqlite:///{database}"}):
        add_remote(tmp_path, tmp_path / "shelf")
        assert set(stores(tmp_path)) == {"DVC's cache", "the DVC remote", "Prefect's database"}
        assert folder_size(stores(tmp_path)["Prefect's database"]) == 1000
    with temporary_settings(
        {PREFECT_API_DATABASE_CONNECTION_URL: "postgresql+asyncpg://user:secret@db/prefect"}
    ):
        add_remote(tmp_path, "http://127.0.0.1/shelf")
        assert set(stores(tmp_path)) == {"DVC's cache"}


@pytest.mark.promise("filling-disk")
def test_disk_that_is_full_before_long_is_an_alert(tmp_path):
    repository, now = Repository(tmp_path), datetime.now(UTC)
    cache = tmp_path / ".dvc" / "cache"
    cache.mkdir(parents=True)
    repository.state.mkdir(parents=True)
    assert disk_filling(repository, 1e9, now - timedelta(days=7)).age is None, "nothing has grown yet"
    (cache / "object").write_bytes(b"x" * 2_000_000)
    filling = disk_filling(repository, None, now)
    assert "DVC's cache 2.0 MB (+2.0 MB a week)" in filling.message
    free = shutil.disk_usage(tmp_path).free
    assert filling.age == pytest.approx(free / 2e6 * 7 * 24, rel=0.1)
    assert [disk_filling(repository, filling.age * share, now).alert for share in (1.5, 0.5)] == [True, False]
    (cache / "object").unlink()
    assert disk_filling(repository, 1e9, now + timedelta(days=1)).age is None


@pytest.mark.parametrize(
    ("hours", "words"),
    [
        (0.5, "less than an hour"),
        (1.2, "1 hour"),
        (37, "37 hours"),
        (72, "3 days"),
        (24 * 61, "61 days"),
        (-2, "less than an hour"),
    ],
)
def test_time_is_spelt_in_hours_up_to_three_days(hours, words):
    assert spell(hours) == words


def test_file_waits_since_it_came_into_the_inbox_and_not_since_it_was_written(tmp_path):
    """A copy may keep the time of its original."""
    repository, scoring = Repository(tmp_path), Scoring()
    now = datetime.now(UTC)
    assert scoring_behind(repository, scoring, 3, now).message == "no file waits to be scored"
    inbox = tmp_path / scoring.inbox
    inbox.mkdir(parents=True)
    for name in ("a.csv", "b.csv"):
        (inbox / name).write_text("text\nplease help\n")
        os.utime(inbox / name, (time.time() - 1e6,) * 2)
    assert not scoring_behind(repository, scoring, 3, now).alert
    behind = scoring_behind(repository, scoring, 3, now + timedelta(hours=4.5))
    assert behind.alert
    assert behind.message == "a.csv has waited to be scored for 4 hours, and 1 more"


def test_file_that_nothing_ever_reads_is_counted_in_inbox_and_drop_folders(tmp_path):
    repository, now = Repository(tmp_path), datetime.now(UTC)
    settings = Settings.model_validate(
        {"ingest": {"sources": [{"name": "labels", "folder": "data/labelled"}]}}
    )
    for folder, name in (
        ("data/inbox", "a.csv"),
        ("data/labelled", "b.csv"),
        ("data/labelled/done", "c.xlsx"),
    ):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / name).touch()
    assert not files_unread(repository, settings, now + timedelta(hours=4.5)).alert
    (tmp_path / "data/labelled/labels.xlsx").touch()
    (tmp_path / "data/inbox/link.csv").symlink_to("nowhere.csv")
    assert not files_unread(repository, settings, now + timedelta(hours=2)).alert
    unread = files_unread(repository, settings, now + timedelta(hours=4.5))
    assert unread.alert
    assert unread.message.endswith(" and has been there for 4 hours, and 1 more")
    (tmp_path / "data/inbox/link.csv").unlink()
    unread = files_unread(repository, settings, now + timedelta(hours=4.5))
    assert (
        unread.message
        == "data/labelled: labels.xlsx has an ending that is not read and has been there for 4 hours"
    )
