"""Many files in one process: each ends with the status of ``tuneline predict``, and no file ends the
others."""

import json
import os
import sys

import pyarrow.parquet as pq
import pytest

from tests.tuneline.cli.predict.conftest import PAIR, published
from tuneline.predict import batch


@pytest.fixture(scope="module")
def classification(tmp_path_factory):
    """Return a project with a classifier of (subject, body) into three queues."""
    return published(tmp_path_factory, "classification")


@pytest.fixture
def run(tmp_path, monkeypatch, capfd):
    """Predicts files, and returns the output lines, standard error among them."""

    def run(model, *paths) -> list[str]:
        options = {
            "model": str(model),
            "folder": str(tmp_path / "out"),
            "keep": ["subject"],
            "max_bad_share": 0.0,
        }
        monkeypatch.setattr(sys, "argv", ["batch", json.dumps(options), *map(str, paths)])
        monkeypatch.setattr(sys, "stderr", sys.stdout)
        batch.main()
        return capfd.readouterr().out.splitlines()

    return run


def test_bad_files_stop_no_other_and_end_with_their_own_status(classification, tmp_path, run):
    good, bad, damaged, other = (
        tmp_path / name for name in ("good.jsonl", "bad.jsonl", "x.parquet", os.fsdecode(b"caf\xe9.jsonl"))
    )
    for path in (good, other):
        path.write_text(PAIR * 3)
    bad.write_text('{"subject": "the parcel"}\n')
    damaged.write_bytes(b"PAR1")
    lines = run(classification / "models/onnx", good, bad, damaged, tmp_path / "gone.jsonl", other)
    statuses = {1: 0, 2: 65, 3: 65, 4: 1, 5: 0}
    markers = [
        line
        for number, status in statuses.items()
        for line in (f"file {number} begins", f"file {number} ends with status {status}")
    ]
    assert [line for line in lines if line in markers] == markers
    start, end = lines.index("file 2 begins"), lines.index("file 2 ends with status 65")
    assert lines[start + 1].startswith("tuneline predict: ")
    assert "no column 'body'" in "".join(lines[start:end])
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["1.parquet", "5.parquet"]
    assert pq.read_table(tmp_path / "out/5.parquet").column_names[:3] == ["row", "subject", "label"]
