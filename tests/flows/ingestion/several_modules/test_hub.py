"""A branch of the hub is followed commit by commit."""

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.ingest import HubRevision, RefusedDataError
from tests.hub import LoopbackHub
from tests.params import change_params, write_params
from tests.shards import into_shards
from tuneline.params.loading import load_params
from tuneline.runtime.errors import ParamsError, StageError
from tuneline.settings import IngestSource

NAME = "someone/reviews"
SOURCE = IngestSource(name="hub", hub=True)


def raw(root: Path, **splits: list[str]) -> None:
    """Write ``data/raw``, as stage ``download`` would."""
    (root / "data/raw").mkdir(parents=True, exist_ok=True)
    for split, texts in splits.items():
        pq.write_table(
            pa.table({"text": texts, "labels": [0] * len(texts)}), root / f"data/raw/{split}.parquet"
        )


def found(root: Path, source: IngestSource = SOURCE) -> HubRevision | None:
    return HubRevision.find(source, load_params(root / "params.yaml").data, root)


def test_present_commit_of_the_branch_is_set_and_rows_of_the_test_split_must_not_move(tmp_path, monkeypatch):
    write_params(
        tmp_path, data={"source": "hub", "path": NAME, "text_columns": ["text"], "label_column": "label"}
    )
    params = tmp_path / "params.yaml"
    params.write_text(f"# My task\n{params.read_text()}# the end\n")
    raw(tmp_path, train=["a", "b"], validation=["c"], test=["d", "a"])
    into_shards(tmp_path / "data/raw", rows=1)
    with LoopbackHub(tmp_path / "hub") as hub:
        hub.connect(monkeypatch, tmp_path)
        commit = hub.add("datasets", NAME, {"train.csv": "text,label\n"})
        revision = found(tmp_path)
        assert load_params(params).data.revision == commit
        assert params.read_text().startswith("# My task\n")
        assert params.read_text().endswith("# the end\n")
        assert found(tmp_path) is None, "nothing new"
        with pytest.raises(StageError, match="'nosuch'"):
            found(tmp_path, SOURCE.model_copy(update={"revision": "nosuch"}))
    shutil.rmtree(tmp_path / "data/raw")
    raw(tmp_path, train=["a", "b", "e"], validation=["c"], test=["d", "f"])
    assert (revision.entry().added, revision.entry().revision) == (1, commit), "a was in train before"
    raw(tmp_path, train=["a", "b", "C"], validation=["e"])
    with pytest.raises(RefusedDataError, match=r"1 rows .* in train"):
        revision.entry()

    change_params(tmp_path, {"data.source": "files", "data.revision": None})
    with pytest.raises(ParamsError, match=r"data\.source"):
        found(tmp_path)
