"""The present model and the model of another commit on the rows that both predicted.

Both are scored by the labels as they are now. Labels that were corrected, and rows that were added or
dropped, so make neither model better or worse.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tuneline.core.paths import PREDICTIONS, RAW, VALIDATION_PREDICTIONS
from tuneline.core.repository.dvc import Lock, cached_folder, cached_out, read_lock
from tuneline.core.repository.git import lock_at
from tuneline.core.runtime.errors import DataError, StageError
from tuneline.core.stage.entry import require
from tuneline.core.stage.tables import SplitReader, is_split_file
from tuneline.judge.metrics.predictions import Predictions, read_predictions
from tuneline.judge.metrics.table import metrics_for
from tuneline.operations.experiments.paired import PairedComparison
from tuneline.operations.experiments.saved import resolve_revision
from tuneline.page.titles import positive_class
from tuneline.rows.splits.corrections import row_keys


def _read(path: Path, raw: SplitReader, lock: Lock) -> Predictions:
    """Read the predictions of a commit's model, with ids of their rows.

    Raises:
        DataError: The files are of different runs.
    """
    # Rows are found again by their texts: their numbers change with every row that is dropped
    keys: list[str] = []
    for batch in raw.batches(lock.params()["data.text_columns"]):
        keys += row_keys(batch.columns).to_pylist()
    return replace(read_predictions(path, raw.rows), ids=np.array(list(numbered(keys)), dtype=object))


def numbered(keys: Iterable[str]) -> Iterator[str]:
    """Yield each key, the hash of the texts of a row, with the number of equal ones before it."""
    before: Counter[str] = Counter()
    for key in keys:
        yield f"{key} {before[key]}"
        before[key] += 1


@dataclass(frozen=True)
class RevisionComparison:
    """The present model and the model of another commit, in this order.

    Attributes:
        rows: Number of the rows that both predicted.
        left_out: Number of rows that only the present model predicted, and that only the other one did.
        relabelled: Number of rows whose label was another when the other model was scored.
        split: The split of the rows.
        positive: Name of the class that F1 of two classes is of.
    """

    models: PairedComparison
    rows: int
    left_out: tuple[int, int]
    relabelled: int
    split: str
    positive: str | None

    def description(self, revision: str) -> str:
        """Return what the table of ``differences`` does not say, for people.

        That is: if the difference is chance, and which rows and labels differ.
        """
        primary = next(iter(self.models.differences.values()))
        if primary.low > 0:
            significance = "clearly better"
        elif primary.high < 0:
            significance = "clearly worse"
        else:
            significance = "no clear difference"
        test = self.models.test
        if test:
            rows = (
                f"only this model is right on {test.first_only:,} rows, only that of {revision} on"
                f" {test.second_only:,}"
            )
            significance += f" (McNemar's test: p = {test.p:.2g}; {rows})"

        lines = [significance]
        if self.relabelled:
            lines.append(
                f"{self.relabelled:,} of these rows had another label at {revision}; both models are scored"
                " by the present ones"
            )
        if any(self.left_out):
            here, there = self.left_out
            lines.append(
                f"Left out: {here:,} rows that only this model predicted, and {there:,} that only that of"
                f" {revision} did"
            )
        return "\n".join(f"{line[0].upper()}{line[1:]}." for line in lines)


def compare_with(root: Path, revision: str) -> RevisionComparison:
    """Compare the predictions of the working tree with the predictions of another commit or experiment.

    They are predictions for the reported split, or for validation if the revision is an experiment that was
    scored on validation only.

    Raises:
        StageError: There is no such commit, its files are not in DVC's cache, or the two have no row in
            common.
    """
    commit = resolve_revision(root, revision)
    if not commit:
        raise StageError(
            f"--against {revision}: git knows no such commit or experiment.",
            "Run git fetch, or name another one.",
        )
    lock = read_lock(root)
    lock_then = lock_at(root, commit).consistent()

    # the split
    is_evaluated = lock_then.out(PREDICTIONS.as_posix()) is not None
    is_validated = lock_then.out(VALIDATION_PREDICTIONS.as_posix()) is not None
    if is_validated and not is_evaluated:
        path = VALIDATION_PREDICTIONS
        made_by = "train"
        split = "validation"
        split_then = "validation"
    else:
        path = PREDICTIONS
        made_by = "evaluate"
        split = str(lock.params().get("evaluate.split", "test"))
        split_then = str(lock_then.params().get("evaluate.split", "test"))

    # predictions of the working tree
    predictions = require(root / path, made_by)
    now = _read(predictions, SplitReader.open(root / RAW, split, made_by="download"), lock)

    # predictions of the revision, from DVC's cache
    cached_predictions = cached_out(root, lock_then, path.as_posix())
    folder = cached_folder(root, lock_then, RAW.as_posix()) or {}
    split_files = [file for name, file in sorted(folder.items()) if is_split_file(name, split_then)]
    files = tuple(file for file in split_files if file is not None)
    if cached_predictions is None or not files or len(files) < len(split_files):
        hint = f"Run `dvc fetch --all-commits {path} {RAW}`, if a DVC remote has them."
        raise StageError(
            f"--against {revision}: DVC's cache does not have the predictions and the data of this commit.",
            hint,
        )
    then = _read(cached_predictions, SplitReader(RAW, split_then, files), lock_then)
    return compare_revisions(now, then, int(lock.params().get("seed") or 0), split)


def compare_revisions(
    now: Predictions, then: Predictions, seed: int = 0, split: str = "test"
) -> RevisionComparison:
    """Score both models on the rows in common, which have the same ids, by the labels of ``now``.

    Raises:
        DataError: The models are of different tasks, or have no row in common.
    """
    task = now.task
    if task.kind != then.task.kind:
        raise DataError(
            f"The two models are of different kinds of task, {task.kind} and {then.task.kind}.",
            "Name another commit.",
        )
    common, rows, rows_then = np.intersect1d(now.ids, then.ids, return_indices=True)
    if not len(common):
        raise DataError(
            "The two models have predicted no row in common.",
            "Name a commit that reported on the same texts.",
        )

    # in the order of the present split; the order of the classes may have changed
    order = np.argsort(rows)
    first = now.take(rows[order])
    second = then.take(rows_then[order]).translated(task)

    metrics = [metric for metric in metrics_for(task.judged_as) if metric.resampled]
    models = PairedComparison.of(first, second.values, metrics, seed=seed)
    left_out = (len(now) - len(common), len(then) - len(common))
    is_relabelled = (second.labels != first.labels).reshape(len(common), -1).any(axis=1)
    return RevisionComparison(
        models,
        len(common),
        left_out,
        int(is_relabelled.sum()),
        split,
        positive_class(task.names, task.decisions),
    )
