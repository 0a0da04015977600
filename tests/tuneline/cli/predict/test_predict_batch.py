"""``tuneline predict`` on folders, on parts of large files and on URLs, by either engine."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.tuneline.cli.predict.conftest import lines_of
from tests.tuneline.cli.predict.test_predict_process import tuneline
from tests.tuneline.predict import killing
from tuneline.predict import batch

ROWS = 70


def texts(first, count):
    return [
        {"id": number, "subject": f"parcel {number}", "body": "is missing " * (number % 7)}
        for number in range(first, first + count)
    ]


def write_inputs(folder: Path) -> None:
    """Write a folder of a large Parquet file, a CSV file, a JSONL file, and files that are no data."""
    folder.mkdir()
    pq.write_table(pa.Table.from_pylist(texts(0, ROWS)), folder / "a.parquet", row_group_size=25)
    lines = [f"{row['id']},{row['subject']},{row['body']}" for row in texts(100, 10)]
    (folder / "b.csv").write_text("\n".join(["id,subject,body", *lines, ""]))
    (folder / "c.jsonl").write_text("".join(json.dumps(row) + "\n" for row in texts(200, 10)))
    (folder / "README.md").write_text("Rows to predict.")
    (folder / ".hidden.csv").write_text("no data")


@pytest.fixture
def given(tmp_path, monkeypatch):
    """Inputs in ``in/``, of which the Parquet file is four tasks."""
    monkeypatch.setattr(batch, "TASK_ROWS", 20)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    write_inputs(tmp_path / "in")


def contents(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def test_files_are_concatenated_in_order(given, predict):
    for kind in ("csv", "jsonl", "parquet", "tsv.gz"):
        done = predict("in", "-o", f"out.{kind}", "--keep", "id", "--batch-size", 7)
        assert done.exit_code == 0, done.output
        assert "90 rows in" in done.stderr
    written = lines_of(Path("out.jsonl").read_text())
    assert [line["id"] for line in written] == [*range(ROWS), *map(str, range(100, 110)), *range(200, 210)]
    assert [line["row"] for line in written] == [*range(1, ROWS + 1), *range(1, 11), *range(1, 11)]
    table = pq.read_table("out.parquet")
    assert table["label"].to_pylist() == [line["label"] for line in written]
    assert len(Path("out.csv").read_text().splitlines()) == len(written) + 1
    one = predict("in/b.csv", "-o", "b.jsonl", "--keep", "id", "--batch-size", 7)
    assert one.exit_code == 0
    assert Path("b.jsonl").read_text() in Path("out.jsonl").read_text()
    assert predict("in", "--keep", "id", "--batch-size", 7).stdout == Path("out.jsonl").read_text()
    assert [path.name for path in Path().iterdir() if path.name.startswith(".")] == []


def test_folder_keeps_what_is_whole_and_mixes_nothing(given, predict):
    def run(*words):
        done = predict("in", "-o", "out/", *words)
        assert done.exit_code == 0, done.output
        return done.stderr

    parts = [f"a-0000{number}-of-00004.parquet" for number in range(4)]
    assert "90 rows in" in run()
    whole = contents(Path("out"))
    assert sorted(name for name in whole if "/" not in name) == [*parts, "b.csv.parquet", "c.jsonl.parquet"]
    assert pq.read_table(f"out/{parts[3]}")["row"].to_pylist() == list(range(61, 71))
    (Path("out") / parts[1]).unlink()
    Path("out/.predictions/b.csv.parquet.json").write_text("{")
    unchanged = (Path("out") / parts[2]).stat().st_mtime_ns
    assert "4 of 6 results already" in run()
    assert contents(Path("out")) == whole
    assert (Path("out") / parts[2]).stat().st_mtime_ns == unchanged
    Path("out/.predictions/of-others.parquet.json").write_text("{}")
    Path("out/of-others.parquet").write_text("of another program")
    assert "6 removed" in run("--window", 3)
    pq.write_table(pa.Table.from_pylist(texts(0, 30)), "in/a.parquet")
    changed = run("--window", 3)
    assert "4 removed" in changed
    assert "2 of 4 results" in changed
    assert sorted(path.name for path in Path("out").iterdir()) == [
        ".predictions",
        *(f"a-0000{number}-of-00002.parquet" for number in range(2)),
        "b.csv.parquet",
        "c.jsonl.parquet",
        "of-others.parquet",
    ]


def test_bad_rows_are_counted_over_the_parts_of_a_file(given, predict):
    rows = texts(0, ROWS)
    for number in (3, 30, 31):
        rows[number]["subject"] = rows[number]["body"] = ""
    pq.write_table(pa.Table.from_pylist(rows), "in/a.parquet")
    stopped = predict("in", "-o", "out/")
    assert stopped.exit_code == 65
    assert "in/a.parquet, row 4: " in stopped.stderr
    refused = predict("in", "-o", "out/", "--bad-rows", "skip", "--max-bad-share", 0.04)
    assert refused.exit_code == 65
    assert "in/a.parquet: 3 of 70 rows are bad" in refused.stderr
    assert list(Path("out").glob("a-*")) == [], "no part of a refused file is left"
    for target in ("out/", "out.csv"):
        skipped = predict("in", "-o", target, "--bad-rows", "skip", "--max-bad-share", 0.05)
        assert skipped.exit_code == 0, skipped.stderr
        assert "skipped in/a.parquet, row 31: " in skipped.stderr
        assert "87 rows, 3 skipped" in skipped.stderr


def test_what_cannot_be_predicted_is_refused_before_it_begins(given, predict):
    def refusal(*words):
        done = predict(*words)
        assert done.exit_code in {1, 65}, done.output
        assert "Traceback" not in done.output
        return done.stderr

    Path("in/d-00000-of-00003.csv").write_text("subject,body\na,b\n")
    assert "shard d-00001-of-00003 is missing and 1 more" in refusal("in", "-o", "out/")
    assert predict("in/d*", "-o", "d.csv").exit_code == 0
    Path("in/d-00000-of-00003.csv").unlink()
    Path("empty").mkdir()
    pq.write_table(pa.Table.from_pylist(texts(0, 2)), "in/b.parquet")
    assert "empty has no file that ends in" in refusal("empty")
    assert "nowhere does not exist" in refusal("nowhere", "-o", "out/")
    assert "would both be named b.csv.parquet" in refusal("in/b.csv", "in/b.csv", "-o", "out/")
    assert "in/b.parquet is also an input" in refusal("in/b.parquet", "-o", "in/")
    assert "in/b.csv is also the input" in refusal("in", "-o", "in/b.csv")
    assert "--workers: only the engine ray" in refusal("in", "--workers", 2)
    assert "Standard input and pipes" in refusal("-", "-o", "out/")
    assert "cannot be read together" in refusal("-", "in/b.csv")
    Path("in/a.parquet").write_bytes(Path("in/a.parquet").read_bytes()[:-40])
    assert "in/a.parquet: not a Parquet file" in refusal("in", "-o", "out/")
    assert not Path("out").exists()


def test_killed_command_is_continued(classification, tmp_path, predict):
    (tmp_path / "in").mkdir()
    for number in range(6):
        (tmp_path / f"in/{number}.jsonl").write_text(
            "".join(json.dumps(row) + "\n" for row in texts(0, 1500))
        )
    words = [tmp_path / "in", "-m", classification / "models/onnx", "-o", f"{tmp_path}/out/", "--threads", 1]
    command, options = tuneline("predict", *words)
    with subprocess.Popen(command, start_new_session=True, stderr=subprocess.PIPE, **options) as running:
        while running.poll() is None and not list(tmp_path.glob("out/.predictions/1*")):
            time.sleep(0.005)
        os.killpg(running.pid, signal.SIGKILL)
        assert b"Traceback" not in running.stderr.read()
    left = [path.name for path in tmp_path.glob("out/[0-9]*.parquet")]
    assert 2 <= len(left) < 6
    done = predict(tmp_path / "in", "-o", f"{tmp_path}/out/", "--threads", 1)
    assert (
        f"{len(left)} of 6 results already" in done.stderr
        or f"{len(left) - 1} of 6 results already" in done.stderr
    )
    assert predict(tmp_path / "in", "-o", f"{tmp_path}/all/", "--threads", 1).exit_code == 0
    assert contents(tmp_path / "out") == contents(tmp_path / "all")


@pytest.mark.slow
def test_ray_writes_the_bytes_of_the_local_engine(given, predict, monkeypatch):
    for target in ("local/", "local.csv", "local.parquet"):
        assert predict("in", "-o", target).exit_code == 0
    for workers in (1, 2, 4):
        done = predict("in", "-o", f"ray{workers}/", "--engine", "ray", "--workers", workers)
        assert done.exit_code == 0, done.output
        assert contents(Path(f"ray{workers}")) == contents(Path("local"))
    for kind in ("csv", "parquet"):
        assert predict("in", "-o", f"ray.{kind}", "--engine", "ray", "--workers", 2).exit_code == 0
        assert Path(f"ray.{kind}").read_bytes() == Path(f"local.{kind}").read_bytes()
    monkeypatch.setattr(batch, "predict_task", killing.kill_first_worker)
    assert predict("in", "-o", "killed-worker/", "--engine", "ray", "--workers", 2).exit_code == 0
    assert Path("killed").exists()
    assert contents(Path("killed-worker")) == contents(Path("local"))


@pytest.mark.slow
def test_input_and_output_on_s3(given, predict, bucket):
    for path in Path("in").iterdir():
        bucket.put(f"in/{path.name}", path.read_bytes())
    assert predict("in", "-o", "local/").exit_code == 0
    assert predict("in/a.parquet", "-o", "one.csv.gz").exit_code == 0
    for _ in range(2):
        done = predict(f"{bucket.url}/in/", "-o", f"{bucket.url}/out/")
        assert done.exit_code == 0, done.output
    assert "6 of 6 results already" in done.stderr
    for path in Path("local").glob("*.parquet"):
        assert bucket.get(f"out/{path.name}") == path.read_bytes()
    bucket.put("in/b.csv", b"id,subject,body\n1,parcel,is missing\n")
    assert "1 removed" in predict(f"{bucket.url}/in/", "-o", f"{bucket.url}/out/").stderr
    assert predict(f"{bucket.url}/in/a*.parquet", "-o", f"{bucket.url}/one.csv.gz").exit_code == 0
    assert bucket.get("one.csv.gz") == Path("one.csv.gz").read_bytes()
    before = bucket.keys()
    bucket.put("in/z.jsonl", b'{"id": 1}\n')
    failed = predict(f"{bucket.url}/in/z.jsonl", "-o", f"{bucket.url}/z.jsonl")
    assert failed.exit_code == 65
    assert f"{bucket.url}/in/z.jsonl, row 1 (line 1): no column 'subject'" in failed.stderr
    missing = predict(f"{bucket.url}/in/z.jsonl", "-o", "s3://no-such-bucket/out/")
    assert "s3://no-such-bucket/out/ does not exist" in missing.stderr, "said before the rows are read"
    assert sorted(bucket.keys()) == sorted([*before, "in/z.jsonl"]), "nothing half-written is left"
    assert bucket.uploads() == 0
