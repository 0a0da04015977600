"""``tuneline labels``: which texts people should label next, and which labels are probably wrong."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from tuneline.core.errors import InputError, StageError
from tuneline.core.paths import ONNX
from tuneline.core.terminal import say

app = typer.Typer(help="Choose texts to label, and labels to correct.", no_args_is_help=True)

OutputOption = Annotated[Path, typer.Option("--output", "-o", help="CSV file to write")]
Rows = Annotated[int, typer.Option(min=1, help="Rows of the file, at most")]
Review = Annotated[
    Path,
    typer.Argument(
        metavar="FILE", help="That of `tuneline labels review`, with its column `correct` filled in"
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
    rows: Rows = 100,
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
    """Write a CSV file of texts to label: those that the model is uncertain about, or that are unlike its training data.

    People fill in the label column. The file is then new labelled data: put it into the drop folder of flow
    ingest, or add it to your own.
    """
    from tuneline.cli.labels.queue import (
        check_replaced,
        collect_scored_rows,
        count_labelled,
        labelled_keys,
        predict_first_rows,
        rank,
        training_words,
        write_queue,
    )
    from tuneline.params.loading import load_params

    params = load_params()
    data = params.data
    if id_column in (*data.text_columns, data.label_column):
        raise StageError(
            f"--id: {id_column!r} is a text column or the label column.",
            "Name a column with ids, or leave it out.",
        )
    check_replaced(output, data, force, data.label_column, "Put it into the drop folder of flow ingest")
    if file is not None:
        candidates, problems = predict_first_rows(file, model, data, id_column, last_rows), list[str]()
    else:
        candidates, problems = collect_scored_rows(scored, data.text_columns, id_column, last_rows)
    for problem in problems:
        say(f"left out: {problem}", error=True)
    if not candidates and file is not None:
        raise InputError(f"{file} has no row with a text.", "Name a file with rows.")
    if not candidates:
        raise StageError(
            f"{scored} has no scored rows whose texts are in the archive.",
            "Flow score writes both: docs/scoring.md.",
        )
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
    kind = "scored rows" if file is None else "rows"
    counts = (
        f"{len(chosen):,} of {len(candidates):,} {kind} to label, {count_labelled(candidates, labelled):,}"
        " have a label already"
    )
    say(f"{counts}: {output}. Fill in the column {data.label_column!r}.")


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
    rows: Rows = 1_000,
    force: Force = False,
) -> None:
    """Write a CSV file of the labels that are probably wrong, the most doubtful first, with the labels that models propose.

    Each row is predicted by a model that was trained without it. People fill in the column `correct` where
    another label is right; then `tuneline labels apply` keeps the corrections.
    """
    from tuneline.cli.labels.queue import check_replaced
    from tuneline.cli.labels.review import choose_model
    from tuneline.cli.labels.review import review_labels as find
    from tuneline.params.loading import load_params
    from tuneline.project.label_review import CORRECT, ROLES, write_review
    from tuneline.project.spreadsheet import free_names

    params = load_params()
    correct = free_names(ROLES, params.data.text_columns)[CORRECT]
    check_replaced(output, params.data, force, correct, f"Run `tuneline labels apply {output}`")
    if model == "auto":
        model, reason = choose_model(folds)
        say(reason)
    label_review = find(params, model, folds, rows)
    measured = f"{label_review.metric} of the out-of-fold predictions: {label_review.agreement:.3f}"
    say(f"{label_review.doubtful:,} of {label_review.rows:,} labels are doubtful; {measured}.")
    if label_review.advice:
        say(label_review.advice)
    if label_review.suspects:
        write_review(output, params.data, label_review.suspects)
        written = f"The {len(label_review.suspects):,} most doubtful: {output}."
        say(f"{written} Fill in the column {correct!r} where another label is right, then run:")
        say(f"  tuneline labels apply {output}")


@app.command("apply")
def apply(file: Review, dry_run: DryRun = False) -> None:
    """Keep the corrections of a review in data/corrections/labels.csv, which the next `dvc repro` applies.

    The source is not changed.
    """
    from tuneline.analysis.corrections import NEXT_STEPS, Corrections, corrections_locked, label_file
    from tuneline.cli.labels.applying import MergedCorrections, read_filled
    from tuneline.core.paths import RAW, SPLITS
    from tuneline.core.tables import SplitReader, check_text_columns
    from tuneline.params.loading import load_params

    data = load_params().data
    for split in SPLITS:
        check_text_columns(SplitReader.open(RAW, split, "download"), data.text_columns)
    filled = read_filled(file, data)
    with corrections_locked():
        present = Corrections.read()
        applied = MergedCorrections(file, filled, data, present.labels)
        if not dry_run:
            Corrections(applied.table(), present.dropped).write()
    counts = (
        f"{applied.present:,} were already, {applied.confirmed:,} are right as they"
        f" are{'; a dry run writes nothing' * dry_run}"
    )
    say(f"{label_file()}: {applied.new:,} label{'s' * (applied.new != 1)} corrected, {counts}.")
    if applied.new and not dry_run:
        say(NEXT_STEPS)
