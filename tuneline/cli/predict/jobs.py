"""Predictions for many files by one process, which loads the model once: flow ``score`` starts it.

What goes in and comes out is in ``tuneline/prediction_jobs.py``. A fault of one file stops no other.
"""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tuneline.cli.predict import BATCH_SIZE, SATURATION_WARNING, WINDOW, refusing
from tuneline.errors import StageError
from tuneline.files.disk_errors import explain_disk_errors
from tuneline.prediction_jobs import BEGINS, ENDS, JobOptions
from tuneline.readers.bad_rows import BadRowPolicy
from tuneline.readers.limits import Limits
from tuneline.terminal import say, say_exception

if TYPE_CHECKING:
    from tuneline.cli.predict.model import DeployedModel


def main() -> None:
    """Predict all files; exit with an error only if the model cannot be used."""
    options = JobOptions(**json.loads(sys.argv[1]))
    try:
        model = load(options)
    except StageError as error:
        say(f"tuneline predict: {error}", error=True)
        sys.exit(error.status)
    for number, path in enumerate(map(Path, sys.argv[2:]), start=1):
        say(BEGINS.format(number=number))
        status = predict(model, path, Path(options.folder, f"{number}.parquet"), options)
        say(ENDS.format(number=number, status=status))


def load(options: JobOptions) -> "DeployedModel":
    """Load the model.

    Raises:
        StageError: It is missing or damaged.
    """
    from tuneline.cli.predict.model import DeployedModel

    with explain_disk_errors():
        model = DeployedModel.load(Path(options.model), None, None)
    if model.classifier.exact_products:
        say(SATURATION_WARNING, error=True)
    return model


def predict(model: "DeployedModel", path: Path, output: Path, options: JobOptions) -> int:
    """Predict the rows of a file, print what is wrong with it, and return the status."""
    from tuneline.cli.predict.streaming import StreamOptions, predict_file
    from tuneline.cli.predict.writing import Output
    from tuneline.inputs import Input, InputColumns, kind_of
    from tuneline.readers.delimited import Dialect

    limits = Limits.of(options.max_cell_characters, options.max_row_group_mb, options.max_unpacked_mb)
    columns = InputColumns(model.text_columns, tuple(options.keep))
    try:
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
    main()
