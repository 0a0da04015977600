"""Predictions for many files by one process, which loads the model once: flow ``score`` starts it.

``python -m tuneline.cli.predict.jobs OPTIONS FILE...``: OPTIONS are those of ``JobOptions`` as JSON. The predictions of the n-th file
are in ``n.parquet``. What is printed about a file is between the lines ``BEGINS`` and ``ENDS``, which has the exit status that
``tuneline predict`` would have had: a fault of one file stops no other.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tuneline.cli.predict import BATCH_SIZE, SATURATION_WARNING, WINDOW, BadRows, refusing
from tuneline.errors import StageError
from tuneline.files.disk_errors import explain_disk_errors
from tuneline.readers.limits import Limits
from tuneline.terminal import say, say_exception

if TYPE_CHECKING:
    from tuneline.cli.predict.model import DeployedModel

BEGINS = "file {number} begins"
ENDS = "file {number} ends with status {status}"


@dataclass(frozen=True)
class JobOptions:
    """What the files have in common.

    Attributes:
        model: Folder of the model.
        folder: Folder of the predictions.
        keep: Columns that are copied into the output.
        bad_rows: What to do about a row that cannot be predicted.
        max_cell_characters: Longest cell of an input.
        max_row_group_mb: Largest row group of a Parquet file, decoded.
        max_unpacked_mb: Largest input after unpacking and decoding.
    """

    model: str
    folder: str
    keep: Sequence[str]
    bad_rows: BadRows
    max_cell_characters: int
    max_row_group_mb: int
    max_unpacked_mb: int


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
            predict_file(model, source, columns, Output(output, "parquet"), StreamOptions(BATCH_SIZE, WINDOW, options.bad_rows))
    except StageError as error:
        say(f"tuneline predict: {error}", error=True)
        return error.status
    except Exception:
        say_exception(*sys.exc_info())
        return 1
    return 0


if __name__ == "__main__":
    main()
