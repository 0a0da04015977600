"""The filled-in review becomes corrections in ``data/corrections/labels.csv``."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from tuneline.analysis.corrections import LABEL_SCHEMA, row_keys
from tuneline.analysis.text import normalized
from tuneline.core.tables import LABELS, SplitReader
from tuneline.labels.review import CORRECT, KEY, LABEL, Suspect
from tuneline.params import DataParams
from tuneline.paths import RAW, SPLITS
from tuneline.readers.rows import nearest
from tuneline.runtime.errors import InputError
from tuneline.runtime.wording import first_lines, listed
from tuneline.tasks import Task
from tuneline.tasks.columns import labels_of
from tuneline.tasks.schemas import read_task
from tuneline.words.label_texts import exact_text, unknown_names

CUT = 32_767
"""Characters at which spreadsheets cut a cell."""
SHOWN = 10
"""Problems that a message names."""


def merged(
    path: Path, filled: Sequence[tuple[int, Suspect, str]], data: DataParams, corrections: pa.Table
) -> tuple[pa.Table, int]:
    """Add the corrections of a review to those that there are.

    A correction is by the label in the source, which an earlier correction may have replaced in ``data/raw``.

    Returns:
        All corrections, of ``LABEL_SCHEMA``, and how many of them are new or have changed.

    Raises:
        InputError: A label is not a class, the data has another hash, text or label, or two corrections of a
            row differ. Nothing is applied then: a half-applied file would be hard to correct.
    """
    task = read_task(SplitReader.open(RAW, "train", "download").schema)
    texts, labels_now = _rows_of_data({row.key for _, row, _ in filled}, task, data)
    after = {(row["key"], row["before"]): (row["split"], row["after"]) for row in corrections.to_pylist()}
    before = dict(after)
    sources: dict[tuple[str, str], list[str]] = defaultdict(
        list
    )  # labels in the source, by the label that they were corrected to
    for (key, source), (_, correct) in before.items():
        sources[key, correct].append(source)

    decided: dict[tuple[str, str], str] = {}
    problems = []
    for number, row, answer in filled:
        label, correct, problem = _labels(row, answer, task)
        problem = problem or _wrong_row(row, texts, data)
        now = labels_now[row.key]
        if problem is None and label not in now and correct not in now:
            problem = f"{LABEL}: {label!r}, but {listed(sorted(now))} in {RAW}. Write the review again"
        if problem is None and decided.setdefault((row.key, label), correct) != correct:
            problem = (
                f"{CORRECT}: {correct!r}, but another row with these texts has {decided[row.key, label]!r}"
            )
        if problem is not None:
            problems.append(f"{path}, row {number:,}, {problem}.")
            continue
        # `dvc repro` has applied it, or will: data/raw has another label than the source; or it is right
        is_pending = any(source not in now for source in sources[row.key, correct])
        if label not in now or label == correct or is_pending:
            continue
        for source in sources[row.key, label] or [label]:
            if source == correct:  # the source is right after all
                after.pop((row.key, source), None)
            else:
                after[row.key, source] = (row.split, correct)
    if problems:
        raise InputError("\n  ".join(["nothing was applied.", *first_lines(problems, SHOWN)]))

    rows = [(key, split, source, correct) for (key, source), (split, correct) in after.items()]
    columns = list(zip(*rows, strict=True)) or [()] * len(LABEL_SCHEMA)
    new = len(dict(before.items() ^ after.items()))
    return pa.table([pa.array(column, pa.string()) for column in columns], schema=LABEL_SCHEMA), new


def _rows_of_data(
    keys: set[str], task: Task, data: DataParams
) -> tuple[dict[str, tuple[str, ...]], dict[str, set[str]]]:
    """Return the texts and the labels of the rows of ``data/raw`` with these hashes, by the hash."""
    required = pa.array(sorted(keys), pa.string())
    texts = {}
    labels = defaultdict(set)
    for split in SPLITS:
        for batch in SplitReader.open(RAW, split, "download").batches([*data.text_columns, LABELS]):
            hashes = row_keys([batch[name] for name in data.text_columns])
            is_required = pc.is_in(hashes, value_set=required)
            rows = batch.filter(is_required)
            for key, row, label in zip(
                hashes.filter(is_required).to_pylist(),
                rows.to_pylist(),
                labels_of(task, rows[LABELS]),
                strict=True,
            ):
                texts[key] = tuple(row[name] for name in data.text_columns)
                labels[key].add(exact_text(task, label))
    return texts, labels


def _labels(row: Suspect, answer: str, task: Task) -> tuple[str, str, str | None]:
    """Return the label and its correction as corrections have them, and what is wrong with them."""
    try:
        label = exact_text(task, row.label)
        correct = exact_text(task, answer)
    except ValueError:
        return row.label, answer, f"{CORRECT}: {answer!r} is not a number"
    unknown = unknown_names(task, correct)
    if unknown:
        names = task.class_names
        return (
            label,
            correct,
            f"{CORRECT}: {unknown[0]!r} is not one of {listed(names)}{nearest(unknown[0], names)}",
        )
    return label, correct, None


def _wrong_row(row: Suspect, texts: dict[str, tuple[str, ...]], data: DataParams) -> str | None:
    """Return what is wrong if ``data/raw`` has no row with this hash and these texts."""
    if row.key not in texts:
        return (
            f"{KEY}: {row.key!r} is no row of {RAW}. It may have changed in a spreadsheet, or the data since"
        )
    for name, cell, text in zip(data.text_columns, row.texts, texts[row.key], strict=True):
        if not is_same_text(cell, text):
            return f"{name}: {cell[:40]!r} is not the text of this {KEY}. Sort all columns together, or none"
    return None


def is_same_text(cell: str, text: str) -> bool:
    """Return True if a cell of a spreadsheet has a text.

    White space may differ, and a spreadsheet cuts a long text.
    """
    cell_words, text_words = normalized(pa.array([cell, text], pa.string())).to_pylist()
    if cell_words == text_words:
        return True
    return len(cell) >= CUT and text_words.startswith(cell_words)
