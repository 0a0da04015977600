"""``tuneline predict``: the exported model on files of any size.

Imports no torch, which would take seconds to start.
"""

import time
from pathlib import Path
from typing import Annotated, Literal

import typer

from tuneline.core.runtime.errors import StageError, refusing
from tuneline.judge.decisions import CERTAINTY
from tuneline.rows.reading.rows import BadRowPolicy
from tuneline.serve import BAD_ROW_OPTION, Kind
from tuneline.serve.program_rows import BATCH_SIZE

FILES_HELP = "CSV, TSV, JSONL or Parquet, plain or .gz; a folder of such files; - for standard input"
OUTPUT_HELP = (
    "JSONL, CSV or Parquet; a folder that ends in /, for a file per input; - for standard output (JSONL)"
)
WHY_HELP = (
    "Add the column why: the words without which the answer changes most, and by how much. Each row is"
    " predicted again without each of its words: about 30 times as long for rows of 25 words"
)
RISK_HELP = (
    "Largest share of wrong answers that is promised; rows that are too unsure get none: docs/decide.md"
)
Risk = Annotated[float | None, typer.Option(min=1e-4, max=0.5, help=RISK_HELP)]
Certainty = Annotated[float, typer.Option(min=0.5, max=0.9999, help="Probability with which --risk holds")]
"""Options of commands that promise how many answers are wrong."""

BAD_SHARE_HELP = (
    "Fraction of the rows that may be left out, because they cannot be read or have no text; with more, FILE"
    " is refused"
)


def command(  # noqa: PLR0917 - typer calls it by name
    files: Annotated[list[str] | None, typer.Argument(metavar="[FILE]...", help=FILES_HELP)] = None,
    output: Annotated[str, typer.Option("--output", "--out", "-o", help=OUTPUT_HELP)] = "-",
    model: Annotated[
        Path, typer.Option("--model", "-m", help="A folder of exported models, or one .onnx file")
    ] = Path("models/onnx"),
    precision: Annotated[
        Literal["fp32", "int8"] | None, typer.Option(help="Model of the folder; default: fp32")
    ] = None,
    input_format: Annotated[
        str | None,
        typer.Option(
            "--input-format", metavar="FORMAT", help="csv, tsv, jsonl or parquet; default: by its suffix"
        ),
    ] = None,
    output_format: Annotated[
        Kind | None, typer.Option("--output-format", help="Format of the output; default: by its suffix")
    ] = None,
    text: Annotated[
        list[str] | None,
        typer.Option(
            "--text", metavar="COLUMN", help="Text column; twice for a pair. Default: as in training"
        ),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            "--keep", metavar="COLUMN", help="Column to copy into the output; repeatable; all: every column"
        ),
    ] = None,
    max_bad_share: Annotated[float, typer.Option(min=0, max=1, help=BAD_SHARE_HELP)] = 0.0,
    encoding: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Of CSV, TSV and JSONL; default: detected; of standard input, utf-8"
        ),
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Rows per forward pass")] = BATCH_SIZE,
    threads: Annotated[
        int | None,
        typer.Option(min=1, help="Threads of the model; default: all cores, shared by the workers"),
    ] = None,
    why: Annotated[bool, typer.Option("--why", help=WHY_HELP)] = False,
    plain: Annotated[
        bool, typer.Option("--plain", help="The most probable class of each row, whatever errors cost")
    ] = False,
    risk: Risk = None,
    certainty: Certainty = CERTAINTY,
    engine: Annotated[
        Literal["local", "ray"],
        typer.Option(help="ray: on the workers of a Ray cluster (RAY_ADDRESS, else on this machine)"),
    ] = "local",
    workers: Annotated[
        int | None, typer.Option(min=1, help="ray: tasks at a time; default: one for each CPU of the cluster")
    ] = None,
) -> None:
    """Predict the label of every row of files, with probabilities, with the exported model.

    The exit status is 65 if FILE is invalid, and 1 for every other error, such as a damaged model or a full
    disk.
    """
    from tuneline.core.params.train import RunParams
    from tuneline.rows.proposals.files import sniffed_input
    from tuneline.rows.reading.tables import known_encoding, not_a_file
    from tuneline.serve.batch import FileTask, named_format, named_sources, predict_to_folder
    from tuneline.serve.columns import InputColumns
    from tuneline.serve.model_choice import ModelChoice, RequiredRisk, promised_rule
    from tuneline.serve.streaming import StreamOptions, predict_input
    from tuneline.serve.writing import PredictionOutput, output_kind_of

    # arguments, all checked before a row is predicted
    # - files
    if encoding is not None:
        known_encoding(encoding)
    if workers is not None and engine == "local":
        raise StageError(
            "--workers: only the engine ray has workers.",
            "Add --engine ray, or set the --threads of this process.",
        )
    target = None if output == "-" else Path(output)
    is_folder = target is not None and (output.endswith("/") or target.is_dir())
    if target is not None and target.exists() and not is_folder and (problem := not_a_file(target)):
        raise StageError(f"--output: {target} {problem}.", "For a pipe, write to standard output.")
    with refusing():
        sources = named_sources(files or ["-"], None if is_folder else target)
    if not is_folder and (engine == "ray" or len(sources) > 1):
        raise StageError("--output: each file has a result of its own.", "Name a folder: -o results/")

    # - formats
    input_kind = named_format(input_format, sources)
    output_kind = output_format or output_kind_of(target, is_folder)

    # - model and columns
    choice = ModelChoice(model, precision, threads)
    classifier = choice.load()
    kept = tuple(dict.fromkeys(keep or ()))
    texts = classifier.input_columns(text)
    input_columns = InputColumns(texts, None if "all" in kept else kept)

    # predictions
    required = None
    if risk is not None:
        required = RequiredRisk(risk, certainty)
    rule = promised_rule(classifier, choice.file(), required, plain=plain)
    options = StreamOptions(batch_size, BadRowPolicy(max_bad_share, BAD_ROW_OPTION), rule, why)
    with refusing():
        inputs = [sniffed_input(source, texts, input_kind, encoding) for source in sources]
        output_file = PredictionOutput(target, output_kind)
        if target is not None and is_folder:
            task = FileTask(choice, inputs[0], input_columns, output_file, options)
            predict_to_folder(inputs, target, task, RunParams(engine=engine, workers=workers))
            return
        started = time.perf_counter()
        counts = predict_input(classifier, inputs[0], input_columns, output_file, options)
        counts.print_summary(classifier, started)
