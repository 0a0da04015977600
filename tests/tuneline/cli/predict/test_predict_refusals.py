"""What ``tuneline predict`` refuses: rows, files, options and models."""

import gzip
import json
import os
import re
import shutil
import stat
import threading
from pathlib import Path

import onnx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.faults.truncation import damages
from tests.runaway import TEXT, make_runaway
from tests.tuneline.cli.predict.conftest import PAIR, lines_of
from tuneline.core.hashes import file_hash
from tuneline.runtime.errors import InputError

BAD_ROWS = {
    "too few fields": (
        "csv",
        b"subject,body\na,b\nonly one\nc,d\n",
        r"row 2 \(line 3\): 1 column, but 2 in the header",
    ),
    "too many fields": (
        "csv",
        b"subject,body\na,b\n1,2,3\nc,d\n",
        r"row 2 \(line 3\): 3 columns, but 2 in the header",
    ),
    "text after a quote": (
        "csv",
        b'subject,body\n"a","b"\n"x"y,z\n"c","d"\n',
        r"row 2 \(line 3\): text follows a closing quote",
    ),
    "a byte outside UTF-8": (
        "csv",
        b"subject,body\na,\xc3\xbc\n\xe9t\xe9,z\nc,d\n",
        r"row 2 \(line 3\): not utf-8: byte 0xe9",
    ),
    "rows of several lines before it": (
        "csv",
        b'subject,body\n"a\n\na",b\nbad\nc,d\n',
        r"row 2 \(line 5\): 1 column,",
    ),
    "a quote in the middle of TSV": (
        "tsv",
        b'subject\tbody\n"a\tb\nbad\nc\td\n',
        r"row 2 \(line 3\): 1 column,",
    ),
    "not JSON": ("jsonl", PAIR.encode() + b"{broken\n" + PAIR.encode(), r"row 2 \(line 2\): not JSON: "),
    "not an object": (
        "jsonl",
        PAIR.encode() + b"[1]\n" + PAIR.encode(),
        r"row 2 \(line 2\): a list instead of a JSON object",
    ),
    "a missing key": (
        "jsonl",
        PAIR.encode() + b'{"subject": "a"}\n' + PAIR.encode(),
        r"row 2 \(line 2\): column 'body' is null, not text",
    ),
    "an empty text": (
        "csv",
        b'subject,body\na,b\n"", \nc,d\n',
        r"row 2 \(line 3\): column 'subject' and 'body': no text, or only white",
    ),
    "null": (
        "jsonl",
        PAIR.encode() + b'{"subject": null, "body": "b"}\n' + PAIR.encode(),
        r"row 2 \(line 2\): column 'subject' is null, not text",
    ),
    "a number": (
        "jsonl",
        PAIR.encode() + b'{"subject": 5, "body": "b"}\n' + PAIR.encode(),
        r"row 2 \(line 2\): column 'subject' is a number, not text",
    ),
    "an unpaired surrogate": (
        "jsonl",
        PAIR.encode() + b'{"subject": "\\ud83d", "body": "b"}\n' + PAIR.encode(),
        "row 2 .*unpaired surrogate",
    ),
    "an empty line before it": (
        "jsonl",
        PAIR.encode() + b"\n[1]\n" + PAIR.encode(),
        r"row 2 \(line 3\): a list instead of a JSON object",
    ),
}


@pytest.mark.parametrize(("kind", "content", "message"), BAD_ROWS.values(), ids=BAD_ROWS)
def test_bad_row_stops_with_its_line_or_is_skipped(predict, tmp_path, kind, content, message):
    (tmp_path / f"in.{kind}").write_bytes(content)
    stopped = predict(f"in.{kind}", "-o", "out.jsonl")
    assert stopped.exit_code == InputError.status
    assert re.search(message, stopped.stderr), stopped.stderr
    assert [path.name for path in tmp_path.iterdir()] == [f"in.{kind}"], "nothing half-written is left"
    skipped = predict(f"in.{kind}", "-o", "out.jsonl", "--max-bad-share", "0.34")
    assert skipped.exit_code == 0, skipped.stderr
    assert re.search(f"skipped {message}", skipped.stderr)
    assert [line["row"] for line in lines_of((tmp_path / "out.jsonl").read_text())] == [1, 3]
    assert "2 rows, 1 skipped" in skipped.stderr


def test_null_in_parquet_is_a_bad_row(predict, tmp_path):
    pq.write_table(pa.table({"subject": ["a", None, "c"], "body": ["d", "e", "f"]}), tmp_path / "in.parquet")
    assert "row 2: column 'subject' is null, not text" in predict("in.parquet").stderr
    assert [line["row"] for line in lines_of(predict("in.parquet", "--max-bad-share", "0.34").stdout)] == [
        1,
        3,
    ]


def test_only_the_first_bad_rows_are_reported(predict, tmp_path):
    (tmp_path / "in.csv").write_text("subject,body\n" + "bad\n" * 1000 + "a,b\n")
    result = predict("in.csv", "--max-bad-share", "1")
    assert "1 rows, 1,000 skipped" in result.stderr
    assert len(result.stderr.splitlines()) < 30


def test_file_with_too_many_bad_rows_is_refused_as_a_whole(predict, tmp_path):
    (tmp_path / "in.csv").write_text("subject,body\n" + "a,b\n" * 98 + "bad\n,\n")
    (tmp_path / "out.csv").write_text("of an earlier run\n")
    result = predict("in.csv", "-o", "out.csv", "--max-bad-share", "0.01")
    assert result.exit_code == InputError.status
    assert (
        "in.csv: 2 of 100 rows are bad (2.00%), more than 0.01.\n  row 99 (line 100): 1"
        " column, but 2" in result.stderr
    )
    assert (tmp_path / "out.csv").read_text() == "of an earlier run\n"
    assert predict("in.csv", "-o", "out.csv", "--max-bad-share", "0.02").exit_code == 0
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 99


def test_input_that_is_no_file_is_named_as_what_it_is(predict, tmp_path):
    (tmp_path / "loop.csv").symlink_to("loop.csv")
    (tmp_path / "gone.csv").symlink_to("nowhere.csv")
    os.mknod(tmp_path / "socket.csv", stat.S_IFSOCK)
    messages = {
        "loop.csv": "is a link that leads to itself",
        "gone.csv": "is a link to nowhere.csv",
        "socket.csv": "is a socket, not a file",
    }
    for name, message in messages.items():
        assert f"{name} {message}" in predict(name).stderr
    os.mkfifo(tmp_path / "pipe.jsonl")
    writer = threading.Thread(target=(tmp_path / "pipe.jsonl").write_text, args=[PAIR])
    writer.start()
    result = predict("pipe.jsonl")
    writer.join()
    assert len(lines_of(result.stdout)) == 1


def cut_off(content):
    return content[: int(len(content) * 0.6)]


UNREADABLE_FILES = {
    "cut gzip": (
        "in.csv.gz",
        cut_off(gzip.compress(b"subject,body\n" + b"a,b\n" * 50 + bytes(range(256)))),
        "the gzip file is cut off or damaged",
    ),
    "gzip only in its first bytes": ("in.csv.gz", b"\x1f\x8b" + b"x" * 100, "cut off or damaged"),
    "not Parquet": ("in.parquet", b"subject,body\n", "not a Parquet file"),
    "no column": ("in.csv", b"title,body\na,b\n", "no column 'subject'"),
    "other delimiter": ("in.csv", b"subject:body\na:b\n", "no column 'subject'"),
    "empty": ("in.csv", b"", "in.csv is empty"),
    "column twice": (
        "in.csv",
        b"subject,body,body\n",
        "line 1: the header has a column twice.\n  Rename one of the two: 'body'",
    ),
    "unknown ending": ("in.rows", b"x", "--input-format"),
    "a spreadsheet": (
        "in.csv",
        b"PK\x03\x04\x14\x00\x06\x00\x08\x00!\xbe\xd0\xff",
        "ZIP archive or a spreadsheet",
    ),
}


@pytest.mark.parametrize(("name", "content", "message"), UNREADABLE_FILES.values(), ids=UNREADABLE_FILES)
def test_unreadable_file_ends_with_one_error_and_keeps_the_previous_output(
    predict, tmp_path, name, content, message
):
    (tmp_path / name).write_bytes(content)
    (tmp_path / "out.csv").write_text("of an earlier run\n")
    result = predict(name, "-o", "out.csv", "--max-bad-share", "0.01")
    assert result.exit_code == (1 if message == "--input-format" else InputError.status)
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert (tmp_path / "out.csv").read_text() == "of an earlier run\n"
    assert {path.name for path in tmp_path.iterdir()} == {name, "out.csv"}


INVALID_OPTIONS = {
    "no file": (("nowhere.csv",), "nowhere.csv does not exist"),
    "delimiter": (("in.csv", "--delimiter", "::"), "--delimiter: '::' is not one character"),
    "encoding": (("in.csv", "--encoding", "klingon"), "Python has no such encoding"),
    "too few texts": (("in.csv", "--text", "subject"), "the model takes two texts"),
    "parquet to standard output": (
        ("in.csv", "--output-format", "parquet"),
        "cannot be written to standard output",
    ),
    "unknown output": (("in.csv", "-o", "out.xml"), "--output-format"),
    "input as output": (("in.csv", "-o", "../{here}/in.csv"), "is also the input"),
    "no right to write": (("in.csv", "-o", "/proc/out.csv"), "cannot be written"),
}


@pytest.mark.parametrize(("words", "message"), INVALID_OPTIONS.values(), ids=INVALID_OPTIONS)
def test_invalid_option_is_refused_with_a_message(predict, tmp_path, words, message):
    (tmp_path / "in.csv").write_text("subject,body\na,b\n")
    result = predict(*(word.format(here=tmp_path.name) for word in words))
    assert result.exit_code == 1
    assert message in result.stderr
    assert not result.stdout
    assert (tmp_path / "in.csv").read_text() == "subject,body\na,b\n"


def test_tokenizer_of_another_model_is_refused(predict, classification, tmp_path):
    """Its ids stand for other words: the predictions would be wrong without an error."""
    folder = tmp_path / "model"
    shutil.copytree(classification / "models/onnx", folder)
    content = (folder / "tokenizer.json").read_text()
    (folder / "tokenizer.json").write_text(content.replace("parcel", "lecrap"))
    assert (
        "tokenizer.json is damaged, or of another model" in predict(given=PAIR.encode(), model=folder).stderr
    )


@pytest.mark.parametrize("named", ["", "model.onnx"])
@pytest.mark.promise("damaged-model")
def test_model_with_two_changed_bytes_is_refused_before_it_predicts(predict, classification, tmp_path, named):
    """ONNX Runtime loads it: with a changed exponent in the bias, it predicts the same class for every
    row."""
    shutil.copytree(classification / "models/onnx", tmp_path / "model")
    content = (tmp_path / "model/model.onnx").read_bytes()
    (bias,) = [
        one.raw_data
        for one in onnx.load_from_string(content).graph.initializer
        if one.name == "classifier.bias"
    ]
    (tmp_path / "model/model.onnx").write_bytes(content.replace(bias, bias[:2] + b"\x7f\x7f" + bias[4:]))
    result = predict(given=PAIR.encode(), model=tmp_path / "model" / named)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "model.onnx is damaged" in result.stderr
    assert predict("--precision", "int8", given=PAIR.encode(), model=tmp_path / "model").exit_code == 0, (
        "its files are undamaged"
    )


@pytest.mark.parametrize("name", ["../../else/model.onnx", "/etc/passwd", "..", ""])
@pytest.mark.parametrize("key", ["file", "sha256", "tokenizer"])
def test_record_that_names_a_file_elsewhere_is_refused(predict, classification, tmp_path, key, name):
    """Who writes a model's folder learns of no other file, not even whether it exists."""
    shutil.copytree(classification / "models/onnx", tmp_path / "model")
    record = json.loads((tmp_path / "model/export.json").read_text())
    changed = record["tokenizer"] if key == "tokenizer" else record["models"]["fp32"]
    changed.update({"sha256": {name: ""}} if key == "sha256" else {"file": name})
    (tmp_path / "model/export.json").write_text(json.dumps(record))
    result = predict(given=PAIR.encode(), model=tmp_path / "model")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "export.json" in result.stderr
    assert "pattern" in result.stderr


@pytest.mark.parametrize("content", ["junk", "", "{}", "[" * 100_000])
def test_tokenizer_that_cannot_be_read_is_refused_in_one_message(predict, classification, tmp_path, content):
    """Also where whoever wrote it has written its hash, too."""
    shutil.copytree(classification / "models/onnx", tmp_path / "model")
    (tmp_path / "model/tokenizer.json").write_text(content)
    record = json.loads((tmp_path / "model/export.json").read_text())
    record["tokenizer"]["sha256"] = file_hash(tmp_path / "model/tokenizer.json")
    (tmp_path / "model/export.json").write_text(json.dumps(record))
    result = predict(given=PAIR.encode(), model=tmp_path / "model")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "model.onnx cannot be used with its metadata and tokenizer" in result.stderr


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("tokenizer.json", "tokenizer.json is missing"),
        ("model.onnx", "dvc checkout"),
        ("export.json", "has no exported model"),
    ],
)
def test_incomplete_model_folder_is_refused_with_the_missing_file(
    predict, classification, tmp_path, file, message
):
    shutil.copytree(classification / "models/onnx", tmp_path / "model")
    (tmp_path / "model" / file).unlink()
    result = predict(given=PAIR.encode(), model=tmp_path / "model")
    assert (result.exit_code, message in result.stderr) == (1, True)


@pytest.mark.parametrize("file", ["tokenizer.json", "model.onnx", "export.json"])
def test_exit_status_does_not_blame_the_file_for_a_damaged_model(predict, classification, tmp_path, file):
    shutil.copytree(classification / "models/onnx", tmp_path / "model")
    for damage in damages(tmp_path / "model" / file):
        assert predict(given=PAIR.encode(), model=tmp_path / "model").exit_code == 1, damage


def test_exit_status_does_not_blame_the_file_for_a_read_error(predict, tmp_path):
    (tmp_path / "in.csv").symlink_to("/proc/self/mem")  # its first page cannot be read: an input/output error
    result = predict("in.csv")
    assert (result.exit_code, "cannot be read" in result.stderr) == (1, True)


def test_model_of_another_project_is_refused(predict, classification, tmp_path):
    shutil.copyfile(classification / "models/onnx/model.onnx", tmp_path / "foreign.onnx")
    assert "has no exported model" in predict(given=PAIR.encode(), model=tmp_path / "foreign.onnx").stderr
    shutil.copyfile(classification / "models/onnx/export.json", tmp_path / "export.json")
    assert "has no model foreign.onnx" in predict(given=PAIR.encode(), model=tmp_path / "foreign.onnx").stderr


def test_row_that_the_tokenizer_cannot_encode_is_named_with_the_file_of_the_tokenizer(
    predict, classification, tmp_path
):
    model = Path(shutil.copytree(classification / "models/onnx", tmp_path / "model"))
    make_runaway(model / "tokenizer.json")
    (tmp_path / "in.csv").write_text(
        "subject,body\n" + "the parcel,is missing\n" * 70 + f"the parcel,{TEXT}\n"
    )
    done = predict("in.csv", "-o", "out.csv", model=model)
    assert done.exit_code == InputError.status
    problem = (
        f"in.csv, row 71: the tokenizer {model / 'tokenizer.json'} cannot encode this text of 60 characters ("
    )
    assert problem in done.stderr
    assert "Shorten it or leave the row out; or train with another tokenizer" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out.csv").exists()
