"""Lines of text files, plain and packed, and what is no text."""

import gzip
import io
import os
import random
import sys
import threading
from dataclasses import replace

import pytest

from tuneline.core.runtime.errors import DataError, UnreadableError
from tuneline.rows.reading import tables
from tuneline.rows.reading.formats import CSV
from tuneline.rows.reading.tables import open_text

CONTENT = "one\ntwo\n"
PACKED = gzip.compress(CONTENT.encode(), mtime=0)


def written(folder, name, content):
    path = folder / name
    path.write_bytes(content)
    return path


def read(path, encoding="utf-8"):
    with open_text(replace(CSV.usual(path), encoding=encoding)) as lines:
        return list(lines)


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
@pytest.mark.parametrize("content", [CONTENT.encode(), PACKED])
def test_plain_and_gzip_files_give_their_lines_whatever_they_are_called(tmp_path, name, content):
    assert read(written(tmp_path, name, content)) == ["one\n", "two\n"]


def test_line_ends_are_kept_and_counted(tmp_path):
    with open_text(CSV.usual(written(tmp_path, "a.csv", b"one\r\ntwo\rthree\nfour"))) as lines:
        assert list(lines) == ["one\r\n", "two\r", "three\n", "four"]
        assert lines.number == 4


DAMAGED = {
    "cut off": PACKED[:-12],
    "changed bytes": PACKED[:10] + b"\xff" + PACKED[11:],
    "wrong checksum": PACKED[:-8] + b"\0\0\0\0" + PACKED[-4:],
}


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
def test_damaged_gzip_file_is_refused(tmp_path, content, monkeypatch):
    with pytest.raises(DataError, match=r"a\.csv\.gz: the gzip file is cut off or damaged"):
        read(written(tmp_path, "a.csv.gz", content))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(content))))
    with pytest.raises(DataError, match="standard input: the gzip file"):
        read(None)


def test_file_that_is_no_text_is_refused(tmp_path):
    with pytest.raises(DataError, match="utf-16 according") as refused:
        read(written(tmp_path, "a.csv", CONTENT.encode("utf-16")))
    assert "--encoding" in refused.value.hint
    with pytest.raises(DataError, match="not utf-16"):
        read(written(tmp_path, "a.csv", CONTENT.encode("utf-16") + b"\x00\xd8\x00"), "utf-16")
    with pytest.raises(DataError, match="binary file"):
        read(written(tmp_path, "b.csv", gzip.compress(random.Random(0).randbytes(9999))[10:]))
    with pytest.raises(UnreadableError, match=r"c\.csv .*No such file"):
        read(tmp_path / "c.csv")


def test_line_that_is_too_long_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "LONGEST_LINE", 8)
    path = written(tmp_path, "a.csv", f"short\n1234567\n{'x' * 100}\n".encode())
    with pytest.raises(DataError, match="line 3: longer than 8 characters"):
        read(path)


@pytest.mark.parametrize("content", [CONTENT.encode(), PACKED])
def test_standard_input_and_a_pipe_are_read_plain_or_gzip(tmp_path, monkeypatch, content):
    stdin = io.TextIOWrapper(io.BufferedReader(io.BytesIO(content)))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert read(None) == ["one\n", "two\n"]
    assert not stdin.buffer.closed

    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=[content])
    writer.start()
    with open_text(CSV.usual(pipe)) as lines:
        assert list(lines) == ["one\n", "two\n"]
        assert (lines.size, lines.position) == (None, None)
    writer.join()
