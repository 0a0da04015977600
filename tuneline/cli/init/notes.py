"""Notes and warnings about a plan, for the user."""

from collections import Counter

from tuneline.cli.init.group_columns import group_notes
from tuneline.cli.init.planning import Plan
from tuneline.cli.init.rules_of_thumb import resolution
from tuneline.cli.init.time_columns import time_notes
from tuneline.metrics.effective_rows import RowClusters
from tuneline.metrics.table import project_metric
from tuneline.params import Params
from tuneline.paths import SPLITS
from tuneline.results.evidence import rows_in_words
from tuneline.runtime.wording import first_of, listed
from tuneline.tasks import unnamed_task

SHOWN_CLASSES = 5


def label_notes(plan: Plan) -> list[str]:
    """Return how rows have several labels, or could have; nothing where each clearly has one."""
    decision = plan.decision
    if decision.sets is None:
        return []

    rows = sum(counts.rows for counts in plan.counts.values())
    unlabelled = sum(counts.unlabelled for counts in plan.counts.values())
    labels: Counter[str] = Counter()
    for counts in plan.counts.values():
        labels += counts.classes
    per_row = labels.total() / max(rows, 1)
    several = "several per row"
    if decision.label_column in decision.label_columns:
        several = f"{decision.label_column!r} has several labels per row"
    figures = f"{per_row:.1f} per row, {len(labels)} labels, {unlabelled:,} rows without any"
    return [f"labels: {several}, {decision.reading.why} ({figures})"]


def split_notes(plan: Plan, metric: str) -> list[str]:
    """Return how the train file is divided, what its test rows show, and which rows are left out.

    ``metric`` is ``train.metric`` as it will be.
    """
    notes = []

    # division of the train file
    if plan.split is not None:
        taken = []
        for split in SPLITS[1:]:
            fraction = getattr(plan.split, split)
            if fraction:
                taken.append(f"{split} ({fraction:.0%})")
        kept = "equal texts are"
        if plan.split.by:
            kept = f"all rows of one {plan.split.by!r} are"
        how = f"{kept} in one split"
        if plan.split.by_time:
            how = f"the latest rows by {plan.split.by_time!r} are test, those before them validation"
        notes.append(
            f"{' and '.join(taken)} taken from {plan.placement.file('train').name} by the stage download"
            f" (data.split); {how}."
        )
        if plan.split.by_time is None:  # rows are divided by a group or by time
            notes += group_notes(plan.groups, plan.split.by)
        notes += time_notes(plan.times, plan.split.by_time)

    # what the test rows can tell apart
    if plan.counts["test"].rows:
        notes.append(test_note(plan, metric))

    # rows that are left out
    left_out = plan.left_out
    if left_out.incomplete:
        notes.append(f"left out, because text or label is missing (data.bad_rows): {left_out.incomplete:,}")
    if left_out.unreadable:
        shown = "\n    ".join(left_out.first)
        notes.append(
            f"left out, because they cannot be read (data.bad_rows): {left_out.unreadable:,}\n    {shown}"
        )
    return notes


def test_note(plan: Plan, metric: str) -> str:
    """Return how exactly the test rows measure the metric that decides; there is at least one."""
    rows = plan.counts["test"].rows
    independent = rows
    effective = float(rows)
    if len(plan.counts["test"].clusters):
        clusters = RowClusters.of(plan.counts["test"].clusters, rows)
        independent = len(clusters.sizes)
        effective = clusters.effective
    is_grouped = plan.split is not None and plan.split.by is not None

    task = unnamed_task(plan.decision.task)
    deciding = project_metric(task.metric_kind, metric)
    return resolution(task, rows_in_words(rows, independent, is_grouped), effective, deciding)


def warnings_of_plan(plan: Plan, params: Params) -> list[str]:
    """Return warnings: what would stop the pipeline, or give a poor model."""
    warnings = [f"{target} is replaced: its content differs." for target in plan.placement.replaced]
    if "-1" in plan.counts["train"].classes:
        warnings.append(
            "! -1 is a class like the others. If it means that a label is missing, empty these cells."
        )
    if params.data.max_rows is not None:
        warnings.append(
            f"! data.max_rows is {params.data.max_rows:,}: more rows of a split are not used. Set it to null"
            " to use all."
        )
    least = params.validate_.min_rows
    small = [split for split in SPLITS if plan.counts[split].rows < least]
    if small:
        warnings.append(
            f"! {' and '.join(small)}: fewer than {least} rows (validate.min_rows), so the data checks will"
            " fail."
        )
    return warnings + class_warnings(plan)


def class_warnings(plan: Plan) -> list[str]:
    """Return warnings about classes with a single row, and about splits that lack a class."""
    warnings = []
    totals: Counter[str] = Counter()
    for counts in plan.counts.values():
        totals += counts.classes
    rare = []
    for name, rows in totals.items():
        if name and rows == 1:
            rare.append(name)
    if rare:
        warnings.append(
            f"! Only one row has the label {listed(rare, SHOWN_CLASSES)}: a typo, or the header of another"
            " file?"
        )

    # classes of the train split that another split cannot test
    for split in SPLITS[1:]:
        absent = sorted(set(plan.counts["train"].classes) - set(plan.counts[split].classes))
        unknown = sorted(set(plan.counts[split].classes) - set(plan.counts["train"].classes) - {""})
        if unknown and plan.counts["train"].classes.keys() != {""}:
            warnings.append(
                f"! {split} has rows of {listed(unknown, SHOWN_CLASSES)}, and train has none: the model"
                " cannot learn what it never sees. Move such rows to train, or take them out."
            )
        if absent:
            warnings.append(f"! {split} has no rows of {first_of(absent, SHOWN_CLASSES)}.")
    return warnings
