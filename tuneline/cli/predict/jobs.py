"""Predictions for many files by one process, which loads the model once: flow ``score`` starts it.

What goes in and comes out is in ``tuneline/prediction_jobs.py``. A fault of one file stops no other.
"""

import io
import json
import sys
from contextlib import ExitStack, redirect_stderr
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tuneline.cli.predict import BATCH_SIZE, SATURATION_WARNING, WINDOW, refusing
from tuneline.engines import engine, map_tasks
from tuneline.errors import StageError
from tuneline.files.disk_errors import explain_disk_errors
from tuneline.prediction_jobs import BEGINS, ENDS, JobOptions
from tuneline.readers.bad_rows import BadRowPolicy
from tuneline.readers.limits import Limits
from tuneline.terminal import say, say_exception

if TYPE_CHECKING:
    from tuneline.cli.predict.model import DeployedModel


def main() -> None:
    """Predict all files; exit with an error only if the model or the engine cannot be used."""
    options = JobOptions(**json.loads(sys.argv[1]))
    jobs = [Job(name, str(Path(options.folder, f"{number}.parquet")), options) for number, name in enumerate(sys.argv[2:], start=1)]
    with ExitStack() as stack:
        try:
            check_model(options)
            stack.enter_context(engine(options))
        except StageError as error:
            say(f"tuneline predict: {error}", error=True)
            sys.exit(error.status)
        results = map_tasks(predict_job, jobs, options, name="score")
        for number in range(1, len(jobs) + 1):
            say(BEGINS.format(number=number))
            status, said = next(results)
            if said:
                say(said, error=True)
            say(ENDS.format(number=number, status=status))


@dataclass(frozen=True)
class Job:
    """A file to predict.

    Attributes:
        path: The file.
        output: Its predictions.
        options: What all files have in common.
    """

    path: str
    output: str
    options: JobOptions


def predict_job(job: Job) -> tuple[int, str]:
    """Predict a file.

    Returns:
        The exit status, and what a worker of another process has printed.
    """
    if job.options.engine == "local":
        return predict(Path(job.path), Path(job.output), job.options), ""
    with redirect_stderr(io.StringIO()) as said:
        status = predict(Path(job.path), Path(job.output), job.options)
    return status, said.getvalue().rstrip("\n")


def check_model(options: JobOptions) -> None:
    """Load the model.

    Raises:
        StageError: It is missing or damaged.
    """
    with explain_disk_errors():
        if load(options.model).classifier.exact_products:
            say(SATURATION_WARNING, error=True)


def load(model: str) -> "DeployedModel":
    """Load the model, once in a process.

    Raises:
        StageError: It is missing or damaged.
    """
    from tuneline.cli.predict.tasks import ModelChoice

    return ModelChoice(Path(model), None, None).load()


def predict(path: Path, output: Path, options: JobOptions) -> int:
    """Predict the rows of a file, print what is wrong with it, and return the status."""
    from tuneline.cli.predict.streaming import StreamOptions, predict_file
    from tuneline.cli.predict.writing import Output
    from tuneline.inputs import Input, InputColumns, kind_of
    from tuneline.readers.delimited import Dialect

    limits = Limits.of(options.max_cell_characters, options.max_row_group_mb, options.max_unpacked_mb)
    try:
        model = load(options.model)
        columns = InputColumns(model.text_columns, tuple(options.keep))
        with explain_disk_errors(), refusing():
            kind = kind_of(path, "the suffix")
            source = Input(path, kind, Dialect.default(kind == "tsv", None, None, None), limits=limits)
            policy = BadRowPolicy(options.bad_rows, options.max_bad_share, "scoring.bad_rows: skip", "scoring.max_bad_share")
            predict_file(model, source, columns, Output(output, "parquet"), StreamOptions(BATCH_SIZE, WINDOW, policy))
    except StageError as error:
        say(f"tuneline predict: {error}", error=True)
        return error.status
    except Exception:
        say_exception(*sys.exc_info())
        return 1
    return 0


if __name__ == "__main__":
    from tuneline.cli.predict import jobs  # noqa: PLW0406 - by its name, by which a worker of an engine imports it

    jobs.main()
