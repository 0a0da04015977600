"""The process of flow ``score``: a file has a result, or a status that says whose fault it is."""

import sys

import pyarrow.parquet as pq
import pytest

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
