"""``tuneline evaluate``: an exported model on a fresh labelled file.

The metrics and the verdict are the ones that the pipeline gives.
"""

from pathlib import Path
from typing import Annotated, Literal

import typer

from tuneline.core.stage.records import write_record

FILE_HELP = "Texts and labels: CSV, TSV, JSONL or Parquet, plain or .gz; the layout is detected"
MODEL_HELP = "A folder of exported models; or a stage of the registry, such as production"
ERRORS_HELP = (
    "Write the wrong predictions (regression: all) as CSV, the worst first, with a space before what a"
    " spreadsheet would execute"
)


def command(  # noqa: PLR0917 - typer calls it by name
    file: Annotated[Path, typer.Argument(metavar="FILE", help=FILE_HELP)],
    model: Annotated[str, typer.Option("--model", "-m", metavar="MODEL", help=MODEL_HELP)] = "models/onnx",
    precision: Annotated[
        Literal["fp32", "int8"] | None, typer.Option(help="Model of the folder; default: fp32")
    ] = None,
    text: Annotated[
        list[str] | None,
        typer.Option(
            "--text", metavar="COLUMN", help="Text column; twice for a pair. Default: as in training"
        ),
    ] = None,
    label: Annotated[
        str | None, typer.Option("--label", metavar="COLUMN", help="Label column; default: as in training")
    ] = None,
    errors: Annotated[Path | None, typer.Option("--errors", metavar="FILE", help=ERRORS_HELP)] = None,
    json: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="Write the metrics, as in metrics/evaluate.json"),
    ] = None,
    max_bad_share: Annotated[
        float | None,
        typer.Option(
            min=0, max=1, help="Fraction of the rows that may be bad or unlabelled; default: as in training"
        ),
    ] = None,
    encoding: Annotated[
        str | None, typer.Option(metavar="NAME", help="Such as cp1252; default: UTF-8 or UTF-16")
    ] = None,
) -> None:
    """Evaluate an exported model on a labelled file.

    It prints metrics with 95 % intervals, and slices. The exit status is 65 if
    FILE is invalid, and 1 for every other error, such as a damaged model.
    """
    from tuneline.cli.evaluate.file_evaluation import (
        evaluate_file,
        found_model,
        read_labelled,
        write_errors,
    )
    from tuneline.core.params.loading import load_params
    from tuneline.core.runtime.errors import refusing
    from tuneline.core.runtime.terminal import say
    from tuneline.core.stage.records import Metrics
    from tuneline.rows.reading.rows import BadRowPolicy
    from tuneline.serve import BAD_ROW_OPTION
    from tuneline.serve.model_choice import text_columns

    params = load_params()
    # The models of a stage are in a temporary folder, which is removed at the end of the block
    with found_model(model, precision) as chosen:
        # The file is read with the model at hand: columns and classes are the model's
        names = text_columns(text, chosen.classifier.text_columns)
        if max_bad_share is None:
            max_bad_share = float(chosen.params.get("data.max_bad_share", params.data.max_bad_share))
        policy = BadRowPolicy(max_bad_share, BAD_ROW_OPTION)
        label_column = label or str(chosen.params.get("data.label_column", params.data.label_column))
        with refusing():
            rows = read_labelled(
                file,
                names,
                label_column,
                chosen.classifier.task,
                policy,
                encoding=encoding,
                sets=chosen.label_sets,
            )
        predictions, metrics = evaluate_file(params, chosen, rows)

    if json is not None:
        write_record(json, Metrics.of(metrics))
    if errors is not None:
        say(f"errors: {write_errors(errors, rows, predictions, params.data):,} rows, {errors}")
