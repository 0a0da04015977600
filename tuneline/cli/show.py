"""``tuneline show``: the latest result of the pipeline, or its comparison with another commit.

The plain command starts without numeric libraries, because ``make run`` ends with it: the comparison imports
them where it needs them.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from tuneline.cli.console import Console
from tuneline.core.params.loading import load_params
from tuneline.core.paths import PARAMS
from tuneline.core.repository.dvc import read_lock
from tuneline.core.repository.git import EVALUATED
from tuneline.core.runtime.errors import StageError
from tuneline.core.stage.records import Metrics
from tuneline.onnx.records import ExportRecord
from tuneline.page.result import (
    Figures,
    export_differences,
    find_model,
    provenance,
    record_facts,
    result_metrics,
    result_paths,
    warnings_of_lock,
)
from tuneline.page.titles import positive_class, title_of
from tuneline.page.verdict.facts import RunFacts
from tuneline.page.verdict.rules import judge_run, next_steps

if TYPE_CHECKING:
    from tuneline.operations.experiments.revisions import RevisionComparison

MODEL_HELP = "A folder of exported models, or the version that an answer names; the project unless given"
Model = Annotated[str | None, typer.Argument(metavar="[MODEL]", help=MODEL_HELP)]
Against = Annotated[
    str | None,
    typer.Option(
        "--against",
        metavar="REV",
        help=(
            "Compare with the model of another commit or experiment on the rows of both, by the present"
            " labels"
        ),
    ),
]


def command(model: Model = None, against: Against = None) -> None:
    """Show the latest result of the pipeline: its metrics, its commit, and where its files are."""
    console = Console(soft_wrap=True)
    if model is not None and against is not None:
        raise StageError("--against is about this project. Leave MODEL out.")
    if model is not None:
        show_model(console, model)
        return
    if not Path(EVALUATED).exists():
        raise StageError(
            f"{EVALUATED} is missing: the pipeline has not run here yet.", "Run `make run` or `dvc repro`."
        )
    if against is not None:
        from tuneline.operations.experiments.revisions import compare_with

        comparison = compare_with(Path(), against)
        console.print(comparison_table(comparison, against))
        console.print(Text(comparison.description(against)))
        return
    show_project(console, Path())


def show_project(console: Console, root: Path) -> None:
    """Print metrics, provenance, paths and next steps of the project."""
    lock = read_lock(root)
    evaluated = Metrics.read(root / EVALUATED).values
    run = RunFacts.read(root, lock.params())
    split = str(lock.params().get("evaluate.split", "the reported split"))

    # quality
    for warning in warnings_of_lock(root, lock, compared=bool(run.compared)):
        console.print(Text(f"! {warning}\n"))
    sections = [result_metrics(evaluated, run.positive)]
    if run.compared is not None:
        sections += export_differences(run.compared, run.positive)
    console.print(quality_table(split, sections))
    for finding in judge_run(run):
        console.print(Text(f"{finding}\n"))

    # facts
    print_facts(console, provenance(root, lock) | result_paths(root, run))

    # what to do
    steps = next_steps(run)
    width = max(len(command) for command, _ in steps)
    console.print(Text("\nTry next:"))
    for command, purpose in steps:
        console.print(Text(f"  {command:{width}}  {purpose}"))
    if (root / PARAMS).exists():
        load_params(root / PARAMS)  # last: what the file was when the pipeline ran is in dvc.lock


def show_model(console: Console, name: str) -> None:
    """Print the record of exported models."""
    title, path = find_model(Path(), name)
    if title is not None:
        console.print(Text(title))
    record = ExportRecord.read(
        path, f"`git log -- {path}` names the commit whose Tuneline reads it, or export the model again."
    )
    positive = positive_class(record.labels, record.decisions or {})
    for precision, model in record.models.items():
        if model.metrics:
            metrics = result_metrics(model.metrics, positive)
            console.print(quality_table(f"{record.split}, {precision}", [metrics]))
    print_facts(console, record_facts(record))


def quality_table(split: str, sections: Iterable[Figures]) -> Table:
    """Return a table of what was measured on a split."""
    table = Table(title=f"Quality on {split}", title_justify="left", show_header=False)
    table.add_column(justify="left")
    table.add_column(justify="right")
    for section in sections:
        table.add_section()
        for title, number in section:
            table.add_row(title, number)
    return table


def print_facts(console: Console, facts: Mapping[str, str]) -> None:
    """Print facts by their names."""
    for name, value in facts.items():
        console.print(Text(f"{name:>12}  {value}"))


def comparison_table(comparison: "RevisionComparison", revision: str) -> Table:
    """Return one row for each metric: both models, and the difference with its interval."""
    title = f"On {comparison.rows:,} rows of both, of {comparison.split}"
    table = Table("", "now", revision, "difference", "95 % interval", title=title, title_justify="left")
    for name, difference in comparison.models.differences.items():
        table.add_row(
            title_of(name, comparison.positive),
            f"{difference.first:.4f}",
            f"{difference.second:.4f}",
            f"{difference.value:+.4f}",
            f"{difference.low:+.4f} to {difference.high:+.4f}",
        )
    return table
