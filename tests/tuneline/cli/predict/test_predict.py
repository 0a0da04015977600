import csv
import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.conftest import ROOT
from tests.faults.truncation import damages
from tests.small_pipeline import QUEUES
from tuneline.errors import InputError
from tuneline.params.loading import read_yaml
from tuneline.readers.limits import DEFAULT_LIMITS, Limits

PAIR = '{"subject": "the parcel", "body": "is missing"}\n'


def source(project, columns=("subject", "body")):
    return pq.read_table(project / "data/raw/test.parquet").select(list(columns))


def expected(project):
    """Probabilities by the trained model, in torch."""
    logits = np.stack(pq.read_table(project / "reports/predictions.parquet")["logits"].to_numpy()).astype(np.float64)
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def write_input(table, path):
    kind = path.name.removesuffix(".gz").rsplit(".", 1)[1]
    plain = path.with_name(path.name.removesuffix(".gz"))
    rows = table.to_pylist()
    if kind == "parquet":
        pq.write_table(table, plain, row_group_size=7)
    elif kind == "jsonl":
        plain.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        with plain.open("w", newline="") as file:
            writer = csv.DictWriter(file, table.column_names, delimiter="\t" if kind == "tsv" else ",")
            writer.writeheader()
            writer.writerows(rows)
    if plain != path:
        path.write_bytes(gzip.compress(plain.read_bytes()))
        plain.unlink()
    return path


def probabilities(lines):
    return np.array([[line["probabilities"][name] for name in QUEUES] for line in lines])


def lines_of(text):
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet", "csv.gz", "tsv.gz", "jsonl.gz", "parquet.gz"])
def test_every_input_format_gives_the_predictions_of_the_trained_model(predict, classification, tmp_path, ending):
    result = predict(write_input(source(classification), tmp_path / f"in.{ending}"))
    assert result.exit_code == 0, result.output
    lines = lines_of(result.stdout)
    assert [line["row"] for line in lines] == list(range(1, 51))
    np.testing.assert_allclose(probabilities(lines), expected(classification), atol=2e-6)
    assert [line["label"] for line in lines] == [QUEUES[best] for best in expected(classification).argmax(axis=1)]
    assert all(line["probability"] == max(line["probabilities"].values()) for line in lines)


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
@pytest.mark.parametrize("packed", [False, True])
def test_standard_input_is_read_plain_or_gzip(predict, classification, tmp_path, kind, packed):
    content = write_input(source(classification), tmp_path / f"in.{kind}").read_bytes()
    result = predict("--input-format", kind, given=gzip.compress(content) if packed else content)
    np.testing.assert_allclose(probabilities(lines_of(result.stdout)), expected(classification), atol=2e-6)


def read_output(path):
    if path.name.endswith("parquet"):
        return pq.read_table(path).to_pylist()
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    if "jsonl" in path.name:
        objects = lines_of(content.decode())
        by_name = [{f"probability_{name}": value for name, value in line.pop("probabilities").items()} for line in objects]
        return [{**line, **values} for line, values in zip(objects, by_name, strict=True)]
    return list(csv.DictReader(content.decode().splitlines(), delimiter="\t" if ".tsv" in path.name else ","))


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet", "csv.gz", "jsonl.gz"])
def test_every_output_format_has_the_same_content(predict, classification, tmp_path, ending):
    given = write_input(source(classification, ("idx", "subject", "body", "labels")), tmp_path / "in.parquet")
    assert predict(given, "-o", f"out/deep/out.{ending}", "--keep", "idx").exit_code == 0
    rows = read_output(tmp_path / f"out/deep/out.{ending}")
    assert list(rows[0]) == ["row", "idx", "label", "probability", *(f"probability_{name}" for name in QUEUES)]
    assert [int(row["row"]) for row in rows] == list(range(1, 51))
    assert [int(row["idx"]) for row in rows] == list(range(50))
    found = np.array([[float(row[f"probability_{name}"]) for name in QUEUES] for row in rows])
    np.testing.assert_allclose(found, expected(classification), atol=2e-6)


def test_same_input_gives_the_same_bytes(predict, classification, tmp_path):
    given = write_input(source(classification), tmp_path / "in.csv")
    contents = []
    for _ in range(2):
        assert predict(given, "-o", "out.jsonl.gz").exit_code == 0
        contents.append((tmp_path / "out.jsonl.gz").read_bytes())
    assert contents[0] == contents[1]


def test_regression_gives_numbers(predict, regression, tmp_path):
    given = write_input(source(regression), tmp_path / "in.csv")
    lines = lines_of(predict(given, model=regression / "models/onnx").stdout)
    trained = pq.read_table(regression / "reports/predictions.parquet")["prediction"].to_numpy()
    assert list(lines[0]) == ["row", "prediction"]
    np.testing.assert_allclose([line["prediction"] for line in lines], trained, atol=1e-5)


def test_precision_option_selects_the_int8_model(predict, classification, tmp_path):
    given = write_input(source(classification), tmp_path / "in.csv")
    found = probabilities(lines_of(predict(given, "--precision", "int8").stdout))
    assert 1e-6 < np.abs(found - expected(classification)).max() < 0.2


def test_text_option_names_other_columns_than_in_training(predict, classification, tmp_path):
    table = source(classification).rename_columns(["title", "subject"])
    result = predict(write_input(table, tmp_path / "in.csv"), "--text", "title", "--text", "subject")
    np.testing.assert_allclose(probabilities(lines_of(result.stdout)), expected(classification), atol=2e-6)


def test_kept_column_with_the_name_of_an_output_column_is_renamed(predict, tmp_path):
    (tmp_path / "in.jsonl").write_text('{"subject": "a", "body": "b", "label": "mine", "row": 99}\n')
    (line,) = lines_of(predict("in.jsonl", "--keep", "label", "--keep", "row").stdout)
    assert (line["input_label"], line["input_row"], line["row"]) == ("mine", 99, 1)
    assert line["label"] in QUEUES


def test_columns_option_names_the_columns_of_a_file_without_a_header(predict, tmp_path):
    (tmp_path / "in.csv").write_text("7,the parcel,is missing\n")
    (line,) = lines_of(predict("in.csv", "--columns", "id,subject,body", "--keep", "id").stdout)
    assert line["id"] == "7"


def test_model_of_one_text_takes_one_text(predict, classification, tmp_path):
    folder = tmp_path / "single"
    shutil.copytree(classification / "models/onnx", folder)
    model = onnx.load(folder / "model.onnx")
    next(entry for entry in model.metadata_props if entry.key == "text_columns").value = '["text"]'
    onnx.save(model, folder / "model.onnx")
    (line,) = lines_of(predict(given=b'{"text": "the parcel is missing"}\n', model=folder / "model.onnx").stdout)
    assert line["label"] in QUEUES


BAD_ROWS = {
    "too few fields": ("csv", b"subject,body\na,b\nonly one\nc,d\n", r"row 2 \(line 3\): 1 column, but 2 in the header"),
    "too many fields": ("csv", b"subject,body\na,b\n1,2,3\nc,d\n", r"row 2 \(line 3\): 3 columns, but 2 in the header"),
    "text after a quote": ("csv", b'subject,body\na,b\n"x"y,z\nc,d\n', r"row 2 \(line 3\): text follows a closing quote"),
    "a byte outside UTF-8": ("csv", b"subject,body\na,b\n\xe9t\xe9,z\nc,d\n", r"row 2 \(line 3\): not utf-8: byte 0xe9"),
    "rows of several lines before it": ("csv", b'subject,body\n"a\n\na",b\nbad\nc,d\n', r"row 2 \(line 5\): 1 column,"),
    "a quote in the middle of TSV": ("tsv", b'subject\tbody\n"a\tb\nbad\nc\td\n', r"row 2 \(line 3\): 1 column,"),
    "not JSON": ("jsonl", PAIR.encode() + b"{broken\n" + PAIR.encode(), r"row 2 \(line 2\): not JSON: "),
    "not an object": ("jsonl", PAIR.encode() + b"[1]\n" + PAIR.encode(), r"row 2 \(line 2\): a list instead of a JSON object"),
    "a missing key": ("jsonl", PAIR.encode() + b'{"subject": "a"}\n' + PAIR.encode(), r"row 2 \(line 2\): no column 'body' \(--text\)"),
    "an empty text": ("csv", b'subject,body\na,b\n"", \nc,d\n', r"row 2 \(line 3\): column 'subject' and 'body': no text, or only white"),
    "null": (
        "jsonl",
        PAIR.encode() + b'{"subject": null, "body": "b"}\n' + PAIR.encode(),
        r"row 2 \(line 2\): column 'subject' is null, not text",
    ),
    "a number": (
        "jsonl",
        PAIR.encode() + b'{"subject": 5, "body": "b"}\n' + PAIR.encode(),
        r"row 2 \(line 2\): column 'subject' is 5, not text",
    ),
    "an unpaired surrogate": (
        "jsonl",
        PAIR.encode() + b'{"subject": "\\ud83d", "body": "b"}\n' + PAIR.encode(),
        "row 2 .*unpaired surrogate",
    ),
    "an empty line before it": ("jsonl", PAIR.encode() + b"\n[1]\n" + PAIR.encode(), r"row 2 \(line 3\): a list instead of a JSON object"),
}


@pytest.mark.parametrize(("kind", "content", "message"), BAD_ROWS.values(), ids=BAD_ROWS)
def test_bad_row_stops_with_its_line_or_is_skipped(predict, tmp_path, kind, content, message):
    (tmp_path / f"in.{kind}").write_bytes(content)
    stopped = predict(f"in.{kind}", "-o", "out.jsonl")
    assert stopped.exit_code == InputError.status
    assert re.search(message, stopped.stderr), stopped.stderr
    assert [path.name for path in tmp_path.iterdir()] == [f"in.{kind}"], "nothing half-written is left"
    skipped = predict(f"in.{kind}", "-o", "out.jsonl", "--bad-rows", "skip")
    assert skipped.exit_code == 0, skipped.stderr
    assert re.search(f"skipped {message}", skipped.stderr)
    assert [line["row"] for line in lines_of((tmp_path / "out.jsonl").read_text())] == [1, 3]
    assert "2 rows, 1 skipped" in skipped.stderr


def test_null_in_parquet_is_a_bad_row(predict, tmp_path):
    pq.write_table(pa.table({"subject": ["a", None, "c"], "body": ["d", "e", "f"]}), tmp_path / "in.parquet")
    assert "row 2: column 'subject' is null, not text" in predict("in.parquet").stderr
    assert [line["row"] for line in lines_of(predict("in.parquet", "--bad-rows", "skip").stdout)] == [1, 3]


def test_only_the_first_bad_rows_are_reported(predict, tmp_path):
    (tmp_path / "in.csv").write_text("subject,body\n" + "bad\n" * 1000 + "a,b\n")
    result = predict("in.csv", "--bad-rows", "skip")
    assert "1 rows, 1,000 skipped" in result.stderr
    assert len(result.stderr.splitlines()) < 30


def cut_off(content):
    return content[: int(len(content) * 0.6)]


UNREADABLE_FILES = {
    "cut gzip": (
        "in.csv.gz",
        cut_off(gzip.compress(b"subject,body\n" + b"a,b\n" * 50 + bytes(range(256)))),
        "the gzip file ends too early",
    ),
    "gzip only in its first bytes": ("in.csv.gz", b"\x1f\x8b" + b"x" * 100, "a damaged one"),
    "not Parquet": ("in.parquet", b"subject,body\n", "not a Parquet file"),
    "no column": ("in.csv", b"title,body\na,b\n", "no column 'subject'"),
    "other delimiter": ("in.csv", b"subject;body\na;b\n", "--delimiter"),
    "empty": ("in.csv", b"", "in.csv is empty"),
    "column twice": ("in.csv", b"subject,body,body\n", "column 'body' twice"),
    "unknown ending": ("in.xlsx", b"x", "--input-format"),
    "UTF-16": ("in.csv", "subject,body\na,b\n".encode("utf-16"), "--encoding"),
    "a spreadsheet": ("in.csv", b"PK\x03\x04\x14\x00\x06\x00\x08\x00!\xbe\xd0\xff", "Save a spreadsheet as CSV"),
}


@pytest.mark.parametrize(("name", "content", "message"), UNREADABLE_FILES.values(), ids=UNREADABLE_FILES)
def test_unreadable_file_ends_with_one_error_and_keeps_the_previous_output(predict, tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    (tmp_path / "out.csv").write_text("of an earlier run\n")
    result = predict(name, "-o", "out.csv", "--bad-rows", "skip")
    assert result.exit_code == (1 if message == "--input-format" else InputError.status)
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert (tmp_path / "out.csv").read_text() == "of an earlier run\n"
    assert {path.name for path in tmp_path.iterdir()} == {name, "out.csv"}


INVALID_OPTIONS = {
    "no file": (("nowhere.csv",), "nowhere.csv does not exist"),
    "a folder": ((".",), "is a folder"),
    "delimiter": (("in.csv", "--delimiter", "::"), "--delimiter: '::' is not one character"),
    "encoding": (("in.csv", "--encoding", "klingon"), "not an encoding that Python knows"),
    "too few texts": (("in.csv", "--text", "subject"), "the model takes two texts"),
    "parquet to standard output": (("in.csv", "--output-format", "parquet"), "cannot be written to standard output"),
    "precision": (("in.csv", "--precision", "fp16"), "no model in fp16; it has fp32, int8"),
    "unknown output": (("in.csv", "-o", "out.xml"), "--output-format"),
    "input as output": (("in.csv", "-o", "../{here}/in.csv"), "is also the input"),
    "a folder as output": (("in.csv", "-o", "."), "--output: . is a folder"),
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


def test_limits_of_size_are_the_defaults_of_the_pipeline(root):
    files = read_yaml(root / "conf/base.yaml")["data"]["files"]
    assert Limits.of(files["max_cell_characters"], files["max_row_group_mb"], files["max_unpacked_mb"]) == DEFAULT_LIMITS


def test_output_to_a_pipe_and_to_dev_stdout_comes_as_a_stream(classification, tmp_path):
    (tmp_path / "in.jsonl").write_text(PAIR * 3)
    pipe = tmp_path / "out.csv.gz"
    os.mkfifo(pipe)
    model = classification / "models/onnx"
    command, options = tuneline("predict", tmp_path / "in.jsonl", "--model", model, "-o", pipe)
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **options) as running:
        assert len(gzip.decompress(pipe.read_bytes()).splitlines()) == 4
        assert running.wait() == 0, running.stderr.read()
    assert pipe.is_fifo()
    command, options = tuneline("predict", tmp_path / "in.jsonl", "--model", model, "-o", "/dev/stdout")
    done = subprocess.run(command, capture_output=True, text=True, check=True, **options)
    assert [line["row"] for line in lines_of(done.stdout)] == [1, 2, 3]


def test_link_as_output_is_kept(predict, tmp_path):
    (tmp_path / "in.jsonl").write_text(PAIR)
    (tmp_path / "real.csv").write_text("of an earlier run\n")
    (tmp_path / "link.csv").symlink_to("real.csv")
    assert predict("in.jsonl", "-o", "link.csv").exit_code == 0
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text().startswith("row,label,")


def test_column_that_is_kept_twice_is_written_once(predict, tmp_path):
    (tmp_path / "in.jsonl").write_text('{"subject": "a", "body": "b", "id": 7}\n')
    (line,) = lines_of(predict("in.jsonl", "--keep", "id", "--keep", "id").stdout)
    assert list(line) == ["row", "id", "label", "probability", "probabilities"]


def test_tokenizer_of_another_model_is_refused(predict, classification, tmp_path):
    """Its ids stand for other words: the predictions would be wrong without an error."""
    folder = tmp_path / "model"
    shutil.copytree(classification / "models/onnx", folder)
    content = (folder / "tokenizer.json").read_text()
    (folder / "tokenizer.json").write_text(content.replace("parcel", "lecrap"))
    assert "is not the tokenizer that this model was trained with" in predict(given=PAIR.encode(), model=folder).stderr


@pytest.mark.parametrize(
    ("file", "message"),
    [("tokenizer.json", "tokenizer beside it"), ("model.onnx", "dvc checkout"), ("export.json", "has no exported model")],
)
def test_incomplete_model_folder_is_refused_with_the_missing_file(predict, classification, tmp_path, file, message):
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
    model = onnx.load(classification / "models/onnx/model.onnx")
    del model.metadata_props[:]
    onnx.save(model, tmp_path / "foreign.onnx")
    assert "was not exported by this project" in predict(given=PAIR.encode(), model=tmp_path / "foreign.onnx").stderr


def test_file_without_rows_gives_an_output_without_rows(predict, tmp_path):
    (tmp_path / "in.csv").write_text("subject,body\n")
    assert predict("in.csv", "-o", "out.csv").exit_code == 0
    assert (tmp_path / "out.csv").read_text().startswith("row,label,probability")
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 1


def tuneline(*words, **options):
    return [sys.executable, "-c", f"from tuneline.cli import app; app({[*map(str, words)]})"], {"cwd": ROOT, **options}


def test_predict_imports_neither_torch_nor_transformers(classification, tmp_path):
    """They take seconds and hundreds of megabytes, and a server does not have them."""
    (tmp_path / "in.jsonl").write_text(PAIR)
    words = ["predict", str(tmp_path / "in.jsonl"), "--model", str(classification / "models/onnx"), "-o", str(tmp_path / "out.csv")]
    heavy = {"torch", "transformers", "datasets", "onnx", "pandas", "sklearn", "scipy", "dvc"}
    code = (
        f"import sys; from tuneline.cli import app; app({words}, standalone_mode=False);"
        f"loaded = {heavy} & set(sys.modules); sys.exit(str(loaded) if loaded else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out.csv").exists()


def test_predictions_are_written_while_rows_still_arrive(classification):
    """A full window is predicted before the next row is read."""
    command, options = tuneline("predict", "--model", classification / "models/onnx", "--window", 2)
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, **options
    ) as running:
        running.stdin.write(PAIR * 2)
        running.stdin.flush()
        assert json.loads(running.stdout.readline())["row"] == 1
        running.stdin.write(PAIR)
        running.stdin.close()
        assert [json.loads(line)["row"] for line in running.stdout] == [2, 3]


def test_closed_output_pipe_ends_without_a_traceback(classification):
    command, options = tuneline("predict", "--model", classification / "models/onnx", "--window", 1)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options) as running:
        running.stdin.write(PAIR.encode() * 3)
        running.stdin.flush()
        running.stdout.readline()
        running.stdout.close()
        running.stdin.write(PAIR.encode() * 200)
        running.stdin.close()
        assert b"Traceback" not in running.stderr.read()


def restore_interrupts():
    """Background jobs of a shell ignore Ctrl-C (and after nohup SIGHUP), and so do their children; the tests may run in one."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted_run_leaves_no_file(classification, tmp_path, number):
    words = ("predict", "--model", classification / "models/onnx", "--window", 1, "-o", tmp_path / "out.csv")
    command, options = tuneline(*words)
    options |= {"preexec_fn": restore_interrupts, "text": True}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, **options) as running:
        running.stdin.write(PAIR * 3)
        running.stdin.flush()
        until = time.monotonic() + 60
        while not list(tmp_path.iterdir()) and time.monotonic() < until:
            time.sleep(0.05)
        running.send_signal(number)
        assert running.stderr.read() == "tuneline predict: interrupted; incomplete files were discarded.\n"
        assert running.wait() == 128 + number
    assert not list(tmp_path.iterdir())


def peak_memory(rows, classification, tmp_path):
    """Return the peak memory in MB of a process that predicts this many rows."""
    path = Path(tmp_path, f"{rows}.jsonl.gz")
    with gzip.open(path, "wt", compresslevel=1) as file:
        for row in range(rows):
            file.write(json.dumps({"subject": f"parcel {row}", "body": "is missing"}) + "\n")
    words = ["predict", str(path), "--model", str(classification / "models/onnx"), "-o", str(tmp_path / "out.parquet"), "--window", "512"]
    code = (
        f"import resource; from tuneline.cli import app; app({words}, standalone_mode=False);"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    return float(done.stdout)


def test_memory_does_not_grow_with_the_rows(classification, tmp_path):
    few, many = peak_memory(6_000, classification, tmp_path), peak_memory(60_000, classification, tmp_path)
    assert many < few + 10
