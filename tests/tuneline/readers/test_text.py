import gzip
import io
import os
import random
import sys
import threading

import pytest

from tuneline.readers import text
from tuneline.readers.rows import MB, Limits, OptionNames
from tuneline.readers.text import open_text
from tuneline.runtime.errors import DataError, UnreadableError

CONTENT = "one\ntwo\n"
PACKED = gzip.compress(CONTENT.encode(), mtime=0)


def written(folder, name, content):
    path = folder / name
    path.write_bytes(content)
    return path


def read(path, encoding="utf-8", **options):
    with open_text(path, encoding, **options) as lines:
        return list(lines)


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize(
    ("name", "content"), [("a.csv", CONTENT.encode()), ("a.csv.gz", PACKED), ("a.CSV.GZ", PACKED)]
)
def test_plain_and_gzip_files_give_their_lines(tmp_path, name, content, strict):
    assert read(written(tmp_path, name, content), strict=strict) == ["one\n", "two\n"]


def test_line_ends_are_kept_and_counted(tmp_path):
    with open_text(written(tmp_path, "a.csv", b"one\r\ntwo\rthree\nfour"), "utf-8") as lines:
        assert list(lines) == ["one\r\n", "two\r", "three\n", "four"]
        assert lines.number == 4


@pytest.mark.parametrize(("name", "content"), [("a.csv", PACKED), ("a.csv.gz", CONTENT.encode())])
def test_gzip_that_contradicts_the_name_is_refused_or_detected_by_content(tmp_path, name, content):
    path = written(tmp_path, name, content)
    with pytest.raises(DataError, match="gzip file"):
        read(path)
    assert read(path, strict=False) == ["one\n", "two\n"]


DAMAGED = {
    "cut off": (PACKED[:-12], "the gzip file ends too early"),
    "changed bytes": (PACKED[:10] + b"\xff" + PACKED[11:], "the gzip file is damaged"),
    "wrong checksum": (PACKED[:-8] + b"\0\0\0\0" + PACKED[-4:], "not a gzip file, or a damaged one"),
}


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize(("content", "message"), DAMAGED.values(), ids=DAMAGED)
def test_damaged_gzip_file_is_refused(tmp_path, content, message, strict):
    with pytest.raises(DataError, match=message) as raised:
        read(written(tmp_path, "a.csv.gz", content), strict=strict)
    assert "etch it again" in str(raised.value.hint)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "UTF8", "utf-16"])
def test_byte_order_mark_is_dropped(tmp_path, encoding):
    content = CONTENT.encode("utf-16" if encoding == "utf-16" else "utf-8-sig")
    assert read(written(tmp_path, "a.csv", content), encoding) == ["one\n", "two\n"]


def test_utf_16_by_its_byte_order_mark_is_refused_with_the_option_to_set(tmp_path):
    options = OptionNames("--delimiter", "--quoting", "--columns", "--encoding")
    for strict in (True, False):
        with pytest.raises(DataError, match="--encoding to utf-16"):
            read(written(tmp_path, "a.csv", CONTENT.encode("utf-16")), options=options, strict=strict)


def test_damaged_utf_16_is_refused(tmp_path):
    with pytest.raises(DataError, match="not utf-16"):
        read(written(tmp_path, "a.csv", CONTENT.encode("utf-16") + b"\x00\xd8\x00"), "utf-16")


def test_zero_byte_is_refused_only_where_reading_is_strict(tmp_path):
    path = written(tmp_path, "a.csv", b"a\0b\n")
    with pytest.raises(DataError, match="binary file"):
        read(path)
    assert read(path, strict=False) == ["a\0b\n"]


def test_text_with_a_stray_zero_byte_is_no_binary_file(tmp_path):
    with open_text(written(tmp_path, "a.csv", b"text\n" * 50 + b"a\0b\n"), "utf-8") as lines:
        (problem,) = [problem for _ in lines if (problem := lines.take_problem())]
    assert (problem.line, problem.message) == (51, "a zero byte")
    assert "tr -d" in problem.hint
    with pytest.raises(DataError, match="binary file"):
        read(written(tmp_path, "b.csv", gzip.compress(random.Random(0).randbytes(9999))[10:]))


def test_byte_outside_the_encoding_is_a_problem_of_its_line(tmp_path):
    with open_text(written(tmp_path, "a.csv", b"fine\ncaf\xe9\n"), "utf-8") as lines:
        problems = [lines.take_problem() for _ in lines]
    assert problems[0] is None
    assert (problems[1].line, problems[1].message) == (2, "not utf-8: byte 0xe9")
    assert "data.files.encoding" in problems[1].hint


def first_hint(folder, content):
    with open_text(written(folder, "a b.csv", content), "utf-8") as lines:
        problems = [problem for _ in lines if (problem := lines.take_problem())]
    return problems[0].hint


def test_hint_about_a_bad_byte_names_the_probable_encoding(tmp_path):
    """Whether the whole file can be in that encoding depends on the lines before."""
    convert = "export the file again in utf-8."
    first = first_hint(tmp_path, b"fine\nun caf\xe9 au lait\n")
    assert first.startswith(
        "In cp1252 it reads 'un caf\u00e9 au lait'. If the whole file is in cp1252, set data.files.encoding"
        " to it;"
    )
    assert first.endswith(f"otherwise {convert}")
    mixed = first_hint(tmp_path, "Gr\u00f6\u00dfe\n".encode() + b"caf\xe9\n")
    assert mixed == f"In cp1252 it reads 'caf\u00e9', but lines before it are utf-8: {convert}"
    assert "In cp1251 it reads" in first_hint(
        tmp_path, "\u043f\u0440\u0438\u0432\u0435\u0442\n".encode("cp1251")
    )


@pytest.mark.parametrize("appended", ["two,caf\u00e9\n".encode("utf-16"), "two,ham\n".encode("utf-16-le")])
def test_part_in_utf_16_is_named(tmp_path, appended):
    assert "utf-16" in first_hint(tmp_path, b"one\n" * 20_000 + appended)


def test_byte_outside_the_encoding_is_left_to_the_caller_where_reading_is_not_strict(tmp_path):
    with open_text(written(tmp_path, "a.csv", b"caf\xe9\n"), "utf-8", strict=False) as lines:
        (line,) = lines
        assert lines.take_problem() is None
        assert lines.decoding_problem(line, 1).message == "not utf-8: byte 0xe9"
        assert lines.decoding_problem("café \ud83d", 1) is None


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_over_long_line_is_a_problem_and_the_next_line_is_read(tmp_path, monkeypatch, end):
    monkeypatch.setattr(text, "LONGEST_LINE", 8)
    content = f"short{end}{'x' * 100}{end}next{end}".encode()
    with open_text(written(tmp_path, "a.csv", content), "utf-8") as lines:
        read_lines = [(line, lines.take_problem()) for line in lines]
    assert [line for line, _ in read_lines] == [f"short{end}", "x" * 8, f"next{end}"]
    assert [problem is None for _, problem in read_lines] == [True, False, True]
    assert (read_lines[1][1].line, read_lines[1][1].message) == (2, "longer than 8 characters")


def test_line_of_exactly_the_limit_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "LONGEST_LINE", 8)
    with open_text(written(tmp_path, "a.csv", b"1234567\nnext\n"), "utf-8") as lines:
        assert [(line, lines.take_problem()) for line in lines] == [("1234567\n", None), ("next\n", None)]


def test_over_long_line_is_read_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "LONGEST_LINE", 50)
    sizes = []

    class Text(io.StringIO):
        def readline(self, size=-1):
            sizes.append(size)
            return super().readline(size)

    assert list(text.TextLines(Text("x" * 10_000), "file")) == ["x" * 50]
    assert set(sizes) == {50}


@pytest.mark.parametrize("content", [CONTENT.encode(), PACKED])
def test_standard_input_is_read_plain_or_gzip_and_stays_open(monkeypatch, content):
    stdin = io.TextIOWrapper(io.BufferedReader(io.BytesIO(content)))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert read(None) == ["one\n", "two\n"]
    assert not stdin.buffer.closed


def test_problem_in_standard_input_is_named(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(PACKED[:-12]))))
    with pytest.raises(DataError, match=r"standard input: .*early"):
        read(None)


def test_gzip_pipe_is_unpacked(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=[PACKED])
    writer.start()
    with open_text(pipe, "utf-8") as lines:
        assert list(lines) == ["one\n", "two\n"]
        assert (lines.size, lines.position) == (None, None)
    writer.join()


def test_size_and_position_count_the_bytes_on_disk(tmp_path):
    path = written(tmp_path, "a.csv.gz", PACKED)
    with open_text(path, "utf-8") as lines:
        assert lines.size == len(PACKED)
        list(lines)
        assert lines.position() == len(PACKED)


def test_missing_file_is_named(tmp_path):
    with pytest.raises(UnreadableError, match=r"a\.csv .*No such file"):
        read(tmp_path / "a.csv")


@pytest.mark.parametrize("strict", [True, False])
def test_gzip_file_that_unpacks_to_more_than_the_limit_is_refused(tmp_path, strict):
    path = written(tmp_path, "a.csv.gz", gzip.compress(b"a line\n" * (MB // 2)))
    with pytest.raises(DataError, match=r"a\.csv\.gz: .*2 MB"):
        read(path, limits=Limits(unpacked=2 * MB), strict=strict)
    assert len(read(path, limits=Limits(unpacked=4 * MB), strict=strict)) == MB // 2


def test_gzip_pipe_gives_its_lines_as_they_come(tmp_path):
    """Not only when a whole buffer is full."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    went_on, in_time = threading.Event(), []

    def write():
        with pipe.open("wb", buffering=0) as raw, gzip.GzipFile(fileobj=raw, mode="wb") as packed:
            packed.write(b"one\n")
            packed.flush()
            in_time.append(went_on.wait(10))
            packed.write(b"two\n")

    writer = threading.Thread(target=write)
    writer.start()
    with open_text(pipe, "utf-8") as lines:
        rest = iter(lines)
        assert next(rest) == "one\n"
        went_on.set()
        assert list(rest) == ["two\n"]
    writer.join()
    assert in_time == [True]


def test_longer_cells_allow_longer_lines(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "LONGEST_LINE", 8)
    path = written(tmp_path, "a.csv", b"123456789\n")
    assert read(path) == ["12345678"]
    assert read(path, limits=Limits(cell=2 * Limits.cell)) == ["123456789\n"]
