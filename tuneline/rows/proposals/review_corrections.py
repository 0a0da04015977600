"""The filled-in review becomes corrections in ``data/corrections/labels.csv``."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from tuneline.core.params import DataParams
from tuneline.core.paths import RAW, SPLITS
from tuneline.core.runtime.errors import InputError
from tuneline.core.runtime.terminal import listed
from tuneline.core.stage.tables import LABELS, SplitReader
from tuneline.core.stage.texts import normalized
from tuneline.model.tasks import Task
from tuneline.model.tasks.columns import labels_of, read_task
from tuneline.rows.proposals.label_review import CORRECT, KEY, LABEL, Suspect
from tuneline.rows.reading.rows import nearest
from tuneline.rows.splits.corrections import LABEL_SCHEMA, row_keys

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
    before = {(row["key"], row["before"]): (row["split"], row["after"]) for row in corrections.to_pylist()}
    after = dict(before)

    def sources(key: str, label: str) -> list[str]:
        """Return the labels in the source that were corrected to a label."""
        return [source for (other, source), (_, new) in before.items() if (other, new) == (key, label)]

    decided: dict[tuple[str, str], str] = {}
    for number, row, answer in filled:
        try:
            label = task.text(task.parse(row.label))
            correct = _correct_label(answer, task)
            _check_row(row, texts, data)
            now = labels_now[row.key]
            if label not in now and correct not in now:
                raise ValueError(f"{LABEL}: {label!r}, but {listed(sorted(now))} in {RAW}. Write it again")
            other = decided.setdefault((row.key, label), correct)
            if other != correct:
                raise ValueError(f"{CORRECT}: {correct!r}, but another row with these texts has {other!r}")
        except ValueError as problem:
            raise InputError(f"nothing was applied. {path}, row {number:,}, {problem}.") from None

        # `dvc repro` has applied it, or will: data/raw has another label than the source; or it is right. If
        # data/raw has the correct label, too, an earlier correction gave it to another row of these texts.
        is_pending = correct not in now and any(source not in now for source in sources(row.key, correct))
        if label not in now or label == correct or is_pending:
            continue
        for source in sources(row.key, label) or [label]:
            if source == correct:  # the source is right after all
                after.pop((row.key, source), None)
            else:
                after[row.key, source] = (row.split, correct)

    rows = []
    for (key, source), (split, correct) in after.items():
        rows.append(dict(zip(LABEL_SCHEMA.names, (key, split, source, correct), strict=True)))
    new = len(dict(before.items() ^ after.items()))
    return pa.Table.from_pylist(rows, schema=LABEL_SCHEMA), new


def _rows_of_data(
    keys: set[str], task: Task, data: DataParams
) -> tuple[dict[str, tuple[str, ...]], dict[str, set[str]]]:
    """Return the texts and the labels of the rows of ``data/raw`` with these hashes, by the hash."""
    required = pa.array(sorted(keys), pa.string())
    texts = {}
    labels = defaultdict(set)
    columns = list(data.text_columns)
    columns.append(LABELS)
    for split in SPLITS:
        for batch in SplitReader.open(RAW, split, "download").batches(columns):
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
                labels[key].add(task.text(task.value(label)))
    return texts, labels


def _correct_label(answer: str, task: Task) -> str:
    """Return the answer of a person as corrections have it; a ``ValueError`` says why it is no label."""
    value = task.parse(answer)
    try:
        correct = task.text(value)
    except ValueError:
        raise ValueError(f"{CORRECT}: {answer!r} is not a number") from None
    if isinstance(value, float):
        return correct
    names = task.class_names
    for name in value if isinstance(value, list) else [value]:
        if name not in names:
            raise ValueError(f"{CORRECT}: {name!r} is not one of {listed(names)}{nearest(name, names)}")
    return correct


def _check_row(row: Suspect, texts: dict[str, tuple[str, ...]], data: DataParams) -> None:
    """Check that ``data/raw`` has a row with this hash and these texts; a ``ValueError`` says what it lacks.

    White space may differ, and a spreadsheet cuts a long text.
    """
    if row.key not in texts:
        raise ValueError(
            f"{KEY}: {row.key!r} is no row of {RAW}. It may have changed in a spreadsheet, or the data since"
        )
    for name, cell, text in zip(data.text_columns, row.texts, texts[row.key], strict=True):
        cell_words, text_words = normalized(pa.array([cell, text], pa.string())).to_pylist()
        is_cut = len(cell) >= CUT and text_words.startswith(cell_words)
        if cell_words != text_words and not is_cut:
            raise ValueError(
                f"{name}: {cell[:40]!r} is not the text of this {KEY}. Sort all columns together, or none"
            )
