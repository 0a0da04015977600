"""The plan of ``tuneline init``: everything that it will write, shown before anything is written.

Of accuracy, a rare class is a small part (docs/benchmarks.md, "The metric of unbalanced classes"). With 5 %
positives, the majority has 0.95, and two models that find 60 % and 90 % of the positives differ by 0.015. Of
several classes, F1 counts a rare one that is never predicted, at a price: it shows other differences less
often than accuracy.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tuneline.core.params import Params
from tuneline.core.params.data import FilesParams, SplitParams
from tuneline.core.params.section import FunctionName
from tuneline.core.paths import SPLITS
from tuneline.core.runtime.errors import DataError
from tuneline.judge.metrics.table import metrics_for, primary_metric
from tuneline.operations.adoption.placement import Placement, place
from tuneline.operations.adoption.rows import RowFile, SplitRows, rows_of_splits
from tuneline.rows.proposals.choice import ColumnChoice, decide_columns
from tuneline.rows.proposals.labels import is_date
from tuneline.rows.proposals.profiles import Column
from tuneline.rows.proposals.readings import OpenQuestionError, UserChoices
from tuneline.rows.reading.rows import check_columns
from tuneline.rows.reading.tables import Input

LEAST_ROWS = {"test": 300, "validation": 150}
"""Rows of the two splits below which they get a larger part of a small file, within ``LARGEST_FRACTION``."""
LARGEST_FRACTION = {"test": 0.3, "validation": 0.15}
FEWEST_MATES, MOST_MATES = 1.5, 50
"""Mean rows of a value, of a column such as a customer's: fewer are an id, more are a category."""
CELL_LIMITS = (255, 256, 500, 512, 1_000, 1_024, 2_000, 4_000, 8_000, 32_767, 65_535)
"""Characters of the largest cell of spreadsheets and databases, where a longer text was cut."""
MOST_CONTRADICTING = 0.05
"""Share of different rows whose text has another label, too, from which these are not mistakes."""
MOST_LEFT_OUT = 0.5
"""Share of the rows of a file that are left out, from which the columns are probably not those meant."""
RARE = 0.4
"""Share of its even share of the rows below which a class is rare: 20 % of the rows with two classes."""
RARE_CLASSES = 0.1
"""Share of the classes, the ones with the fewest rows, that are rare where classes are not balanced.

One class suffices up to ten classes; of many, a few are always rare.
"""


@dataclass(frozen=True)
class Plan:
    """Everything that will be written.

    Attributes:
        source: The train file, and how all files are written.
        division: ``data.split``: how ``download`` divides the train file; ``None`` if every split has a file.
        columns: The columns of the train file by name.
        rows: About the rows that will be used, and those that will be left out.
        notes: Messages for the user.
    """

    source: Input
    placement: Placement
    decision: ColumnChoice
    division: SplitParams | None
    columns: Mapping[str, Column]
    rows: SplitRows
    notes: list[str]


def make_plan(files: Mapping[str, RowFile], choices: UserChoices, params: Params) -> Plan:
    """Decide what to write about the file of each split.

    Raises:
        DataError: The files cannot be used, or the user has to choose something; the hint names the option.
        OpenQuestionError: The columns can be read in several ways.
    """
    train = files["train"]
    columns = train.columns
    if not train.rows:
        raise DataError(f"{train.path} has no rows.", "Add rows, or name another file.")
    decision = decide_columns(columns, choices)

    # copies of the files that have labels
    notes = text_notes(columns, decision)
    labelled = {}
    for split, file in files.items():
        if split == "train" or file.is_labelled(decision):
            labelled[split] = file
        else:
            notes.append(
                f"{file.path} has no labels, so it is left out. `tuneline predict {file.path}` labels it."
            )
    to_place = {split: Path(file.path) for split, file in labelled.items()}
    originals = [Path(file.path) for file in files.values()]
    placement = place(to_place, originals, train.source.format, choices.name)

    # splits
    without_file = [split for split in SPLITS if split not in labelled]
    now = params.data.split if params.data.path == placement.data_path else None
    division = plan_division(without_file, columns, choices, now or usual_split(train.rows))
    rows = rows_of_splits(labelled, decision, division)
    if rows.splits["train"] <= 0:
        text = " and ".join(map(repr, decision.text_columns))
        label = " or ".join(map(repr, decision.label_columns))
        problem = f"{train.path}: no row has a text in {text} and a label in {label}."
        raise DataError(problem, "Name others: --text, --label")
    _ask_about_repeated_texts(decision, columns, choices)
    _ask_about_rows_left_out(rows.share_left_out, decision, choices)
    if division is not None and division.column is None:
        notes += division_notes(columns, decision)
    return Plan(train.source, placement, decision, division, columns, rows, notes)


def usual_split(rows: int) -> SplitParams:
    """Return how a file of so many rows is divided.

    Validation and test get a tenth each, and more of a small file, or its test could tell nothing apart.
    """
    usual = SplitParams()
    fractions = {}
    for name, least in LEAST_ROWS.items():
        required = math.ceil(least / rows * 100) / 100
        fractions[name] = max(min(required, LARGEST_FRACTION[name]), getattr(usual, name))
    return SplitParams(**fractions)


def plan_division(
    without_file: Sequence[str], columns: Mapping[str, Column], choices: UserChoices, now: SplitParams
) -> SplitParams | None:
    """Return how the train file is divided; ``None`` if every split has a file of its own.

    Args:
        without_file: Names of the splits without a file.
        columns: The columns of the train file.
        choices: What the user said.
        now: The division that is kept, where the user said nothing else.

    Raises:
        DataError: A column that the user named is missing, or nothing is divided.
    """
    by, by_time = choices.by, choices.by_time
    if by is not None and by_time is not None:
        raise DataError("--by and --by-time contradict each other.", "Leave out one of them.")
    named = by or by_time
    if named is not None:
        check_columns(list(columns), [named], "The train file")
    if not without_file:
        if named is not None:
            raise DataError(
                "--by and --by-time divide a file, but every split has a file of its own.",
                "Leave out the option, or name fewer files.",
            )
        return None
    if named is None and now.column in columns:
        by, by_time = now.by, now.by_time

    # the splits with a file take nothing from the train file
    usual = SplitParams()
    fractions = {"validation": 0.0, "test": 0.0}
    for name in without_file:
        fractions[name] = getattr(now, name) or getattr(usual, name)
    return SplitParams(**fractions, by=by, by_time=by_time, stratify=now.stratify)


def division_notes(columns: Mapping[str, Column], decision: ColumnChoice) -> list[str]:
    """Return what columns of customers or documents, and of dates, mean for the division."""
    notes = []
    for column in columns.values():
        if column.name in decision.text_columns + decision.label_columns or not column.filled:
            continue
        name = column.name
        mates = column.counted / len(column.values)
        if is_date(column):
            notes.append(
                f"{name!r} has dates: a random split has the same days in train and in test. --by-time"
                f" {name!r} tests on the latest rows."
            )
        elif FEWEST_MATES <= mates <= MOST_MATES and not column.nested:
            notes.append(
                f"{name!r} has {mates:.1f} rows per value. If their texts are alike, as a customer's or a"
                f" document's, the metric would be too good: --by {name!r} keeps them in one split."
            )
    return notes


def text_notes(columns: Mapping[str, Column], decision: ColumnChoice) -> list[str]:
    """Return which texts a spreadsheet or a database has damaged."""
    notes = []
    for name in decision.text_columns:
        column = columns[name]
        if column.spreadsheet_errors:
            notes.append(
                f"! {name!r}: texts that are errors of a spreadsheet, such as #NAME? where a text begins like"
                f" a formula: {column.spreadsheet_errors:,}"
            )
        if column.longest in CELL_LIMITS and (column.longest_cells > 1 or column.longest > 8_000):
            notes.append(
                f"! {name!r}: texts that a spreadsheet or a database has probably cut, because they have"
                f" exactly {column.longest:,} characters, and none has more: {column.longest_cells:,}"
            )
    return notes


def _ask_about_repeated_texts(
    decision: ColumnChoice, columns: Mapping[str, Column], choices: UserChoices
) -> None:
    """Ask where texts are in several rows with different labels, such as those of several people.

    The data check ``conflicting_labels`` fails on them, and they can also be all labels of a text.

    Raises:
        OpenQuestionError: There are many, and the user did not name the task.
    """
    if choices.task is not None or decision.task != "classification":
        return
    texts = [columns[name].cells for name in decision.text_columns]
    rows = set(zip(*texts, columns[decision.label_column].cells, strict=True))
    contradicting = len(rows) - len({row[:-1] for row in rows})
    if contradicting > MOST_CONTRADICTING * len(rows):
        question = (
            "Many texts are in several rows with different labels. If these are all labels of the text, write"
            " it once, with all in one cell: a; b. If they are of several people, write the label of most"
        )
        raise OpenQuestionError(question, [decision.reading.answer], choices)


def _ask_about_rows_left_out(share: float, decision: ColumnChoice, choices: UserChoices) -> None:
    """Ask where more than half of the rows of a file would be left out.

    Raises:
        OpenQuestionError: The user did not name text, label and task.
    """
    if share <= MOST_LEFT_OUT or (choices.text and choices.confirm(decision.reading)):
        return
    answer = decision.reading.answer
    answer = replace(answer, choices={"text": decision.text_columns, **answer.choices})
    question = f"{share:.0%} of the rows have no text or no label, and would be left out"
    raise OpenQuestionError(question, [answer], choices)


# The metric.


def choose_metric(
    classes: Counter[str], decision: ColumnChoice, metric: str, *, current: bool
) -> tuple[str, str]:
    """Return ``train.metric``, and the reason; empty where nothing was to be chosen.

    Args:
        classes: Rows of each class; empty where a row has no single class.
        decision: The task.
        metric: ``train.metric`` now.
        current: True if the parameters are for this data already; then a metric that suits the task stays.
    """
    suitable = {candidate.name for candidate in metrics_for(decision.task) if candidate.validated}
    if current and (metric in suitable or FunctionName.matches(metric)):
        return metric, ""
    if classes:
        return metric_of_classes(classes)
    return primary_metric(decision.task).name, ""


def metric_of_classes(classes: Counter[str]) -> tuple[str, str]:
    """Return the metric of classes with so many rows, and the reason. A class of one row is often a typo."""
    totals = Counter({name: rows for name, rows in classes.items() if rows > 1}) or classes
    rows = totals.total()
    fewest_rows = np.quantile(np.array(list(totals.values())), RARE_CLASSES, method="inverted_cdf")
    if fewest_rows >= RARE * rows / len(totals):
        return "accuracy", ""
    largest, most = totals.most_common()[0]
    rarest, fewest = totals.most_common()[-1]
    name, why = "f1", "the mean over the classes, in which each class counts the same"
    if len(totals) == 2:
        name, why = "matthews_correlation", "0 for predictions without the text and 1 without errors"
    reason = (
        f"train.metric: {name} ({why}), because the classes are not balanced: {rarest!r} is"
        f" {fewest / rows:.1%} of the rows, and predicting {largest!r} has an accuracy of {most / rows:.3f}."
    )
    return name, reason


# The parameters.


def is_current(plan: Plan, params: Params) -> bool:
    """Return True if ``params.yaml`` is for this data already."""
    data = params.data
    decision = plan.decision
    columns = (decision.text_columns, decision.label_column, decision.task, decision.sets)
    now = (tuple(data.text_columns), data.label_column, data.task, data.label_sets)
    return (data.source, data.path, now) == ("files", plan.placement.data_path, columns)


def plan_params(plan: Plan, params: Params) -> dict[str, Any]:
    """Return the parameters for a plan, by dotted key: section ``data``, and the metric of its task.

    If the parameters are for this data already, their metric and class names stay.
    """
    current = is_current(plan, params)
    decision = plan.decision
    values: dict[str, Any] = {
        "data.source": "files",
        "data.path": plan.placement.data_path,
        "data.name": None,
        "data.revision": None,
        "data.splits": {split: plan.placement.specs.get(split, split) for split in SPLITS},
        "data.split": plan.division.model_dump() if plan.division else None,
        "data.text_columns": list(decision.text_columns),
        "data.label_column": decision.label_column,
        "data.task": decision.task,
        "data.label_sets": decision.sets.model_dump(exclude_none=True) if decision.sets else None,
    }

    # how the files are written; null is the usual value for their suffix
    usual = plan.source.format.usual(plan.source.path)
    for name, default in FilesParams().model_dump().items():
        value = getattr(plan.source, name)
        if value == getattr(usual, name):
            value = default
        values[f"data.files.{name}"] = list(value) if isinstance(value, tuple) else value
    if plan.rows.share_left_out:
        # in whole percent, so that the same files satisfy the limit
        share = math.ceil(plan.rows.share_left_out * 100) / 100
        values["data.max_bad_share"] = max(params.data.max_bad_share, share)
    if not current or params.data.label_names is None:
        # Others name classes of the former data.
        values["data.label_names"] = list(decision.reading.names) or None
    metric = params.train.metric
    values["train.metric"], _ = choose_metric(plan.rows.classes, decision, metric, current=current)
    return values
