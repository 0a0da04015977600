"""Prediction of many files into a folder, one after the other or by the workers of Ray.

Each result is complete or absent. One that is there already, and is newer than its input and the model, is
not made again, so that a command that was killed goes on.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuneline.engines import EngineOptions, map_tasks
from tuneline.onnx.usage import EXPORT_RECORD
from tuneline.predict import Kind
from tuneline.predict.model_choice import ModelChoice
from tuneline.predict.named_files import as_path, is_remote
from tuneline.predict.streaming import PredictedCounts, StreamOptions, predict_inputs
from tuneline.predict.writing import PredictionOutput
from tuneline.readers.files import DataFile, RemoteFile, file_system
from tuneline.readers.inputs import InputColumns
from tuneline.readers.tables import Input
from tuneline.runtime.errors import StageError
from tuneline.runtime.terminal import progress, say


@dataclass(frozen=True)
class FileTask:
    """A file to predict into a file."""

    model: ModelChoice
    source: Input
    columns: InputColumns
    output: PredictionOutput
    options: StreamOptions


def predict_task(task: FileTask) -> PredictedCounts:
    """Write the predictions of a file."""
    return predict_inputs(task.model.load(), [task.source], task.columns, task.output, task.options)


def result_folder(word: str) -> Path | str | None:
    """Return the folder or URL that ``--output`` names; ``None`` if it names a file.

    The name of a folder ends in a slash, unless the folder exists on this machine.
    """
    if is_remote(word):
        return word.rstrip("/") if word.endswith("/") else None
    path = as_path(word)
    return path if word.endswith("/") or path.is_dir() else None


def predict_to_folder(
    sources: Sequence[Input],
    folder: Path | str,
    task: FileTask,
    run: EngineOptions,
) -> None:
    """Write the predictions of each file to a file in a folder: of ``a.csv`` to ``a.csv.parquet``.

    Args:
        sources: The files.
        folder: The folder, or its URL.
        task: A task with what all have in common.
        run: Where the files are predicted.

    Raises:
        StageError: Two results would have one name, or replace an input, or a task failed; the results of
            those that have ended stay.
    """
    started = time.perf_counter()
    made: dict[DataFile, DataFile] = {}
    tasks = []
    for source in sources:
        path = _path(source)
        result = _result(folder, path, task.output.kind)
        if result in made:
            raise StageError(
                f"--output: the results of {made[result]} and {path} would have one name.",
                "Predict them into two folders.",
            )
        if result in map(_path, sources):
            message = f"--output: {result} is also an input, which would be overwritten."
            raise StageError(message, "Name another folder.")
        made[result] = path
        if not _is_newer(result, path, task.model):
            output = PredictionOutput(result, task.output.kind, excel_safe=task.output.excel_safe)
            tasks.append(FileTask(task.model, source, task.columns, output, task.options))
    if len(tasks) < len(sources):
        kept = f"{len(sources) - len(tasks)} of {len(sources)} results"
        say(f"{folder} has {kept} already; they are kept. Remove them to predict anew.", error=True)

    counts = PredictedCounts()
    with progress("predict", len(tasks), "files") as step:
        for result_counts in map_tasks(predict_task, tasks, run, name="predict"):
            counts.add(result_counts)
            step.advance(1)
    counts.print_summary(task.model.load(), started)


def _path(source: Input) -> DataFile:
    if source.path is None:
        raise ValueError("standard input has no result of its own")
    return source.path


def _result(folder: Path | str, path: DataFile, kind: Kind) -> DataFile:
    name = f"{path.name.removesuffix(f'.{kind}')}.{kind}"
    return folder / name if isinstance(folder, Path) else RemoteFile(f"{folder}/{name}")


def _is_newer(result: DataFile, path: DataFile, model: ModelChoice) -> bool:
    """Return True if a result is there, and newer than what it is made of; on a storage, if it is there."""
    if isinstance(result, RemoteFile):
        files: Any
        files, inside = file_system(result.url)
        return bool(files.exists(inside))
    if not result.is_file():
        return False
    record = model.file().parent / EXPORT_RECORD
    made_of = [record.stat().st_mtime_ns]
    if isinstance(path, Path):
        made_of.append(path.stat().st_mtime_ns)
    return result.stat().st_mtime_ns > max(made_of)
