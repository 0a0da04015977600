"""``tuneline show --against REV``: this model and that of another commit, on the rows that both predicted, by the labels as they are now.

Labels that were corrected, and rows that were added or dropped, so make neither model better or worse.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from tuneline.analysis.corrections import row_keys
from tuneline.core.errors import DataError, StageError
from tuneline.core.paths import PREDICTIONS, RAW
from tuneline.core.stage import require
from tuneline.core.tables import LabelSchema, SplitReader, is_split_file, read_table
from tuneline.metrics.scores import averaging, task_of
from tuneline.metrics.table import metrics_for, title_of
from tuneline.project.dvc import Lock, cached_folder, cached_out, read_lock
from tuneline.project.paired import PairedComparison, translated_ids
from tuneline.project.repo import git, lock_at

Rows = dict[tuple[str, int], int]
"""Row numbers by the hash of the texts, and how often these texts came before."""


@dataclass(frozen=True)
class Predicted:
    """What the model of a commit predicted for its reported split.

    Attributes:
        rows: The rows.
        labels: Class ids or numbers, shape ``(rows,)``.
        predictions: Same shape.
        schema: Label schema.
    """

    rows: Rows
    labels: NDArray[Any]
    predictions: NDArray[Any]
    schema: LabelSchema

    @classmethod
    def read(cls, predictions: Path, raw: SplitReader, lock: Lock) -> Self:
        """Read the predictions, and the texts of the same rows.

        Raises:
            DataError: The files are of different runs.
        """
        table = read_table(predictions, ["label", "prediction"])
        if raw.rows != len(table):
            raise DataError(f"{predictions} has {len(table):,} rows, and {raw.name} has {raw.rows:,}.", "Run `dvc repro evaluate`.")
        batches = raw.batches(lock.params()["data.text_columns"])
        keys = (key for batch in batches for key in row_keys(batch.columns).to_pylist())
        rows = {key: row for row, key in enumerate(numbered(keys))}
        return cls(rows, table["label"].to_numpy(), table["prediction"].to_numpy(), LabelSchema.of(table.schema, "label"))


def numbered(keys: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Yield each key with the number of equal ones before it."""
    before: Counter[str] = Counter()
    for key in keys:
        yield key, before[key]
        before[key] += 1


@dataclass(frozen=True)
class RevisionComparison:
    """The present model and that of another commit.

    Attributes:
        models: The two models, the present one first, on the rows that both predicted.
        rows: Number of these rows.
        left_out: Number of rows that only the present model predicted, and that only the other one did.
        relabelled: Number of rows whose label was another when the other model was scored.
    """

    models: PairedComparison
    rows: int
    left_out: tuple[int, int]
    relabelled: int


def compare_with(root: Path, revision: str) -> RevisionComparison:
    """Compare the predictions of the working tree with those of another commit, which must be in DVC's cache.

    Raises:
        StageError: There is no such commit, its files are not in the cache, or the two have no row in common.
    """
    if not git(root, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}"):
        raise StageError(f"--against {revision}: git does not know this commit.", "Run git fetch, or name another commit.")
    lock, other = read_lock(root), lock_at(root, revision)
    predictions = require(root / PREDICTIONS, made_by="evaluate")
    now = Predicted.read(predictions, SplitReader.open(root / RAW, _reported(lock), made_by="download"), lock)
    there, raw_there = cached_out(root, other, PREDICTIONS.as_posix()), _cached_split(root, other)
    if there is None or raw_there is None:
        hint = f"Run `dvc fetch --rev {revision} {PREDICTIONS} {RAW}`, if a DVC remote has them."
        raise StageError(f"--against {revision}: DVC's cache does not have the predictions and the data of this commit.", hint)
    return compare(now, Predicted.read(there, raw_there, other), lock.params())


def _reported(lock: Lock) -> str:
    return str(lock.params().get("evaluate.split", "test"))


def _cached_split(root: Path, lock: Lock) -> SplitReader | None:
    """Return the raw split that a commit reported on; ``None`` if DVC's cache lacks a file of it."""
    files = cached_folder(root, lock, RAW.as_posix()) or {}
    paths = [path for name, path in sorted(files.items()) if is_split_file(name, _reported(lock))]
    found = tuple(path for path in paths if path is not None)
    return SplitReader(RAW, _reported(lock), found) if found and len(found) == len(paths) else None


def compare(now: Predicted, then: Predicted, params: dict[str, Any]) -> RevisionComparison:
    """Score both models on the rows in common, by the labels of ``now``.

    Raises:
        DataError: There are none, or one predicts classes and the other numbers.
    """
    if now.schema.is_regression != then.schema.is_regression:
        raise DataError("One of the two models predicts classes, and the other numbers.", "Name another commit.")
    common = [key for key in now.rows if key in then.rows]
    if not common:
        raise DataError("The two models have predicted no row in common.", "Name a commit that reported on the same texts.")
    ours, theirs = (np.array([side.rows[key] for key in common]) for side in (now, then))
    labels, first = now.labels[ours], now.predictions[ours]
    second, before = (translated_ids(values[theirs], then.schema.names, now.schema.names) for values in (then.predictions, then.labels))
    metrics = [metric for metric in metrics_for(task_of(now.schema)) if metric.resampled]
    average = None if now.schema.is_regression else averaging(now.schema, params.get("evaluate.f1"))
    models = PairedComparison.of(metrics, labels, first, second, average=average, seed=int(params.get("seed") or 0))
    left_out = len(now.rows) - len(common), len(then.rows) - len(common)
    return RevisionComparison(models, len(common), left_out, int((before != labels).sum()))


def comparison_table(comparison: RevisionComparison, revision: str) -> Table:
    """Return one row for each metric: of the present model, of the other one, and the difference with its interval."""
    table = Table("", "now", revision, "difference", "95 % interval", title=f"On {comparison.rows:,} rows of both", title_justify="left")
    for name, one in comparison.models.differences.items():
        table.add_row(title_of(name), f"{one.first:.4f}", f"{one.second:.4f}", f"{one.value:+.4f}", f"{one.low:+.4f} to {one.high:+.4f}")
    return table


def describe(comparison: RevisionComparison, revision: str) -> str:
    """Return what the table does not say: if the difference is chance, and which rows and labels differ."""
    primary = next(iter(comparison.models.differences.values()))
    lines = ["clearly better" if primary.low > 0 else "clearly worse" if primary.high < 0 else "no clear difference"]
    if test := comparison.models.test:
        rows = f"only this model is right on {test.first_only:,} rows, only that of {revision} on {test.second_only:,}"
        lines[0] += f" (McNemar's test: p = {test.p:.2g}; {rows})"
    if comparison.relabelled:
        lines.append(f"{comparison.relabelled:,} of these rows had another label at {revision}; both models are scored by the present ones")
    if any(comparison.left_out):
        here, there = comparison.left_out
        lines.append(f"Left out: {here:,} rows that only this model predicted, and {there:,} that only that of {revision} did")
    return "\n".join(f"{line[0].upper()}{line[1:]}." for line in lines)
