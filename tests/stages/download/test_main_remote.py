"""``data.path: s3://...``: files of a storage are read like those of ``data/source/``."""

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from stages.download.__main__ import main
from stages.download.files import fetch
from tests.stages.download.made import TEST, TRAIN, VALIDATION, write_params
from tuneline.core.hashes import file_hash
from tuneline.readers.files import file_system
from tuneline.runtime.errors import DataError


def raw() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path("data/raw").glob("*.parquet")}


@pytest.mark.slow
def test_files_of_a_storage_give_the_splits_of_the_same_local_files(bucket, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files = {
        "train.csv": TRAIN,
        "train/2026-11-21-new.csv": VALIDATION,
        "validation.csv": VALIDATION,
        "test.csv": TEST,
    }
    for name, content in files.items():
        bucket.put(f"tickets/{name}", content.encode())
        path = Path("data/source/tickets", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    bucket.put("tickets/README.md", b"no rows")
    bucket.put("tickets/old/train.csv", b"of another time")
    write_params({"path": "tickets"})
    main()
    local = raw()
    shutil.rmtree("data/raw")
    write_params({"path": f"{bucket.url}/tickets"})
    main()
    assert raw() == local
    recorded = json.loads(Path("data/raw/source.json").read_text())["remote"]
    assert set(recorded) == {f"{bucket.url}/tickets/{name}" for name in files}
    assert recorded[f"{bucket.url}/tickets/train.csv"]["sha256"] == file_hash(
        Path("data/source/tickets/train.csv")
    )
    assert recorded[f"{bucket.url}/tickets/train.csv"]["version"]
    copies = Path("data/fetched/s3") / bucket.url.removeprefix("s3://") / "tickets"
    kept = (copies / "validation.csv").stat().st_mtime_ns
    bucket.put("tickets/train.csv", TRAIN.encode() + TRAIN.encode().partition(b"\n")[2])
    bucket.delete("tickets/train/2026-11-21-new.csv")
    main()
    assert pq.read_table("data/raw/train.parquet").num_rows == 2 * (TRAIN.count("\n") - 1)
    assert (copies / "validation.csv").stat().st_mtime_ns == kept, "an unchanged file is not fetched again"
    assert not (copies / "train/2026-11-21-new.csv").exists()


def test_wrong_address_is_explained(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files, _ = file_system("memory://")
    files.pipe({"/tickets/train.csv": TRAIN.encode()})
    with pytest.raises(DataError, match="tickets has no file of these splits"):
        fetch("memory://tickets", ["nothing"])
    with pytest.raises(DataError, match=r"nosuch/ (does not exist|has no files)"):
        fetch("memory://nosuch", ["train"])
    write_params({"path": "file:///etc"})
    with pytest.raises(DataError, match=r"data\.path: .*abfs://"):
        main()
