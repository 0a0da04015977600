"""A folder of its own for each test, with good files in it, and the stage run on them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stages.download import main
from tests.stages.download.made import GOOD, Content, write_params, write_source


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project, and the working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def download(project: Path) -> Callable[..., dict[str, pa.Table]]:
    """Runs the stage on some files and gives back what it wrote, by split."""

    def run(
        files: Mapping[str, Content] | None = None, data: Mapping[str, Any] | None = None, **sections: Any
    ) -> dict[str, pa.Table]:
        write_source(
            project / "data/source" / str((data or {}).get("path") or ""), GOOD if files is None else files
        )
        write_params(data or {}, **sections)
        main()
        return {
            split: pq.read_table(f"data/raw/{split}.parquet") for split in ("train", "validation", "test")
        }

    return run
