"""``tuneline evaluate``: an exported model on a fresh labelled file.

The metrics and the verdict are the ones that the pipeline gives.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from tuneline.page.verdict.facts import RunFacts
    from tuneline.serve.file_evaluation import FileEvaluation

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
    from tuneline.core.params.data import LabelSetsParams
    from tuneline.core.params.loading import load_params
    from tuneline.core.repository.dvc import by_key
    from tuneline.core.repository.promoted_models import found_models
    from tuneline.core.runtime.errors import refusing
    from tuneline.core.runtime.terminal import say
    from tuneline.core.stage.records import Metrics, write_record
    from tuneline.onnx.exported_model import ExportedModel
    from tuneline.onnx.records import ExportRecord
    from tuneline.onnx.usage import EXPORT_RECORD, exported_file
    from tuneline.page.titles import positive_class
    from tuneline.page.verdict.facts import RunFacts
    from tuneline.rows.labelled_file import read_labelled
    from tuneline.rows.reading.labelled import LabelledColumns
    from tuneline.rows.reading.rows import BadRowPolicy
    from tuneline.serve import BAD_ROW_OPTION
    from tuneline.serve.file_evaluation import evaluate_file, write_errors

    # the model, and the parameters with which it was made
    params = load_params()
    with found_models(model) as (name, folder):
        classifier = ExportedModel.load(folder, precision)
        record = ExportRecord.read(exported_file(folder, precision).parent / EXPORT_RECORD)
    task = classifier.task
    trained = by_key(stage.parameters for stage in record.provenance.stages.values())

    # the file is read with the model at hand: columns and classes are the model's
    if max_bad_share is None:
        max_bad_share = float(trained.get("data.max_bad_share", params.data.max_bad_share))
    sets = trained.get("data.label_sets")
    columns = LabelledColumns(
        classifier.input_columns(text),
        label or str(trained.get("data.label_column", params.data.label_column)),
        task,
        policy=BadRowPolicy(max_bad_share, BAD_ROW_OPTION),
        sets=LabelSetsParams(**sets) if sets else None,
    )
    with refusing():
        rows = read_labelled(file, columns, encoding)
    evaluation = evaluate_file(params, classifier, trained.get("train.metric"), rows)

    # results
    run = RunFacts(
        evaluation.metrics,
        {"head_is_frozen": int(record.head == "frozen")},
        trained,
        positive=positive_class(task.names, task.decisions),
    )
    title = f"{name} on {file.name}, {run.evidence}"
    if rows.left_out:
        title += f", {rows.left_out:,} left out"
    print_evaluation(title, evaluation, run, params.seed)
    if evaluation.truncated:
        say(f"{evaluation.truncated:,} of {run.rows:,} rows are {classifier.unread}.")
    if json is not None:
        write_record(json, Metrics.of(evaluation.metrics))
    if errors is not None:
        say(f"errors: {write_errors(errors, rows, evaluation.predictions, params.data):,} rows, {errors}")


def print_evaluation(title: str, evaluation: "FileEvaluation", run: "RunFacts", seed: int) -> None:
    """Print the metrics, with the intervals of those that have one, the verdict and the worst slice."""
    from rich.table import Table

    from tuneline.cli.console import Console
    from tuneline.core.runtime.terminal import say
    from tuneline.core.stage.records import shown
    from tuneline.judge.evaluation.keys import metric_names
    from tuneline.judge.evaluation.table import ALL_METRICS
    from tuneline.page.verdict.rules import judge_run

    table = Table(title=title, title_justify="left")
    table.add_column("", justify="left")
    table.add_column("value", justify="right")
    table.add_column("95 % interval", justify="left")
    for name in metric_names(evaluation.metrics):
        interval = ""
        if name in ALL_METRICS and ALL_METRICS[name].resampled:
            estimate = evaluation.predictions.interval(ALL_METRICS[name], seed)
            interval = f"{estimate.low:.4f} to {estimate.high:.4f}"
        table.add_row(run.title_of(name), shown(evaluation.metrics[name], 4), interval)
    Console(soft_wrap=True).print(table)

    for finding in judge_run(run):
        say(str(finding))
    worst = evaluation.slices.worst
    if worst is not None:
        metric = evaluation.slices.metric
        say(
            f"Worst slice: {worst.by} {worst.name}, {run.title_of(metric)} {worst.metrics[metric]:.3f}"
            f" ({worst.rows:,} rows, 95 % interval {worst.low:.3f} to {worst.high:.3f})."
        )
