# ruff: noqa: RUF001 (odd characters are what these tests are about)
import gzip
import os

import pytest
from typer.testing import CliRunner

from tuneline.cli import app
from tuneline.runtime.errors import DataError
from tuneline.sniffing.files import sniff

GOOD = "text,label\nGröße,ham\nfine,ham\n"
PART = "un café,spam\nit’s,ham\n"
MOJIBAKE = "naïve,ham\n".encode().decode("latin-1")
MIXED = GOOD.encode() + PART.encode("cp1252") + MOJIBAKE.encode()


@pytest.fixture
def recode(tmp_path, monkeypatch):
    """Return a function that runs the command in a folder with files of mixed encodings."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.csv").write_bytes(MIXED)
    (tmp_path / "train.csv.gz").write_bytes(gzip.compress(MIXED))

    def run(*arguments):
        return CliRunner().invoke(app, ["data", "recode", *arguments])

    return run


def test_lines_that_are_not_utf_8_are_shown_and_nothing_is_written(recode, tmp_path):
    done = recode("train.csv")
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        "line 4: byte 0xe9 in cp1252: 'un café,spam'",
        "line 5: byte 0x92 in cp1252: 'it’s,ham'",
        "train.csv: 6 lines; 2 beyond ASCII are right utf-8.",
        "To convert: 2 in cp1252. Nothing is written without --output; --encoding names another encoding.",
    ]
    assert {path.name for path in tmp_path.iterdir()} == {"train.csv", "train.csv.gz"}


def test_copy_has_only_these_lines_converted(recode, tmp_path):
    assert recode("train.csv", "--output", "a.csv").exit_code == 0
    assert (tmp_path / "a.csv").read_text() == GOOD + PART + MOJIBAKE
    done = recode("train.csv.gz", "--mojibake", "-o", "b.csv.gz")
    assert "converted lines: 2 in cp1252 and 1 of mojibake" in done.stdout
    assert "line 6: " in done.stdout
    assert "should read 'naïve,ham" in done.stdout
    assert gzip.decompress((tmp_path / "b.csv.gz").read_bytes()).decode() == GOOD + PART + "naïve,ham\n"
    assert (tmp_path / "train.csv").read_bytes() == MIXED
    assert "Nothing" not in recode("b.csv.gz", "--mojibake").stdout


def test_what_is_left_of_a_cut_character_is_replaced_not_guessed(recode, tmp_path):
    """Two of the three bytes of a euro sign: in no encoding are they what the author wrote."""
    (tmp_path / "cut.csv").write_bytes(GOOD.encode() + b"5 \xe2\x82,ham\n")
    done = recode("cut.csv", "-o", "out.csv")
    assert done.exit_code == 0, done.output
    assert "line 4: byte 0xe2 of a cut character" in done.stdout
    assert "1 with a cut character" in done.stdout
    assert (tmp_path / "out.csv").read_text() == f"{GOOD}5 \ufffd,ham\n"


def test_line_of_two_encodings_is_converted_whole(recode, tmp_path):
    (tmp_path / "two.csv").write_bytes("a café and ".encode() + "a café,ham\n".encode("cp1252"))
    assert recode("two.csv", "-o", "out.csv").exit_code == 0
    assert (tmp_path / "out.csv").read_text() == "a café and a café,ham\n"


def test_what_cannot_be_converted_is_refused_and_leaves_no_file(recode, tmp_path):
    (tmp_path / "wide.csv").write_bytes(GOOD.encode() + GOOD.encode("utf-16"))
    (tmp_path / "kept.csv").write_text("kept")
    os.mkfifo(tmp_path / "pipe")
    refused = {
        (
            "train.csv",
            "--encoding",
            "shift_jis",
            "-o",
            "c.csv",
        ): "train.csv, line 4: neither utf-8 nor shift_jis: byte 0xe9",
        ("train.csv", "--encoding", "cp1", "-o", "c.csv"): "Python has no such encoding",
        ("train.csv", "-o", "kept.csv"): "kept.csv exists",
        ("train.csv", "-o", "train.csv"): "the source is never changed",
        ("wide.csv", "-o", "c.csv"): "wide.csv, line 4: a zero byte.",
        ("train.parquet",): "always UTF-8",
        ("train.csv", "--encoding", "utf-8"): "train.csv, line 4: not utf-8: byte 0xe9",
        ("absent.csv",): "absent.csv does not exist",
        ("pipe",): "pipe is a named pipe, not a file",
    }
    for arguments, message in refused.items():
        done = recode(*arguments)
        assert done.exit_code == 1, arguments
        assert message in done.stderr
    assert not (tmp_path / "c.csv").exists()
    assert (tmp_path / "kept.csv").read_text() == "kept"


LOST = b"text,label\n" + b"a caf\xe9 and \xef\xbf\xbd more,ham\n" * 9 + b"all is fine,spam\n" * 9


def test_characters_that_were_lost_before_stay_lost_and_decide_on_no_encoding(recode, tmp_path):
    (tmp_path / "lost.csv").write_bytes(LOST)
    assert "byte 0xe9 in cp1252: 'a café and \ufffd more,ham'" in recode("lost.csv").stdout
    assert recode("lost.csv", "--output", "out.csv").exit_code == 0
    assert (tmp_path / "out.csv").read_text().count("a café and \ufffd more") == 9


def test_file_with_lost_characters_is_not_read_as_three_others(tmp_path):
    (tmp_path / "lost.csv").write_bytes(LOST)
    with pytest.raises(
        DataError, match="9 of its lines have characters that an earlier program lost"
    ) as refused:
        sniff(tmp_path / "lost.csv")
    assert "tuneline data recode" in refused.value.hint
