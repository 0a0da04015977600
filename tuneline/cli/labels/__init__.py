"""``tuneline labels``: which of the scored texts people should label next."""

from pathlib import Path
from typing import Annotated

import typer

from tuneline.errors import StageError
from tuneline.terminal import say

app = typer.Typer(help="Choose scored texts for people to label.", no_args_is_help=True)

OutputOption = Annotated[Path, typer.Option("--output", "-o", help="CSV file to write")]
Rows = Annotated[int, typer.Option(min=1, help="Texts to label, at most")]
Id = Annotated[str | None, typer.Option("--id", metavar="COLUMN", help="Column of the scored files with an id, to copy")]
Scored = Annotated[Path, typer.Option(help="Folder of the scored files: scoring.outbox of conf/flows.yaml")]
Last = Annotated[int, typer.Option(min=1, help="Number of scored rows to choose from, the latest files first")]
Force = Annotated[bool, typer.Option("--force", help="Replace a file that has labels")]


@app.callback()
def labels() -> None:
    """Choose scored texts for people to label."""


@app.command("queue")
def queue(  # noqa: PLR0917 - typer calls it by name
    output: OutputOption = Path("reports/labels/queue.csv"),
    rows: Rows = 100,
    id_column: Id = None,
    scored: Scored = Path("data/scored"),
    last_rows: Last = 100_000,
    force: Force = False,
) -> None:
    """Write a CSV file of scored texts to label: those that the model is uncertain about, or that are unlike its training data.

    People fill in the label column. The file is then new labelled data: put it into the drop folder of flow ingest.
    """
    from tuneline.cli.labels.candidates import collect
    from tuneline.cli.labels.labelled import labelled_keys
    from tuneline.cli.labels.queue_file import check_replaced, write_queue
    from tuneline.cli.labels.ranking import rank, training_words
    from tuneline.params.loading import load_params

    params = load_params()
    data = params.data
    if id_column in (*data.text_columns, data.label_column):
        raise StageError(f"--id: {id_column!r} is a text column or the label column.", "Name a column with ids, or leave it out.")
    check_replaced(output, data, force)
    candidates = collect(Path(), scored, data.text_columns, id_column, last_rows)
    for problem in candidates.problems:
        say(f"left out: {problem}", error=True)
    if not candidates.rows:
        raise StageError(f"{scored} has no scored rows whose texts are in the archive.", "Flow score writes both: docs/scoring.md.")
    labelled = labelled_keys(data)
    if not len(labelled):
        say("No labelled rows were found here (`dvc checkout` restores them), so rows with a label may be in the queue.", error=True)
    words = training_words()
    if words is None:
        say("There is no profile of the training data (`dvc checkout reports/checks`): new words are not counted.", error=True)
    chosen = rank(candidates.rows, labelled, words, rows, params.validate_.near_duplicates.similarity)
    write_queue(output, data, id_column, chosen)
    say(f"{len(chosen):,} of {len(candidates.rows):,} scored rows to label: {output}. Fill in the column {data.label_column!r}.")
