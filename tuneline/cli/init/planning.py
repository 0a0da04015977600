"""The plan of ``tuneline init``: everything that it will write, shown before anything is written."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tuneline.cli.init.division import division_notes, find_group, pairs_of, plan_division, usual_split
from tuneline.cli.init.metric_choice import choose_metric, rare_class_last
from tuneline.cli.init.placement import Placement, place
from tuneline.cli.init.rows import RowFile, SplitRows, rows_of_splits
from tuneline.columns.choice import ColumnChoice, decide_columns
from tuneline.columns.labels import names_person
from tuneline.columns.profiles import Column
from tuneline.columns.readings import OpenQuestionError, UserChoices
from tuneline.params import Params
from tuneline.params.data import FilesParams, SplitParams
from tuneline.paths import SPLITS
from tuneline.readers.tables import Layout
from tuneline.runtime.errors import DataError
from tuneline.runtime.wording import listed
from tuneline.sniffing.encodings import WESTERN_ENCODING

CONTEXT = 20
"""Characters that are shown on each side of a character beyond ASCII."""
FEWEST_CONTRADICTING = 10
MOST_CONTRADICTING = 0.05
"""Mean number of other rows with the text of a row and another label, from which these are not mistakes."""


@dataclass(frozen=True)
class Plan:
    """Everything that will be written.

    Attributes:
        division: ``data.split``: how ``download`` divides the train file; ``None`` if every split has a file.
        columns: The columns of the train file by name.
        rows: About the rows that will be used, and those that will be left out.
        notes: Messages for the user.
    """

    layout: Layout
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
    layout = replace(train.source.layout, decimal=decision.reading.decimal)
    notes = _encoding_notes(layout.encoding, columns) if choices.encoding is None else []

    # copies of the files that have labels
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
    placement = place(to_place, originals, layout, choices.name)

    # splits
    without_file = [split for split in SPLITS if split not in labelled]
    now = params.data.split if params.data.path == placement.data_path else None
    group = find_group(columns, decision) if without_file else None
    deciding = group.name if group is not None and now is None else None
    division = plan_division(without_file, columns, choices, now or usual_split(train.rows), deciding)
    rows = rows_of_splits(labelled, decision, division)
    if rows.splits["train"] <= 0:
        text = " and ".join(map(repr, decision.text_columns))
        label = " or ".join(map(repr, decision.label_columns))
        problem = f"{train.path}: no row has a text in {text} and a label in {label}."
        raise DataError(problem, "Name others: --text, --label")
    notes += _repeated_texts(decision, columns, choices)
    if division is not None:
        notes += division_notes(division, group, columns, decision)
    return Plan(layout, placement, decision, division, columns, rows, notes)


def _encoding_notes(encoding: str, columns: Mapping[str, Column]) -> list[str]:
    """Return a warning with an example if the encoding is a guess."""
    if encoding != WESTERN_ENCODING:
        return []
    example = ""
    for column in columns.values():
        for cell in column.cells:
            if cell and not cell.isascii() and not example:
                position = next(index for index, character in enumerate(cell) if not character.isascii())
                example = cell[max(0, position - CONTEXT) : position + CONTEXT]
    return [
        f"! The file is not UTF-8 and is read as {WESTERN_ENCODING}: {example!r}. If that looks wrong, name"
        " its encoding: --encoding NAME"
    ]


def _repeated_texts(decision: ColumnChoice, columns: Mapping[str, Column], choices: UserChoices) -> list[str]:
    """Return a warning if texts are in several rows with different labels, such as those of several people.

    Raises:
        OpenQuestionError: The rows of a text can also be all of its labels.
    """
    texts = list(zip(*(columns[name].cells for name in decision.text_columns), strict=True))
    labels = list(zip(*(columns[name].cells for name in decision.label_columns), strict=True))
    scale = columns[decision.text_columns[0]].sampled_once_in
    same_text = pairs_of(texts)
    contradicting = same_text - pairs_of(zip(texts, labels, strict=True))
    if contradicting < max(FEWEST_CONTRADICTING, MOST_CONTRADICTING * len(texts) / scale):
        return []
    people = [name for name in columns if names_person(name) and name not in decision.label_columns]
    who = f" ({listed(people)} names who labelled a row)" if people else ""
    problem = f"A text is in {1 + same_text / len(texts) * scale:.1f} rows, and its labels differ{who}"
    if decision.sets is None and decision.task == "classification" and choices.task is None:
        question = f"{problem}. If they are all labels of the text, write it once, with all in one cell: a; b"
        raise OpenQuestionError(question, [decision.reading.answer], choices)
    return [
        f"! {problem}: no model is right on them, and the check conflicting_labels will fail. Write each text"
        " once, such as with the label of most people."
    ]


def is_current(plan: Plan, params: Params) -> bool:
    """Return True if ``params.yaml`` is for this data already."""
    data = params.data
    decision = plan.decision
    columns = (decision.text_columns, decision.label_column, decision.task, decision.sets)
    now = (tuple(data.text_columns), data.label_column, data.task, data.label_sets)
    return (data.source, data.path, now) == ("files", plan.placement.data_path, columns)


def plan_params(plan: Plan, params: Params) -> dict[str, Any]:
    """Return the parameters for a plan, by dotted key: section ``data``, and the metric of its task.

    If the parameters are for this data already, their metric, class names and behaviour tests stay.
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
    usual = plan.layout.format.usual.values()
    defaults = FilesParams().model_dump()
    for name, value in plan.layout.values().items():
        if name != "format":
            written = list(value) if isinstance(value, tuple) else value
            values[f"data.files.{name}"] = defaults[name] if value == usual[name] else written
    if plan.rows.share_left_out:
        # in whole percent, so that the same files satisfy the limit
        share = math.ceil(plan.rows.share_left_out * 100) / 100
        values["data.max_bad_share"] = max(params.data.max_bad_share, share)
    if not current:
        # They name classes, columns or texts of the former data.
        values["data.label_names"] = None
        if plan.rows.classes:
            label = plan.columns[decision.label_column]
            values["data.label_names"] = rare_class_last(plan.rows.classes, label)
        values["evaluate.behaviour"] = None
    metric = params.train.metric
    values["train.metric"], _ = choose_metric(plan.rows.classes, decision, metric, current=current)
    return values
