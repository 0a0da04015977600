"""Which conditions are alerts, and how long ago something was, in words."""

import os
import time
from datetime import UTC, datetime, timedelta

import pytest

from flows.runs.repository import Repository
from flows.settings import Scoring, Settings
from flows.watch import Condition, files_unread, scoring_behind, spell


@pytest.mark.parametrize(
    ("age", "limit", "alert"), [(37.0, 36, True), (36.0, 36, False), (1.0, 36, False), (None, 36, False), (1000.0, None, False)]
)
def test_condition_is_an_alert_beyond_its_limit(age, limit, alert):
    assert Condition("tuneline.runs.silent", "tuneline.runs.train", "train", "silent", age, limit).alert is alert


@pytest.mark.parametrize(
    ("hours", "words"),
    [(0.5, "less than an hour"), (1.2, "1 hour"), (37, "37 hours"), (72, "3 days"), (24 * 61, "61 days"), (-2, "less than an hour")],
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
    settings = Settings.model_validate({"ingest": {"sources": [{"name": "labels", "folder": "data/labelled"}]}})
    for folder, name in (("data/inbox", "a.csv"), ("data/labelled", "b.csv"), ("data/labelled/done", "c.xlsx")):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / name).touch()
    assert not files_unread(repository, settings, now + timedelta(hours=4.5)).alert
    (tmp_path / "data/labelled/labels.xlsx").touch()
    (tmp_path / "data/inbox/link.csv").symlink_to("nowhere.csv")
    assert not files_unread(repository, settings, now + timedelta(hours=2)).alert
    unread = files_unread(repository, settings, now + timedelta(hours=4.5))
    assert unread.alert
    assert unread.message.endswith(", so it is never read, and 1 more")
    (tmp_path / "data/inbox/link.csv").unlink()
    unread = files_unread(repository, settings, now)
    assert unread.message == "data/labelled: labels.xlsx has an ending that is not read, so it is never read"
