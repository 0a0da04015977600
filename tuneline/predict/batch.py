"""The files that ``tuneline predict`` is told, and their results in a folder.

Each result is complete or absent. One that is there already, and is newer than its input and the model, is
not made again, so that a command that was killed goes on. The workers of Ray can make them.

Flow ``score`` starts this module as a process, which loads the model once for many files, and in which a
fault of one file stops no other.
"""

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tuneline.engines import EngineOptions, map_tasks
from tuneline.onnx.usage import EXPORT_RECORD
from tuneline.predict.columns import InputColumns
from tuneline.predict.model_choice import ModelChoice
from tuneline.predict.scored import BEGINS, ENDS, JobOptions, input_to_score
from tuneline.predict.streaming import PredictedCounts, StreamOptions, predict_input
from tuneline.predict.writing import PredictionOutput
from tuneline.program.program_rows import BATCH_SIZE
from tuneline.readers.formats import ENDINGS
from tuneline.readers.rows import BadRowPolicy
from tuneline.readers.tables import Input
from tuneline.readers.text import not_a_file
from tuneline.runtime.disk_errors import explain_disk_errors
from tuneline.runtime.errors import DataError, InputError, StageError, refusing
from tuneline.runtime.terminal import progress, say, say_exception


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


def predict_to_folder(sources: Sequence[Input], folder: Path, task: FileTask, run: EngineOptions) -> None:
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
    return result.stat().st_mtime_ns > max(record.stat().st_mtime_ns, path.stat().st_mtime_ns)


def main() -> None:
    """Predict all files; exit with an error only if the model or the engine cannot be used."""
    options = JobOptions(**json.loads(sys.argv[1]))
    # The model is loaded here, too, so that a damaged one is reported once and not for each file.
    try:
        with explain_disk_errors():
            ModelChoice(Path(options.model)).load()
    except StageError as error:
        say(f"tuneline predict: {error}", error=True)
        sys.exit(error.status)
    for number, name in enumerate(sys.argv[2:], start=1):
        say(BEGINS.format(number=number))
        status = run_job(Path(name), Path(options.folder, f"{number}.parquet"), options)
        say(ENDS.format(number=number, status=status))


def run_job(path: Path, output: Path, options: JobOptions) -> int:
    """Predict the rows of a file, print what is wrong with it, and return the status."""
    try:
        model = ModelChoice(Path(options.model)).load()
        columns = InputColumns(model.text_columns, tuple(options.keep))
        with explain_disk_errors(), refusing():
            source = input_to_score(path, Path(options.model))
            if source.layout != source.layout.format.usual:
                say(f"{path.name}: read as {source.layout.described()}", error=True)
            policy = BadRowPolicy(options.max_bad_share, "scoring.max_bad_share")
            started = time.perf_counter()
            counts = predict_input(
                model,
                source,
                columns,
                PredictionOutput(output, "parquet"),
                StreamOptions(BATCH_SIZE, policy),
            )
            counts.print_summary(model, started)
    except InputError as error:
        # Without its hint, which may quote the file: people read the reason who may not read the file.
        say(f"tuneline predict: {error.problem}", error=True)
        return error.status
    except StageError as error:
        say(f"tuneline predict: {error}", error=True)
        return error.status
    except Exception:
        say_exception(*sys.exc_info())
        return 1
    return 0


if __name__ == "__main__":
    main()
