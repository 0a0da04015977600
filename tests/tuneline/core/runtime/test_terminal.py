import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import ROOT
from tuneline.core.runtime import terminal
from tuneline.core.runtime.errors import PERMANENT
from tuneline.core.runtime.terminal import CONTROL_CHARACTERS, phase, progress, visible

CLEAR_SCREEN, TITLE, REVERSED = "\x1b[2J", "\x1b]0;title\x07", "\u202etxt.exe"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (CLEAR_SCREEN, r"\x1b[2J"),
        (TITLE, r"\x1b]0;title\x07"),
        ("\x9b31m", r"\x9b31m"),  # the escape sequence for red in one character less
        ("paid\rdue", r"paid\rdue"),
        (REVERSED, r"\u202etxt.exe"),
        ("\u2066a\u2069", r"\u2066a\u2069"),
        (b"\xff.csv".decode(errors="surrogateescape"), r"\udcff.csv"),
    ],
)
def test_what_a_terminal_obeys_is_shown_as_its_code(text, shown):
    assert visible(text) == shown


@pytest.mark.parametrize("text", ["a\tb\nc", "Grüße 漢字 👩‍👩‍👧", "\u200fمرح\u200e (b)", "C:\\x1b"])
def test_text_of_every_language_stays(text):
    assert visible(text) == text


@given(st.text())
def test_visible_text_has_nothing_that_a_terminal_obeys(text):
    assert not CONTROL_CHARACTERS.search(visible(text))
    assert visible(visible(text)) == visible(text)


@pytest.mark.parametrize(("error", "status"), [("DataError", PERMANENT), ("ValueError", 1)])
def test_errors_of_a_stage_are_printed_without_what_a_terminal_obeys(error, status):
    script = f"""
import stages
from tuneline.core.runtime.errors import DataError
from tuneline.core.stage.entry import run_stage
def main():
    raise {error}("{CLEAR_SCREEN}{REVERSED}.csv, row 3: no label.")
run_stage("download", main)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == status
    assert r"\x1b[2J\u202etxt.exe.csv, row 3: no label." in done.stderr
    assert not CONTROL_CHARACTERS.search(done.stderr)


def test_long_step_is_told_in_a_line_now_and_then_and_a_short_one_never(capsys, monkeypatch):
    with progress("validate"):
        pass
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(terminal, "QUIET_SECONDS", 0.02)
    monkeypatch.setattr(terminal, "LINE_SECONDS", 0.02)
    with progress("download: \x1b[2Ja.csv", 400) as step, progress("within"):
        step.advance(100)
        phase("near-duplicates of test")
        said, deadline = "", time.monotonic() + 5
        while said.count("\n") < 2 and time.monotonic() < deadline:
            said += capsys.readouterr().err
    assert said.splitlines()[1] == r"download: \x1b[2Ja.csv: near-duplicates of test, 25%, 100 rows, 0 s"
    phase("after the end")
