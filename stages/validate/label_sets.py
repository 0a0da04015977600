"""What the sets of labels of the rows say, where a row has several labels: measurements and notes of checks.

A label that no row of train has, two labels that occur almost always together, and which label is the most
frequent one.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from stages.validate.checks import percent
from stages.validate.classes import ClassFindings, quoted_name, shortened
from stages.validate.labels import LabelFindings
from stages.validate.raw import RawSplit
from tuneline.params import ValidateParams
from tuneline.tasks.task import Labels


def examine_sets(
    raw: Mapping[str, RawSplit], classes: ClassFindings | None, params: ValidateParams
) -> dict[str, LabelFindings]:
    """Examine the labels of each split with labels; none where a row has one label."""
    findings: dict[str, LabelFindings] = {}
    if classes is None or not classes.task.label_shape:
        return findings
    for split, current in raw.items():
        if not current.is_labelled or not current.rows:
            continue
        rows_with_both, rows_without = co_occurrences(current)
        columns, notes = _inseparable(rows_with_both, classes.names, params)
        if split == "train":
            columns["absent_labels"] = float(np.count_nonzero(classes.counts["train"] == 0))
        most_frequent = int(rows_with_both.diagonal().argmax())
        share = rows_with_both[most_frequent, most_frequent] / current.rows
        share_without = rows_without / current.rows
        if max(share, share_without) > params.class_balance.max:
            notes["class_balance"] = [
                f"The most frequent label is {quoted_name(classes.names[most_frequent])}: {percent(share)} of"
                f" the rows have it. {percent(share_without)} of the rows have no label."
            ]
        findings[split] = LabelFindings(columns, notes)
    return findings


def co_occurrences(split: RawSplit) -> tuple[NDArray[np.int64], int]:
    """Return the number of rows with both of two labels, shape ``(labels, labels)``, and of those with none.

    The diagonal has the rows of each label.
    """
    labels = split.task.outputs
    rows_with_both = np.zeros((labels, labels), np.int64)
    rows_without = 0
    for batch in split.label_batches():
        sets = _indicators(batch)
        rows_with_both += (sets.T @ sets).astype(np.int64)
        rows_without += int((batch == 0).all(axis=1).sum())
    return rows_with_both, rows_without


def _indicators(labels: Labels) -> NDArray[np.float32]:
    """Return 1 where a row has a label: as floats, whose product is fast, and exact for a batch of rows."""
    return np.asarray(labels == 1, np.float32)


def _inseparable(
    rows_with_both: NDArray[np.int64], names: tuple[str, ...], params: ValidateParams
) -> tuple[dict[str, float], dict[str, list[str]]]:
    """Return the largest fraction of the rows with either of two labels that have both, and all large ones.

    It is the Jaccard similarity of their rows. Labels of few rows, which are reported as rare, do not count.
    """
    rows = rows_with_both.diagonal()
    rows_with_either = rows[:, None] + rows[None, :] - rows_with_both
    fraction = rows_with_both / np.maximum(rows_with_either, 1)
    is_rare = rows < params.rare_classes.min_rows
    fraction[is_rare, :] = 0.0
    fraction[:, is_rare] = 0.0
    fraction = np.triu(fraction, 1)  # each pair once

    lines = []
    for first, second in np.argwhere(fraction > params.inseparable_labels.max).tolist():
        lines.append(
            f"labels {quoted_name(names[first])} and {quoted_name(names[second])}:"
            f" {rows_with_both[first, second]:,} of the {rows_with_either[first, second]:,} rows with either"
            " have both"
        )
    notes = {"inseparable_labels": shortened(lines)} if lines else {}
    return {"inseparable_labels": float(fraction.max(initial=0.0))}, notes
