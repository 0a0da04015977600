"""What ``tuneline predict`` refuses: rows, files, options and models."""

import gzip
import json
import re
import shutil
from pathlib import Path

import onnx
import pytest

from tests.faults.truncation import damages
from tests.runaway import TEXT, make_runaway
from tests.tuneline.cli.predict.conftest import PAIR, lines_of
from tuneline.core.runtime.errors import InputError
from tuneline.core.stage.records import file_hash

BAD_ROWS = {
    "too few fields": (
        "csv",
        b"subject,body\na,b\nonly one\nc,d\n",
        r"line 3: 1 column, but 2 in the header",
    ),
    "a byte outside UTF-8": (
        "csv",
        b"subject,body\na,\xc3\xbc\n\xe9t\xe9,z\nc,d\n",
        r"line 3: not utf-8: byte 0xe9",
    ),
    "not JSON": ("jsonl", PAIR.encode() + b"{broken\n" + PAIR.encode(), r"line 2: not JSON: "),
    "a missing key": (
        "jsonl",
        PAIR.encode() + b'{"subject": "a"}\n' + PAIR.encode(),
        r"line 2: column 'body' is null, not text",
    ),
    "an empty text": (
        "csv",
        b'subject,body\na,b\n"", \nc,d\n',
        r"line 3: column 'subject' and 'body': no text, or only white",
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


def cut_off(content):
    return content[: int(len(content) * 0.6)]


UNREADABLE_FILES = {
    "cut gzip": (
        "in.csv.gz",
        cut_off(gzip.compress(b"subject,body\n" + b"a,b\n" * 50 + bytes(range(256)))),
        "the gzip file is cut off or damaged",
    ),
    "not Parquet": ("in.parquet", b"subject,body\n", "not a Parquet file"),
    "no column": ("in.csv", b"title,body\na,b\n", "no column 'subject'"),
    "empty": ("in.csv", b"", "in.csv is empty"),
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
    "too few texts": (("in.csv", "--text", "subject"), "the model takes two texts"),
    "parquet to standard output": (
        ("in.csv", "--output-format", "parquet"),
        "cannot be written to standard output",
    ),
    "input as output": (("in.csv", "-o", "../{here}/in.csv"), "is also the input"),
    "no right to write": (("in.csv", "-o", "/proc/out.csv"), "/proc/out.csv cannot be read or written"),
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


@pytest.mark.parametrize("content", ["{}", "[" * 100_000])
def test_tokenizer_that_cannot_be_read_is_refused_in_one_message(predict, classification, tmp_path, content):
    """Also where whoever wrote it has written its hash, too."""
    shutil.copytree(classification / "models/onnx", tmp_path / "model")
    (tmp_path / "model/tokenizer.json").write_text(content)
    record = json.loads((tmp_path / "model/export.json").read_text())
    record["tokenizer"]["sha256"] = file_hash(tmp_path / "model/tokenizer.json")
    (tmp_path / "model/export.json").write_text(json.dumps(record))
    result = predict(given=PAIR.encode(), model=tmp_path / "model")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "model.onnx cannot be used with its record and tokenizer" in result.stderr


@pytest.mark.parametrize("file", ["tokenizer.json", "model.onnx", "export.json"])
def test_exit_status_does_not_blame_the_file_for_a_damaged_model(predict, classification, tmp_path, file):
    shutil.copytree(classification / "models/onnx", tmp_path / "model")
    for damage in damages(tmp_path / "model" / file):
        assert predict(given=PAIR.encode(), model=tmp_path / "model").exit_code == 1, damage


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
    assert "Shorten it or leave the row out; or train another checkpoint" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out.csv").exists()
