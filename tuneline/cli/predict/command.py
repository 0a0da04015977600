"""``tuneline predict``: reads files or standard input, writes a label and probabilities for each row."""

import codecs
import os
import sys
import time
from pathlib import Path
from typing import Annotated, Literal

import typer

from tuneline.errors import StageError

Kind = Literal["csv", "tsv", "jsonl", "parquet"]
FileArgument = Annotated[Path, typer.Argument(metavar="[FILE]", help="CSV, TSV, JSONL or Parquet, plain or .gz; - for standard input")]
Output = Annotated[Path, typer.Option("--output", "-o", help="JSONL, CSV, TSV or Parquet; - for standard output (JSONL)")]
Model = Annotated[Path, typer.Option("--model", "-m", help="A folder of exported models, or one .onnx file")]
Precision = Annotated[Literal["fp32", "fp16", "int8"] | None, typer.Option(help="Which model of the folder; fp32 unless given")]
InputKind = Annotated[Kind | None, typer.Option("--input-format", help="What the file's name does not tell")]
OutputKind = Annotated[Kind | None, typer.Option("--output-format", help="What the file's name does not tell")]
Text = Annotated[list[str] | None, typer.Option("--text", metavar="COLUMN", help="Text column; twice for a pair. As trained unless given")]
Keep = Annotated[list[str] | None, typer.Option("--keep", metavar="COLUMN", help="Column that goes into the output; may be repeated")]
BadRows = Annotated[Literal["stop", "skip"], typer.Option(help="What to do about a row that cannot be read")]
Delimiter = Annotated[str | None, typer.Option(help="Of CSV and TSV, one character")]
Quoting = Annotated[Literal["standard", "literal"] | None, typer.Option(help="Of CSV (standard) and TSV (literal)")]
ColumnNames = Annotated[str | None, typer.Option("--columns", metavar="A,B,...", help="Names for CSV and TSV without a header line")]
Encoding = Annotated[str, typer.Option(help="Of CSV, TSV and JSONL")]
BatchSize = Annotated[int, typer.Option(min=1, help="Rows that the model sees at a time")]
Window = Annotated[int, typer.Option(min=1, help="Rows in memory, sorted by length together")]
Threads = Annotated[int | None, typer.Option(min=1, help="Threads of the model; all cores unless given")]

SATURATES = (
    "warning: this model has 8-bit weights, and this processor clips their products (it has no VNNI instructions). They are multiplied "
    "in a slower way that does not clip; other programs need session.x64quantprecision=1 for that. "
    "export.int8.reduce_range: true makes a model for every processor."
)


def command(  # noqa: PLR0917 - typer calls it by name
    file: FileArgument = Path("-"),
    output: Output = Path("-"),
    model: Model = Path("models/onnx"),
    precision: Precision = None,
    input_format: InputKind = None,
    output_format: OutputKind = None,
    text: Text = None,
    keep: Keep = None,
    bad_rows: BadRows = "stop",
    delimiter: Delimiter = None,
    quoting: Quoting = None,
    columns: ColumnNames = None,
    encoding: Encoding = "utf-8",
    batch_size: BatchSize = 32,
    window: Window = 4096,
    threads: Threads = None,
) -> None:
    """Predict the label of every row of a file, with probabilities, by the exported model."""
    from tuneline.cli.predict.model import ServedModel
    from tuneline.cli.predict.opening import Input, kind_of, open_rows
    from tuneline.cli.predict.rows import Wanted
    from tuneline.cli.predict.streaming import Pace, predict_rows
    from tuneline.cli.predict.textfiles import Dialect
    from tuneline.cli.predict.writing import Columns, open_writer

    check(file, output, delimiter, encoding)
    source, target = (None if str(place) == "-" else place for place in (file, output))
    kind = input_format or (kind_of(source, "--input-format") if source else "jsonl")
    dialect = Dialect(
        delimiter or ("\t" if kind == "tsv" else ","),
        (quoting or ("literal" if kind == "tsv" else "standard")) == "literal",
        tuple(columns.split(",")) if columns else None,
    )
    served = ServedModel.load(model, precision, threads)
    if served.classifier.exact_products:
        print(SATURATES, file=sys.stderr)
    wanted = Wanted(text_columns(text, served.text_columns), tuple(keep or ()))
    written = output_format or (kind_of(target, "--output-format") if target else "jsonl")
    started = time.perf_counter()
    try:
        with (
            open_rows(Input(source, kind, dialect, encoding), wanted) as opened,
            open_writer(target, written, Columns(served.labels, wanted.kept)) as writer,
        ):
            tally = predict_rows(served, opened, writer, Pace(batch_size, window, bad_rows))
    except BrokenPipeError:  # whoever read standard output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(1) from None
    seconds = time.perf_counter() - started
    skipped = f", {tally.skipped:,} skipped" if tally.skipped else ""
    print(f"{tally.predicted:,} rows{skipped} in {seconds:.1f} s, {tally.predicted / seconds:,.0f} rows/s", file=sys.stderr)


def check(file: Path, output: Path, delimiter: str | None, encoding: str) -> None:
    """Refuses what cannot work before anything is loaded.

    Raises:
        StageError: The file is not there, or is the output too, or an option is not what it should be.
    """
    if str(file) != "-" and (file.is_dir() or not file.exists()):
        raise StageError(f"{file} is a folder; name a file in it." if file.is_dir() else f"{file} is not there.")
    if "-" not in {str(file), str(output)} and output.exists() and output.samefile(file):
        raise StageError(f"--output: {output} is the input; it would be lost.", "Name another file.")
    if delimiter is not None and len(delimiter) != 1:
        raise StageError(f"--delimiter: one character is wanted, not {delimiter!r}.")
    try:
        codecs.lookup(encoding)
    except LookupError:
        raise StageError(f"--encoding: {encoding!r} is no encoding that Python knows.", "utf-8, cp1252 and latin-1 are common.") from None


def text_columns(given: list[str] | None, trained: tuple[str, ...]) -> tuple[str, ...]:
    """The columns that hold the text.

    Raises:
        StageError: There are not as many as the model was trained on.
    """
    if given and len(given) != len(trained):
        wanted = "one text, as in --text body" if len(trained) == 1 else "two texts, as in --text subject --text body"
        raise StageError(f"--text: {len(given)} given, and the model takes {wanted}.", f"It was trained on {' and '.join(trained)}.")
    return tuple(given) if given else trained
