"""The small pipeline after ``export`` and after ``compare``, made once in a session: an export takes seconds.

Only copy the folders.
"""

import shutil
from pathlib import Path

import pytest

import stages.compare
import stages.export
from tests.conftest import made_once
from tests.small_pipeline import write_pipeline
from tuneline.model.tokens.long_text import LongText, WindowsRecord

GENEROUS = {"compare.int8.min_agreement": 0.8, "compare.int8.max_metric_drop": 0.2}


LONG_TEXTS = {
    "truncate": LongText(),
    "windows": LongText(long_text="windows", windows=WindowsRecord(stride=3, max_windows=4, answer="mean")),
}


def exported_pipeline(
    factory: pytest.TempPathFactory,
    task: str,
    long_text: str = "truncate",
    columns: tuple[str, ...] = ("subject", "body"),
) -> Path:
    """Return a project in which ``export`` has run, for a classification or a regression."""

    def make(folder: Path) -> None:
        folder.mkdir()
        write_pipeline(folder, task == "regression", GENEROUS, LONG_TEXTS[long_text], columns)
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            stages.export.main()

    return made_once(factory, f"exported-{task}-{long_text}-{len(columns)}", make)


def published_pipeline(
    factory: pytest.TempPathFactory,
    task: str,
    long_text: str = "truncate",
    columns: tuple[str, ...] = ("subject", "body"),
) -> Path:
    """Return a project in which ``compare`` has published the models."""

    def make(folder: Path) -> None:
        shutil.copytree(exported_pipeline(factory, task, long_text, columns), folder)
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            stages.compare.main()

    return made_once(factory, f"published-{task}-{long_text}-{len(columns)}", make)
