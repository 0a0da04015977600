"""``tuneline labels``: which texts people should label next, and which labels are probably wrong."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tuneline.paths import ONNX
from tuneline.runtime.errors import InputError, StageError
from tuneline.runtime.terminal import say

if TYPE_CHECKING:
    from tuneline.cli.labels.queue import ScoredRow
    from tuneline.params import DataParams

app = typer.Typer(help="Choose texts to label, and labels to correct.", no_args_is_help=True)

OutputOption = Annotated[Path, typer.Option("--output", "-o", help="CSV file to write")]
MaxRows = Annotated[int, typer.Option(min=1, help="Rows of the file, at most")]
Review = Annotated[
    Path,
    typer.Argument(
        metavar="FILE", help="The file of `tuneline labels review`, with its column `correct` filled in"
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check the file; write nothing")]
Force = Annotated[bool, typer.Option("--force", help="Replace a file that has labels")]


@app.callback()
def labels() -> None:
    """Choose texts to label, and labels to correct."""


@app.command("queue")
def queue(  # noqa: PLR0917 - typer calls it by name
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="Texts to choose from. Default: what flow score has scored"),
    ] = None,
    output: OutputOption = Path("reports/labels/queue.csv"),
    rows: MaxRows = 100,
    id_column: Annotated[
        str | None, typer.Option("--id", metavar="COLUMN", help="Column of the rows with an id, to copy")
    ] = None,
    model: Annotated[
        Path, typer.Option("--model", "-m", help="FILE: a folder of exported models, or one .onnx file")
    ] = ONNX,
    scored: Annotated[
        Path, typer.Option(help="Folder of the scored files: scoring.outbox of conf/flows.yaml")
    ] = Path("data/scored"),
    last_rows: Annotated[
        int,
        typer.Option(min=1, help="Number of rows to choose from: the first ones of FILE, or the last scored"),
    ] = 100_000,
    force: Force = False,
) -> None:
    """Write a CSV file of texts to label: uncertain predictions, and texts unlike the training data.

    People fill in the label column. The file is then new labelled data: put it into the drop folder of flow
    ingest, or add it to your own.
    """
    from tuneline.cli.labels.queue import (
        check_replaced,
        count_labelled,
        labelled_keys,
        rank,
        training_words,
        write_queue,
    )
    from tuneline.params.loading import load_params
    from tuneline.runtime.wording import listed
    from tuneline.words.label_texts import unfilled_cell

    params = load_params()
    data = params.data
    if id_column in {*data.text_columns, *data.label_columns}:
        raise StageError(
            f"--id: {id_column!r} is a text column or the label column.",
            "Name a column with ids, or leave it out.",
        )
    check_replaced(output, data, force, data.label_columns, "Put it into the drop folder of flow ingest")

    if file is None:
        candidates = _scored_candidates(scored, data, id_column, last_rows)
        kind = "scored rows"
    else:
        candidates = _file_candidates(file, model, data, id_column, last_rows)
        kind = "rows"

    # What the model knows already: without it, the queue is longer, and not wrong
    labelled = labelled_keys(data)
    if not len(labelled):
        say(
            "No labelled rows were found here (`dvc checkout` restores them), so rows with a label may be in"
            " the queue.",
            error=True,
        )
    words = training_words()
    if words is None:
        say(
            "There is no profile of the training data (`dvc checkout reports/checks`): new words are not"
            " counted.",
            error=True,
        )

    chosen = rank(candidates, labelled, words, rows, params.validate_.near_duplicates.similarity)
    write_queue(output, data, id_column, chosen)
    counts = (
        f"{len(chosen):,} of {len(candidates):,} {kind} to label, {count_labelled(candidates, labelled):,}"
        " have a label already"
    )
    columns = "columns" if len(data.label_columns) > 1 else "column"
    advice = f"Fill in the {columns} {listed(data.label_columns)}."
    cell = unfilled_cell(data.task)
    if cell:
        advice += f" An empty cell says that no label applies: leave {cell!r} in the rows that you skip."
    say(f"{counts}: {output}. {advice}")


def _scored_candidates(
    outbox: Path, data: "DataParams", id_column: str | None, last_rows: int
) -> "list[ScoredRow]":
    """Return the last rows that flow ``score`` has scored, and say which files were left out."""
    from tuneline.cli.labels.queue import collect_scored_rows

    candidates, problems = collect_scored_rows(outbox, data, id_column, last_rows)
    for problem in problems:
        say(f"left out: {problem}", error=True)
    if not candidates:
        raise StageError(
            f"{outbox} has no scored rows whose texts are in the archive.",
            "Flow score writes both: docs/scoring.md.",
        )
    return candidates


def _file_candidates(
    file: Path, model: Path, data: "DataParams", id_column: str | None, max_rows: int
) -> "list[ScoredRow]":
    """Return the first rows of a file, with predictions."""
    from tuneline.cli.labels.queue import predict_first_rows

    candidates = predict_first_rows(file, model, data, id_column, max_rows)
    if not candidates:
        raise InputError(f"{file} has no row with a text.", "Name a file with rows.")
    return candidates


@app.command("review")
def review(
    output: OutputOption = Path("reports/labels/review.csv"),
    model: Annotated[
        Literal["auto", "linear", "train"],
        typer.Option(
            help=(
                "linear: TF-IDF. train: the pipeline's model too, trained once per fold. auto: train where it"
                " is better"
            )
        ),
    ] = "auto",
    folds: Annotated[
        int,
        typer.Option(
            min=2, max=100, help="Number of folds: each row is predicted by a model trained without its fold"
        ),
    ] = 5,
    rows: MaxRows = 1_000,
    force: Force = False,
) -> None:
    """Write a CSV file of the labels that are probably wrong, with the labels that models propose.

    The most doubtful labels come first. Each row is predicted by a model that was trained without it. People
    fill in the column `correct` where another label is right; then `tuneline labels apply` keeps the
    corrections.
    """
    from tuneline.cli.labels.queue import check_replaced
    from tuneline.labels.label_review import CORRECT, ROLES, write_review
    from tuneline.labels.review import choose_model, review_labels
    from tuneline.params.loading import load_params
    from tuneline.words.spreadsheet import free_names

    params = load_params()
    # The column may have another name: a text column may be called `correct`
    correct_column = free_names(ROLES, params.data.text_columns)[CORRECT]
    check_replaced(output, params.data, force, [correct_column], f"Run `tuneline labels apply {output}`")

    if model == "auto":
        model, reason = choose_model(folds)
        say(reason)
    label_review = review_labels(params, model, folds, rows)

    measured = f"{label_review.metric} of the out-of-fold predictions: {label_review.agreement:.3f}"
    say(f"{label_review.doubtful:,} of {label_review.rows:,} rows have a doubtful label; {measured}.")
    if label_review.advice:
        say(label_review.advice)
    if label_review.suspects:
        write_review(output, params.data, label_review.suspects)
        written = f"The {len(label_review.suspects):,} most doubtful: {output}."
        say(f"{written} Fill in the column {correct_column!r} where another label is right, then run:")
        say(f"  tuneline labels apply {output}")


@app.command("apply")
def apply(file: Review, dry_run: DryRun = False) -> None:
    """Keep the corrections of a review in data/corrections/labels.csv, which the next `dvc repro` applies.

    The source is not changed.
    """
    from tuneline.analysis.corrections import NEXT_STEPS, Corrections, corrections_locked, label_file
    from tuneline.cli.labels.applying import MergedCorrections, read_filled
    from tuneline.core.tables import SplitReader, check_text_columns
    from tuneline.params.loading import load_params
    from tuneline.paths import RAW, SPLITS

    data = load_params().data
    for split in SPLITS:
        check_text_columns(SplitReader.open(RAW, split, "download"), data.text_columns)
    filled = read_filled(file, data)

    # Locked from reading to writing: `tuneline data drop` writes the same file
    with corrections_locked():
        corrections = Corrections.read()
        merged = MergedCorrections(file, filled, data, corrections.labels)
        if not dry_run:
            Corrections(merged.table(), corrections.dropped).write()

    noun = "label" if merged.new == 1 else "labels"
    counts = f"{merged.repeated:,} were already, {merged.confirmed:,} are right as they are"
    if dry_run:
        counts += "; a dry run writes nothing"
    say(f"{label_file()}: {merged.new:,} {noun} corrected, {counts}.")
    if merged.new and not dry_run:
        say(NEXT_STEPS)
