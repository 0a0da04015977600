"""The files that ``tuneline predict`` is told, and their results in a folder.

Each result is complete or absent. One that is there already, and is newer than its input and the model, is
not made again, so that a command that was killed goes on. The workers of Ray can make them.

Flow ``score`` starts this module as a process for each file: ``python -m tuneline.serve.batch FILE OUTPUT
MODEL MAX_BAD_SHARE COLUMN...``, with the columns to copy. The exit code is ``InputError.status`` if the file
is invalid.
"""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from tuneline.core.params.data import FilesParams
from tuneline.core.params.train import RunParams
from tuneline.core.repository.dvc import by_key
from tuneline.core.runtime.errors import DataError, InputError, StageError, explain_disk_errors, refusing
from tuneline.core.runtime.terminal import progress, say
from tuneline.core.stage.engines import map_tasks
from tuneline.onnx.records import ExportRecord
from tuneline.onnx.usage import EXPORT_RECORD
from tuneline.rows.proposals.files import fitting_input
from tuneline.rows.reading.formats import ENDINGS, FORMATS, data_input, format_of
from tuneline.rows.reading.rows import BadRowPolicy
from tuneline.rows.reading.tables import Format, Input, not_a_file
from tuneline.serve.columns import InputColumns
from tuneline.serve.model_choice import ModelChoice
from tuneline.serve.program_rows import BATCH_SIZE
from tuneline.serve.streaming import PredictedCounts, StreamOptions, predict_input
from tuneline.serve.writing import PredictionOutput


def named_sources(files: Sequence[str], target: Path | None) -> list[Path | None]:
    """Return the inputs, checked before they are opened.

    Args:
        files: Paths of files and folders; ``-`` is standard input, alone.
        target: Output, which must be no input; ``None`` for standard output.

    Returns:
        The files; ``None`` for standard input.
    """
    if list(files) == ["-"]:
        return [None]
    sources: list[Path | None] = []
    for name in files:
        path = Path(name)
        if path.is_dir():
            sources += _data_files(path)
        else:
            sources.append(path)
    for source in sources:
        if source is None or source.is_fifo():
            continue
        if problem := not_a_file(source):
            raise StageError(f"{source} {problem}.", "Check the path; - alone is standard input.")
        if target is not None and target.exists() and target.samefile(source):
            raise StageError(
                f"--output: {target} is also the input, which would be overwritten.", "Name another file."
            )
    return sources


def _data_files(folder: Path) -> list[Path]:
    """Return the files with rows in a folder."""
    files = []
    for path in sorted(folder.iterdir()):
        if path.name.lower().endswith(ENDINGS) and not path.name.startswith((".", "_")):
            files.append(path)
    if not files:
        raise DataError(f"{folder} has no file that ends in {', '.join(ENDINGS)}.", "Check the path.")
    return files


def named_format(name: str | None, sources: Sequence[Path | None]) -> Format | None:
    """Return the format that ``--input-format`` names; ``None``: each source says its own by its suffix."""
    if name is None:
        for source in sources:
            format_of(source, "--input-format")
        return None
    if name not in FORMATS:
        raise StageError(f"--input-format: {name!r} is not one of {', '.join(FORMATS)}.")
    return FORMATS[name]


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
    return predict_input(task.model.load(), task.source, task.columns, task.output, task.options)


def predict_to_folder(sources: Sequence[Input], folder: Path, task: FileTask, run: RunParams) -> None:
    """Write the predictions of each file to a file in a folder: of ``a.csv`` to ``a.csv.parquet``.

    Args:
        sources: The files.
        folder: The folder.
        task: A task with what all have in common.
        run: Where the files are predicted.

    Raises:
        StageError: Two results would have one name, or replace an input, or a task failed; the results of
            those that have ended stay.
    """
    started = time.perf_counter()
    kind = task.output.kind
    results: set[Path] = set()
    tasks = []
    for source in sources:
        path = source.path
        if path is None:
            raise StageError("--output: standard input has one result.", "Name a file.")
        result = folder / f"{path.name.removesuffix(f'.{kind}')}.{kind}"
        if result in results or (result.exists() and any(result.samefile(other.name) for other in sources)):
            raise StageError(
                f"--output: {result} would be the result of two files, or replace an input.",
                "Name another folder.",
            )
        results.add(result)
        if not _is_newer(result, path, task.model):
            output = PredictionOutput(result, kind)
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


def _is_newer(result: Path, path: Path, model: ModelChoice) -> bool:
    """Return True if a result is there, and newer than what it is made of."""
    if not result.is_file():
        return False
    record = model.file().parent / EXPORT_RECORD
    changes = []
    for source in (path, record, record.parent):
        # ctime: what mv, cp -p or rsync -t brings has an old mtime; lstat: a link may lead elsewhere since
        changes += [source.stat().st_ctime_ns, source.lstat().st_ctime_ns]
    return result.stat().st_mtime_ns > max(changes)


def main() -> None:
    """Predict a file; exit with what is wrong with it."""
    path, output, model, max_bad_share, *keep = sys.argv[1:]
    policy = BadRowPolicy(float(max_bad_share), "scoring.max_bad_share")
    try:
        with explain_disk_errors():
            predict_to_score(Path(path), Path(output), Path(model), policy, keep)
    except InputError as error:
        # Without its hint, which may quote the file: people read the reason who may not read the file.
        say(f"tuneline predict: {error.problem}", error=True)
        sys.exit(error.status)
    except StageError as error:
        say(f"tuneline predict: {error}", error=True)
        sys.exit(error.status)


def predict_to_score(
    path: Path, output: Path, folder: Path, policy: BadRowPolicy, keep: Sequence[str]
) -> None:
    """Predict the rows of a file of an inbox with the model in a folder, and answer by its rule."""
    model = ModelChoice(folder).load()
    columns = InputColumns(model.text_columns, tuple(keep))
    with refusing():
        source = input_to_score(path, folder)
        if source != source.format.usual(path):
            say(f"{path.name}: read as {source.described()}", error=True)
        started = time.perf_counter()
        options = StreamOptions(BATCH_SIZE, policy, model.rule)
        counts = predict_input(model, source, columns, PredictionOutput(output, "parquet"), options)
        counts.print_summary(model, started)


def input_to_score(path: Path, model: Path) -> Input:
    """Return a file to score, as ``data.files`` of the model describes its data; else as it is detected.

    Args:
        path: The file.
        model: Folder of the model.

    Raises:
        DataError: The file cannot be read, or is doubtful.
    """
    record = ExportRecord.read(model / EXPORT_RECORD)
    params = by_key(stage.parameters for stage in record.provenance.stages.values())
    try:
        files = FilesParams.model_validate(params.get("data.files", {}))
    except ValidationError:  # of another version
        files = FilesParams()
    return fitting_input(data_input(path, files), record.text_columns)


if __name__ == "__main__":
    main()
