"""The proposal for model and training: a checkpoint or a new model, its recipe, and what the training will cost here."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import typer
from rich.table import Table
from rich.text import Text

from tuneline.analysis.corrections import dropped_file, label_file
from tuneline.cli.console import Console
from tuneline.cli.init.columns import Cells
from tuneline.cli.init.planning import Plan
from tuneline.cli.init.recipe import Checkpoint, Recipe, fine_tuning, from_scratch, measure_lengths, open_checkpoint, train_rows
from tuneline.cli.init.trial import TrialSpec, batch_lengths, is_busy, run_trial
from tuneline.core.paths import SPLITS
from tuneline.core.terminal import visible
from tuneline.metrics.table import Task, metrics_for, primary_metric
from tuneline.params import Params
from tuneline.readers.rows import listed

SUGGESTIONS = {
    "sentence-transformers/all-MiniLM-L6-v2": "English, small: 23 million parameters",
    "google-bert/bert-base-uncased": "English, medium: 110 million parameters",
    "distilbert/distilbert-base-multilingual-cased": "104 languages, medium: 135 million parameters",
    "FacebookAI/xlm-roberta-base": "100 languages, large: 278 million parameters",
}
"""Well-known checkpoints on the hub with safetensors, a fast tokenizer and a licence for any use."""
SMALL, _, MULTILINGUAL, _ = SUGGESTIONS
MOST_FOREIGN = 0.02
"""Share of letters beyond ASCII from which a multilingual checkpoint is suggested."""


def suggested(sample: Sequence[Cells], columns: Sequence[str], text_columns: Sequence[str]) -> str:
    """Return a small checkpoint that reads the language of the texts."""
    positions = [list(columns).index(name) for name in text_columns]
    text = "".join(row[position] or "" for row in sample[:1000] for position in positions)
    letters = [character for character in text if character.isalpha()]
    foreign = sum(not character.isascii() for character in letters)
    return MULTILINGUAL if foreign > MOST_FOREIGN * len(letters) else SMALL


def ask(current: str | None, suggestion: str) -> str | None:
    """Ask which checkpoint to fine-tune, by default that of ``params.yaml``; return its name, or ``None`` for training from scratch."""
    known = SUGGESTIONS if current is None or current in SUGGESTIONS else {current: "as in params.yaml"} | SUGGESTIONS
    lines = [f"{name:48} {description}" for name, description in known.items()]
    lines += ["another: its name on the hub, or models/source/NAME", "none: train a small model from scratch"]
    console = Console()
    console.print(Text("\nWhich checkpoint shall be fine-tuned?"))
    for number, line in enumerate(lines, 1):
        console.print(Text(f"  {number}  {line}"), soft_wrap=True)
    while not 1 <= (number := typer.prompt("Number", default=list(known).index(current or suggestion) + 1, type=int)) <= len(lines):
        console.print(f"Choose a number from 1 to {len(lines)}.")
    if number == len(lines) - 1:
        return str(typer.prompt("Name")).strip()
    return None if number == len(lines) else list(known)[number - 1]


CPU = "cpu"
"""The launch configuration that stays on the CPU."""
FORWARD = 1 / 3
"""Part of the time of a forward and backward pass that the forward pass takes."""


def is_current(plan: Plan, params: Params) -> bool:
    """Return True if ``params.yaml`` is for this data already."""
    data, decision = params.data, plan.decision
    current = (data.source, data.path, tuple(data.text_columns), data.label_column, data.task)
    return current == ("files", plan.placement.data_path, decision.text_columns, decision.label_column, decision.task)


def choose_checkpoint(plan: Plan, params: Params) -> Checkpoint | None:
    """Ask for a checkpoint and open it, if it can be fine-tuned here; ``None`` for training from scratch."""
    current = params.model.checkpoint
    name = ask(current, suggested(plan.sample, plan.columns, plan.decision.text_columns))
    if name is None:
        return None
    with Console().status("Reading its configuration and tokenizer ..."):
        return open_checkpoint(name, params.model.revision if name == current else None)


def propose(plan: Plan, params: Params, checkpoint: Checkpoint | None, trial: bool) -> dict[str, Any]:
    """Print and return the proposed parameters by dotted key, after a ``trial`` of a few steps.

    Without a checkpoint, the model of parameters that are for this data already is kept, else it is trained from scratch.
    """
    console = Console()
    console.print(Text("\nModel and training"))
    if checkpoint is not None:
        lengths = measure_lengths(checkpoint, plan.sample, plan.columns, plan.decision.text_columns)
        recipe = fine_tuning(checkpoint, lengths, plan, params)
    elif is_current(plan, params):
        console.print(Text("  as in params.yaml, which is for this data already; --checkpoint NAME makes a new proposal"))
        return {}
    else:
        suggestion = suggested(plan.sample, plan.columns, plan.decision.text_columns)
        text = (
            "No --checkpoint: a small new model is trained from scratch. It learns what words mean from these "
            f"{train_rows(plan, params):,} rows alone, and seldom does better than counting words: on 10,000 news texts of 4 classes it "
            "had an accuracy of 0.84, TF-IDF with logistic regression 0.86. To fine-tune a pretrained model instead, which knows the "
            "language already:\n"
            f"  tuneline init FILE --checkpoint {suggestion}"
        )
        console.print(Text(text), soft_wrap=True)
        recipe = from_scratch(plan, params)
    for reason in recipe.reasons:
        console.print(Text(f"  {reason}"), soft_wrap=True)
    if checkpoint is not None and trial:
        with console.status("Trial: a few training steps with random weights, to measure the time ..."):
            line = try_recipe(recipe, checkpoint, plan, params)
        console.print(Text(f"  {line}"), soft_wrap=True)
    return dict(recipe.params)


def try_recipe(recipe: Recipe, checkpoint: Checkpoint, plan: Plan, params: Params) -> str:
    """Train a few of the batches that training will make; return what the training will cost, evaluations included."""
    values = recipe.params
    batch, micro_batch, epochs = (values[f"train.{name}"] for name in ("global_batch_size", "micro_batch_size", "epochs"))
    tokens = [] if recipe.lengths is None else recipe.lengths.tokens.tolist()
    labels = 1 if plan.decision.task == "regression" else len(plan.classes["train"])
    lengths = batch_lengths(tokens, values["tokenize.max_length"], micro_batch)
    result = run_trial(TrialSpec(checkpoint.config, labels, micro_batch, lengths, params.train.launch == CPU))
    if isinstance(result, str):
        return f"cost: not measured, because the trial failed: {result}"
    step = result.step_seconds(batch // micro_batch)
    training = epochs * math.ceil(train_rows(plan, params) / batch) * step
    evaluations = 4 if values["train.evaluate_every_steps"] else epochs
    evaluation = plan.classes["validation"].total() / micro_batch * result.micro_batch_seconds * FORWARD
    busy = "; less when no other programs use the processor" if is_busy() else ""
    return (
        f"cost on this machine ({result.device}): about {duration(1000 * step)} for 1,000 steps, "
        f"{duration(training + evaluations * evaluation)} for the training{busy}"
    )


def duration(seconds: float) -> str:
    """Return a rounded time."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


WIDTH = 60


def show_plan(plan: Plan, params: Params) -> None:
    """Print first rows, decisions, splits and warnings."""
    console = Console()
    console.print(first_rows(plan))
    for reason in plan.decision.reasons:
        console.print(Text(f"  {reason}"), soft_wrap=True)
    console.print(Text(f"  format: {layout_text(plan)}\n"), soft_wrap=True)
    console.print(splits_table(plan))
    for note in [*plan.notes, *split_notes(plan), *warnings(plan, params)]:
        console.print(Text(f"  {note}"), soft_wrap=True)


def show_changes(changes: Mapping[str, tuple[Any, Any]]) -> None:
    """Print the parameters that will change."""
    console = Console()
    console.print(Text("\nparams.yaml" + ("" if changes else ": nothing to change")))
    for key, values in changes.items():
        old, new = ("null" if value is None else value for value in values)
        console.print(Text(f"  {key}: {old} -> {new}"), soft_wrap=True)


def first_rows(plan: Plan) -> Table:
    """Return the used columns of the first rows."""
    table = Table(title="First rows", title_justify="left")
    used = [*plan.decision.text_columns, plan.decision.label_column]
    for name in used:
        table.add_column(Text(visible(name)), overflow="fold")
    for row in plan.first:
        cells = [visible(row[list(plan.columns).index(name)] or "") for name in used]
        table.add_row(*(Text(cell if len(cell) <= WIDTH else cell[: WIDTH - 1] + "…") for cell in cells))
    return table


def splits_table(plan: Plan) -> Table:
    """Return the rows and classes of each split, as the stage ``download`` will write them, and its file if it has one."""
    table = Table(show_header=False, box=None)
    for split in SPLITS:
        classes = plan.classes[split]
        file = str(plan.placement.file(split)) if split in plan.placement.specs else ""
        fractions = ", ".join(f"{name} {count / classes.total():.0%}" for name, count in classes.most_common(6) if name)
        more = f", and {len(classes) - 6} more" if len(classes) > 6 else ""
        table.add_row(Text(split), Text(f"{classes.total():,} rows"), Text(file), Text(visible(fractions + more)))
    return table


def layout_text(plan: Plan) -> str:
    """Return a description of the layout."""
    layout = plan.layout
    if layout.kind != "delimited":
        return {"jsonl": f"JSON lines, {layout.encoding}", "parquet": "Parquet"}[layout.kind]
    delimiter = {"\t": "tabs", ",": "commas", ";": "semicolons", "|": "bars"}[layout.delimiter]
    quotes = "quotes enclose fields" if layout.quoting == "standard" else "quotes are literal"
    header = "first line names the columns" if layout.header else "no header line"
    return f"{delimiter}, {quotes}, {header}, {layout.encoding}"


def split_notes(plan: Plan) -> list[str]:
    """Return how the train file is divided, and which rows are left out."""
    notes = []
    if plan.split is not None:
        taken = " and ".join(f"{name} ({getattr(plan.split, name):.0%})" for name in SPLITS[1:] if getattr(plan.split, name))
        kept = f"all rows of a {plan.split.by!r} are" if plan.split.by else "equal texts are"
        notes.append(f"{taken} taken from {plan.placement.file('train').name} by the stage download (data.split); {kept} in one split.")
    if plan.left_out.incomplete:
        notes.append(f"{plan.left_out.incomplete:,} rows without text or label are left out (data.bad_rows).")
    if plan.left_out.unreadable:
        shown = "\n    ".join(plan.left_out.first)
        notes.append(f"{plan.left_out.unreadable:,} rows that cannot be read are left out (data.bad_rows):\n    {shown}")
    return notes


def warnings(plan: Plan, params: Params) -> list[str]:
    """Return warnings: what would stop the pipeline, or give a poor model."""
    messages = [f"{target} is replaced: its content differs." for target in plan.placement.replaced]
    classes = plan.classes
    if "-1" in classes["train"]:
        messages.append("! -1 is a class like the others. If it means that a label is missing, empty these cells.")
    if params.data.max_rows is not None:
        messages.append(f"! data.max_rows is {params.data.max_rows:,}: more rows of a split are not used. Set it to null to use all.")
    least = params.validate_.rows.min
    if few := [split for split in SPLITS if classes[split].total() < least]:
        messages.append(f"! {' and '.join(few)}: fewer than {least} rows (validate.rows.min), so the data checks will fail.")
    if rare := [name for name, rows in sum(classes.values(), Counter()).items() if rows == 1 and name]:
        messages.append(f"! Only one row has the label {listed(rare, 5)}: a typo, or the header of another file?")
    absent = {split: sorted(set(classes["train"]) - set(classes[split])) for split in SPLITS[1:]}
    messages += [
        f"! {split} has no rows of {', '.join(names[:5])}{', ...' * (len(names) > 5)}." for split, names in absent.items() if names
    ]
    return messages


def show_next_steps(plan: Plan, written: bool) -> None:
    """Print what was written (``written``: also ``params.yaml``) and what to do next."""
    changed = [*(["params.yaml"] if written else []), *map(str, plan.placement.copies)]
    corrections = [str(path) for path in (label_file(), dropped_file()) if written and path.exists()]
    remove = f"  git rm {' '.join(corrections)}\n                        unless these corrections are of this data\n" if corrections else ""
    Console().print(
        Text(
            f"\nWritten: {', '.join(changed) or 'nothing, all is there already'}\n"
            f"Next:\n{remove}"
            "  dvc repro             run the pipeline\n"
            f"  dvc add {plan.placement.tracked}\n"
            "                        version the data with DVC\n"
            "  docs/your-data.md     columns, splits, encodings, trying other values\n"
            "  docs/fine-tune.md     checkpoints"
        ),
        soft_wrap=True,
    )


def plan_params(plan: Plan, metric: str, current: bool) -> dict[str, Any]:
    """Return the parameters for a plan, by dotted key.

    The current ``metric`` stays if it suits the task; with ``current`` parameters for this data, its class names and behaviour tests too.
    """
    layout = plan.layout
    delimited, tabs = layout.kind == "delimited", layout.delimiter == "\t"
    usual_quoting = "literal" if tabs else "standard"
    task: Task = plan.decision.task
    suitable = {metric.name for metric in metrics_for(task) if metric.validated}
    bad_rows = {"data.bad_rows": "skip", "data.max_bad_share": plan.max_bad_share} if plan.left_out.share else {}
    of_other_data = {} if current else {"data.label_names": None, "data.as_of": None, "data.last_days": None, "evaluate.behaviour": None}
    return {
        "data.source": "files",
        "data.path": plan.placement.data_path,
        "data.name": None,
        "data.revision": None,
        "data.splits": {split: plan.placement.specs.get(split, split) for split in SPLITS},
        "data.split": None if plan.split is None else plan.split.model_dump(),
        "data.text_columns": list(plan.decision.text_columns),
        "data.label_column": plan.decision.label_column,
        "data.task": task,
        "data.files.delimiter": layout.delimiter if delimited and not tabs and layout.delimiter != "," else None,
        "data.files.quoting": layout.quoting if delimited and layout.quoting != usual_quoting else None,
        "data.files.columns": list(plan.columns) if delimited and not layout.header else None,
        "data.files.encoding": "utf-8" if layout.kind == "parquet" else layout.encoding.removesuffix("-sig"),
        **bad_rows,
        **of_other_data,
        "train.metric": metric if metric in suitable else primary_metric(task).name,
    }
