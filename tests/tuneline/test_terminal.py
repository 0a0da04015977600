import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuneline.terminal import OBEYED, say, visible

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
    assert not OBEYED.search(visible(text))
    assert visible(visible(text)) == visible(text)


def test_text_is_said_to_the_stream_that_is_asked_for(capsys):
    say(f"download: {CLEAR_SCREEN}")
    say(f"download: {REVERSED}", error=True)
    assert capsys.readouterr() == ("download: \\x1b[2J\n", "download: \\u202etxt.exe\n")


@pytest.mark.parametrize("error", ["DataError", "ValueError"])
def test_errors_of_a_stage_are_printed_without_what_a_terminal_obeys(tmp_path, error):
    script = f"""
from tuneline.errors import DataError
from tuneline.stage import run_stage
def main():
    raise {error}("{CLEAR_SCREEN}{REVERSED}.csv, row 3: no label.")
run_stage("download", main)
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert r"\x1b[2J\u202etxt.exe.csv, row 3: no label." in done.stderr
    assert not OBEYED.search(done.stderr)
