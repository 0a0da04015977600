"""Projects in which the pipeline has run up to ``compare``, and the command to run in them."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.exported_pipeline import published_pipeline
from tuneline.cli import app

PAIR = '{"subject": "the parcel", "body": "is missing"}\n'


def lines_of(text: str) -> list[dict[str, Any]]:
    """Return the objects of JSON Lines."""
    return [json.loads(line) for line in text.splitlines()]


def published(factory: pytest.TempPathFactory, task: str) -> Path:
    return Path(shutil.copytree(published_pipeline(factory, task), factory.mktemp(task) / "project"))


@pytest.fixture(scope="session")
def classification(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a classifier of (subject, body) into three queues."""
    return published(tmp_path_factory, "classification")


@pytest.fixture(scope="session")
def regression(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same project for a regression."""
    return published(tmp_path_factory, "regression")


@pytest.fixture
def predict(classification: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Run ``tuneline predict`` in an empty folder, with the classifier."""
    monkeypatch.chdir(tmp_path)

    def run(
        *words: object, model: Path = classification / "models/onnx", given: bytes | None = None
    ) -> Result:
        arguments = ["predict", *map(str, words), "--model", str(model)]
        return CliRunner().invoke(app, arguments, input=given)

    return run
