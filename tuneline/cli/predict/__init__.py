"""``tuneline predict``: the exported model on files of any size. Imports no torch, which would take seconds to start."""

import codecs
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import typer

from tuneline.cli.predict.targets import check_target, descriptor
from tuneline.errors import DataError, InputError, StageError, UnreadableError
from tuneline.readers.bad_rows import MAX_SHARE, Action, BadRowPolicy
from tuneline.readers.limits import DEFAULT_LIMITS, MB, Limits
from tuneline.readers.rows import Kind
from tuneline.readers.special_files import not_a_file
from tuneline.terminal import say

BAD_ROW_OPTIONS = "--bad-rows skip", "--max-bad-share"
BATCH_SIZE, WINDOW = 32, 4096
"""Default rows per forward pass, and rows in memory."""

FileArgument = Annotated[Path, typer.Argument(metavar="[FILE]", help="CSV, TSV, JSONL or Parquet, plain or .gz; - for standard input")]
OutputArgument = Annotated[Path, typer.Option("--output", "-o", help="JSONL, CSV, TSV or Parquet; - for standard output (JSONL)")]
Model = Annotated[Path, typer.Option("--model", "-m", help="A folder of exported models, or one .onnx file")]
Precision = Annotated[Literal["fp32", "fp16", "int8"] | None, typer.Option(help="Model of the folder; default: fp32")]
InputKind = Annotated[Kind | None, typer.Option("--input-format", help="Format of the input; default: by its suffix")]
OutputKind = Annotated[Kind | None, typer.Option("--output-format", help="Format of the output; default: by its suffix")]
Text = Annotated[list[str] | None, typer.Option("--text", metavar="COLUMN", help="Text column; twice for a pair. Default: as in training")]
Keep = Annotated[list[str] | None, typer.Option("--keep", metavar="COLUMN", help="Column to copy into the output; may be repeated")]
BadRows = Annotated[Action, typer.Option(help="A row that cannot be read or has no text. stop: an error; skip: it is left out")]
MaxBadShare = Annotated[float, typer.Option(min=0, max=1, help="skip: largest fraction of the rows; with more, FILE is refused")]
Delimiter = Annotated[str | None, typer.Option(help="Delimiter of CSV and TSV: one character")]
Quoting = Annotated[
    Literal["standard", "literal"] | None,
    typer.Option(help="standard: quotes enclose fields (CSV); literal: quotes are text (TSV)"),
]
ColumnNames = Annotated[str | None, typer.Option("--columns", metavar="A,B,...", help="Names for CSV and TSV without a header line")]
Encoding = Annotated[str, typer.Option(help="Encoding of CSV, TSV and JSONL")]
MaxCell = Annotated[int, typer.Option(min=1, help="Longest cell of the input; longer ones are refused")]
MaxRowGroup = Annotated[int, typer.Option(min=1, max=2047, help="Largest row group of a Parquet file, decoded")]
MaxUnpacked = Annotated[int, typer.Option(min=1, help="Largest input after unpacking and decoding")]
BatchSize = Annotated[int, typer.Option(min=1, help="Rows per forward pass")]
Window = Annotated[int, typer.Option(min=1, help="Rows in memory, which are sorted by length")]
Threads = Annotated[int | None, typer.Option(min=1, help="Threads of the model; default: all cores")]

SATURATION_WARNING = (
    "warning: this model has 8-bit weights, and this processor clips their products (it has no VNNI instructions). They are multiplied "
    "in a slower way that does not clip; other programs need session.x64quantprecision=1 for that. "
    "export.int8.reduce_range: true makes a model for every processor."
)


def command(  # noqa: PLR0917 - typer calls it by name
    file: FileArgument = Path("-"),
    output: OutputArgument = Path("-"),
    model: Model = Path("models/onnx"),
    precision: Precision = None,
    input_format: InputKind = None,
    output_format: OutputKind = None,
    text: Text = None,
    keep: Keep = None,
    bad_rows: BadRows = "stop",
    max_bad_share: MaxBadShare = MAX_SHARE,
    delimiter: Delimiter = None,
    quoting: Quoting = None,
    columns: ColumnNames = None,
    encoding: Encoding = "utf-8",
    max_cell_characters: MaxCell = DEFAULT_LIMITS.cell,
    max_row_group_mb: MaxRowGroup = DEFAULT_LIMITS.row_group // MB,
    max_unpacked_mb: MaxUnpacked = DEFAULT_LIMITS.unpacked // MB,
    batch_size: BatchSize = BATCH_SIZE,
    window: Window = WINDOW,
    threads: Threads = None,
) -> None:
    """Predict the label of every row of a file, with probabilities, with the exported model.

    The exit status is 65 if FILE is invalid, and 1 for every other error, such as a damaged model or a full disk.
    """
    from tuneline.cli.predict.model import DeployedModel
    from tuneline.cli.predict.streaming import StreamOptions, predict_file
    from tuneline.cli.predict.writing import Output
    from tuneline.inputs import Input, InputColumns, kind_of
    from tuneline.readers.delimited import Dialect

    check(file, output, delimiter, encoding)
    source = None if str(file) == "-" else file
    target = None if str(output) == "-" or descriptor(output) == 1 else output
    kind = input_format or kind_of(source, "--input-format")
    dialect = Dialect.default(kind == "tsv", delimiter, quoting, columns.split(",") if columns else None)
    deployed = DeployedModel.load(model, precision, threads)
    if deployed.classifier.exact_products:
        say(SATURATION_WARNING, error=True)
    used = InputColumns(text_columns(text, deployed.text_columns), tuple(dict.fromkeys(keep or ())))
    written = Output(target, output_format or kind_of(target, "--output-format"))
    limits = Limits.of(max_cell_characters, max_row_group_mb, max_unpacked_mb)
    given = Input(source, kind, dialect, encoding, limits)
    with refusing():
        predict_file(
            deployed, given, used, written, StreamOptions(batch_size, window, BadRowPolicy(bad_rows, max_bad_share, *BAD_ROW_OPTIONS))
        )


@contextmanager
def refusing() -> Iterator[None]:
    """Turn a ``DataError`` into an ``InputError``, where only the input is read: the model is loaded, the writer raises ``StageError``."""
    try:
        yield
    except UnreadableError:
        raise
    except DataError as error:
        raise InputError(error.problem, error.hint) from None


def check(file: Path, output: Path, delimiter: str | None, encoding: str) -> None:
    """Check paths and options before anything is loaded.

    Raises:
        StageError: The file is missing, is none, or is also the output, or an option is invalid.
    """
    if str(file) != "-":
        check_input(file)
    check_target(output)
    if str(file) != "-" and output.exists() and not output.is_char_device() and output.samefile(file):
        raise StageError(f"--output: {output} is also the input, which would be overwritten.", "Name another file.")
    if delimiter is not None and len(delimiter) != 1:
        raise StageError(f"--delimiter: {delimiter!r} is not one character.")
    try:
        codecs.lookup(encoding)
    except LookupError:
        raise StageError(
            f"--encoding: {encoding!r} is not an encoding that Python knows.", "utf-8, cp1252 and latin-1 are common."
        ) from None


def check_input(file: Path) -> None:
    """Check what the input is, before it is opened. A named pipe is waited for until a program writes to it, so it is named.

    Raises:
        StageError: It is not a file, a pipe or standard input.
    """
    if descriptor(file) is not None:
        return
    if file.is_fifo():
        say(f"{file} is a named pipe: reading what another program writes to it.", error=True)
    elif problem := not_a_file(file):
        raise StageError(f"{file} {problem}.", "Name a file in it." if file.is_dir() else "Check the path; - is standard input.")


def text_columns(named: list[str] | None, trained: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns that hold the text: those that ``--text`` names, or those of the training data.

    Raises:
        StageError: Their number is not the one that the model was trained on.
    """
    if named and len(named) != len(trained):
        required = "one text, as in --text body" if len(trained) == 1 else "two texts, as in --text subject --text body"
        raise StageError(f"--text: {len(named)} given, but the model takes {required}.", f"It was trained on {' and '.join(trained)}.")
    return tuple(named) if named else trained
