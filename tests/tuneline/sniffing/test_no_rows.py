import io
import zipfile

import pytest

from tuneline.runtime.errors import DataError
from tuneline.sniffing.files import sniff


def archive() -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as packed:
        packed.writestr("sheet.xml", "<a/>")
    return target.getvalue()


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n", "pointer of Git LFS"),
        (b"\xef\xbb\xbf\n <!DOCTYPE html><html>", "web page"),
        (b"<HTML><body>", "web page"),
        (archive(), "ZIP archive or a spreadsheet"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "spreadsheet of Excel 97"),
        (b"%PDF-1.7\n", "PDF"),
        (b"7z\xbc\xaf\x27\x1c", "archive"),
        (b"SQLite format 3\x00", "database"),
        (b"<?xml version='1.0'?>", "XML"),
    ],
)
def test_file_without_rows_is_called_by_its_name(tmp_path, content, name):
    (tmp_path / "train.csv").write_bytes(content)
    with pytest.raises(DataError, match=name) as refused:
        sniff(tmp_path / "train.csv")
    assert refused.value.hint


def test_table_that_begins_like_a_word_is_read(tmp_path):
    (tmp_path / "a.csv").write_text("version,label\n1,a\n2,b\n")
    assert sniff(tmp_path / "a.csv").source.layout.delimiter == ","
