"""The process of flow ``score``: a file has a result, or a status that says whose fault it is."""

import json
import shutil
import sys

import pyarrow.parquet as pq
import pytest

from tests.small_pipeline import QUEUES
from tests.tuneline.cli.predict.conftest import PAIR, published
from tuneline.serve import batch


@pytest.fixture(scope="module")
def classification(tmp_path_factory):
    """Return a project with a classifier of (subject, body) into three queues."""
    return published(tmp_path_factory, "classification")


@pytest.mark.parametrize(
    ("name", "content", "status"),
    [
        ("good.jsonl", PAIR.encode() * 3, 0),
        ("bad.jsonl", b'{"subject": "the parcel"}\n', 65),
        ("damaged.parquet", b"PAR1", 65),
        ("gone.jsonl", None, 1),
    ],
)
def test_file_has_a_result_or_a_status(
    classification, tmp_path, monkeypatch, capsys, *, name, content, status
):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    output = tmp_path / "out.parquet"
    words = [tmp_path / name, output, classification / "models/onnx", 0.0, "subject"]
    monkeypatch.setattr(sys, "argv", ["batch", *map(str, words)])
    if status:
        with pytest.raises(SystemExit) as ended:
            batch.main()
        assert ended.value.code == status
        assert capsys.readouterr().err.startswith("tuneline predict: ")
        assert not output.exists()
    else:
        batch.main()
        assert pq.read_table(output).column_names[:3] == ["row", "subject", "label"]


def test_costs_decide_about_answers_as_in_the_command(classification, tmp_path, monkeypatch):
    (tmp_path / "rows.jsonl").write_text(PAIR * 3)
    folder = shutil.copytree(classification / "models/onnx", tmp_path / "model")
    record = json.loads((folder / "export.json").read_text())
    errors = {right: {answer: 1.0 for answer in QUEUES if answer != right} for right in QUEUES}
    record["models"]["fp32"]["costs"] = {"errors": errors, "abstain": 0.01}
    (folder / "export.json").write_text(json.dumps(record))
    words = [tmp_path / "rows.jsonl", tmp_path / "out.parquet", folder, 0.0]
    monkeypatch.setattr(sys, "argv", ["batch", *map(str, words)])
    batch.main()
    table = pq.read_table(tmp_path / "out.parquet")
    assert table["label"].to_pylist() == [None] * 3
    assert table["abstained"].to_pylist() == [True] * 3
