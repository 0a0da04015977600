"""A project, and a hub on loopback with a small checkpoint."""

from pathlib import Path

import pytest

from tests.checkpoints import checkpoint_files
from tests.hub import LoopbackHub
from tests.params import write_params

NAME = "someone/small-bert"


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    """A project that fine-tunes the checkpoint of the hub, as the working directory."""
    folder = tmp_path / "project"
    (folder / "models/source").mkdir(parents=True)
    monkeypatch.chdir(folder)
    use_checkpoint(folder, NAME)
    return folder


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub with the checkpoint, to which the client in this process is connected."""
    with LoopbackHub(tmp_path / "hub") as hub:
        hub.connect(monkeypatch, tmp_path / "home")
        hub.add("models", NAME, checkpoint_files(), branches=("main", "stable"))
        yield hub


def use_checkpoint(folder: Path, name: str | None, revision: str | None = None, **sections) -> None:
    """Write ``params.yaml`` with a checkpoint."""
    model = {"checkpoint": name, "revision": revision, "config": {} if name else {"model_type": "bert"}}
    write_params(folder, model=model, train={"learning_rate": 5e-5}, **sections)
