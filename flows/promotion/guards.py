"""What a candidate must not lose, however much better it is on average: groups of rows, and behaviour tests.

``promotion.slices`` and ``promotion.behaviour`` in ``conf/flows.yaml`` name them, each with a margin.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from flows.promotion.registry import Registry
from flows.runs.pipeline import Pipeline
from flows.runs.processes import ProgramError
from tuneline.analysis.text import same_text_keys
from tuneline.comparison.paired import PairedComparison
from tuneline.core.tables import SplitReader
from tuneline.evaluation.records import Behaviour
from tuneline.evaluation.slices import RowSlice, label_slices
from tuneline.metrics.judging import averaging
from tuneline.metrics.table import primary_metric
from tuneline.params.data import DataParams
from tuneline.params.loading import load_params
from tuneline.paths import PARAMS, RAW, REPORTS, SOURCE
from tuneline.readers.formats import ENDINGS, data_input
from tuneline.readers.labelled import LabelledColumns, labelled_rows
from tuneline.readers.rows import BadRowPolicy, BadRows
from tuneline.readers.tables import open_table
from tuneline.repository.registry import Version
from tuneline.runtime.errors import DataError
from tuneline.tasks import Task, unnamed_task

CLASS = "label"
"""Name by which ``promotion.slices`` means the class of a row."""
ALL_TESTS = "all"
"""Name by which ``promotion.behaviour`` means every test."""
FALSE_STOP = 0.05
"""Probability that a candidate which loses no slice is stopped by one of them."""
MOST_NAMED = 3
"""Slices that lose and are named, the largest losses first."""


@dataclass(frozen=True)
class Guard:
    """What one entry of ``promotion.slices`` or ``promotion.behaviour`` has found.

    Attributes:
        name: What is guarded, for people.
        value: What was measured, for people.
        limit: What is required, for people.
        kept: True if the candidate did not lose it.
    """

    name: str
    value: str
    limit: str
    kept: bool


@dataclass(frozen=True)
class SliceLoss:
    """A slice that the candidate loses.

    Attributes:
        difference: Metric of the candidate less that of production.
        text: The loss, for people.
    """

    difference: float
    text: str


@dataclass(frozen=True)
class PairedRows:
    """Labels and predictions of two models, each of shape ``(rows,)``, and the clusters of the rows."""

    task: Task
    labels: NDArray[Any]
    candidate: NDArray[Any]
    production: NDArray[Any]
    clusters: NDArray[Any] | None

    def loss(self, row_slice: RowSlice, margin: float, level: float) -> SliceLoss | None:
        """Return how much the candidate loses in a slice; ``None`` for no more than margin and chance.

        Args:
            row_slice: The rows.
            margin: Loss that is accepted.
            level: Probability of taking chance for a loss.
        """
        rows = row_slice.rows
        metric = primary_metric(self.task.metric_kind)
        clusters = None
        if self.clusters is not None:
            _, clusters = np.unique(self.clusters[rows], return_inverse=True)
        compared = PairedComparison.of(
            self.task,
            [metric],
            self.labels[rows],
            self.candidate[rows],
            self.production[rows],
            average=averaging(self.task),
            level=1 - 2 * level,
            clusters=clusters,
        )
        difference = compared.differences[metric.name]

        # more than chance: the test is one-sided
        if compared.test is not None:
            is_significant = compared.test.p / 2 <= level
        else:
            is_significant = difference.high < 0
        if difference.value >= -margin or not is_significant:
            return None
        return SliceLoss(
            difference.value,
            f"{row_slice.by} {row_slice.name!r} loses {-difference.value:.4f} {metric.name}"
            f" ({difference.second:.4f} to {difference.first:.4f} on {len(rows):,} rows)",
        )


def check_slices(root: Path, rows: PairedRows, split: str, margins: Mapping[str, float]) -> list[Guard]:
    """Compare two models on the slices that ``promotion.slices`` names.

    Args:
        root: Checkout of the candidate.
        rows: The rows of its reported split.
        split: Name of this split.
        margins: ``promotion.slices``.

    Raises:
        DataError: The data have no such column.
    """
    slices = {key: list(_slices(root, rows, split, key)) for key in margins}
    number = sum(map(len, slices.values()))
    guards = []
    for key, margin in margins.items():
        level = FALSE_STOP / max(number, 1)
        losses = []
        for row_slice in slices[key]:
            loss = rows.loss(row_slice, margin, level)
            if loss is not None:
                losses.append(loss)
        losses.sort(key=lambda loss: loss.difference)
        guards.append(_slice_guard(key, margin, level, len(slices[key]), losses))
    return guards


def _slice_guard(key: str, margin: float, level: float, number: int, losses: Sequence[SliceLoss]) -> Guard:
    """Return the result of one entry of ``promotion.slices``."""
    if number == 0:
        value = "no rows of it in the split"
    elif losses:
        value = "; ".join(loss.text for loss in losses[:MOST_NAMED])
        if len(losses) > MOST_NAMED:
            value += f"; and {len(losses) - MOST_NAMED} more"
    else:
        value = f"none of {number} loses more"
    limit = f"no loss of more than {margin:g}, beyond chance (p <= {level:.2g})"
    return Guard(f"slice {key}", value, limit, kept=number > 0 and not losses)


def _slices(root: Path, rows: PairedRows, split: str, key: str) -> Iterator[RowSlice]:
    """Yield the slices that a key of ``promotion.slices`` names."""
    column, _, value = key.partition(":")
    value = value.strip()
    if column == CLASS:
        for row_slice in label_slices(rows.labels, rows.task):
            if value in ("", row_slice.name):
                yield row_slice
        return

    groups = column_of_rows(root, split, column)
    names = [value] if value else sorted(set(groups.tolist()) - {""})
    for name in names:
        members = np.flatnonzero(groups == name)
        if len(members):
            yield RowSlice(column, name, members)


def column_of_rows(root: Path, split: str, column: str) -> NDArray[Any]:
    """Return the value of a column of the data for each row of a raw split, as text; empty where it has none.

    The raw splits have texts and labels only, so the rows are found in the files of ``data.path`` by their
    texts. Of several rows with the same texts, the first counts.

    Raises:
        DataError: The data are no files under ``data/source``, or none has the column.
    """
    data = load_params(root / PARAMS).data
    hint = (
        f"promotion.slices in conf/flows.yaml names {column!r}: a column of the files of data.path, or"
        f" {CLASS}."
    )
    folder = root / SOURCE / (data.path or ".")
    if data.source != "files" or not folder.exists():
        raise DataError(f"data.source is {data.source!r}: its rows have no column {column!r}.", hint)

    # values by the texts of the rows
    values: dict[int, str] = {}
    for path in sorted(folder.rglob("[!.]*")):
        if path.name.endswith(ENDINGS):
            for key, value in _column_of_file(path, data, column):
                values.setdefault(key, value)
    if not values:
        raise DataError(f"{data.path}: no file has a column {column!r}.", hint)

    # the rows of the split, in their order
    raw = SplitReader.open(root / RAW, split, made_by="download").read(list(data.text_columns))
    keys = same_text_keys([raw[name].combine_chunks() for name in data.text_columns])
    return np.array([values.get(key, "") for key in keys.tolist()], dtype=object)


def _column_of_file(path: Path, data: DataParams, column: str) -> Iterator[tuple[int, str]]:
    """Yield the key of the texts of each row of a file, and its value of a column."""
    policy = BadRowPolicy("skip", 1.0)  # stage download has decided about bad rows
    texts = tuple(data.text_columns)
    columns = LabelledColumns(
        texts,
        data.label_column,
        unnamed_task(data.task),
        {column: "promotion.slices"},
        optional=(column,),
        sparse=True,
        policy=policy,
        sets=data.label_sets,
    )
    source = data_input(path, data.files)
    with open_table(source) as table:
        if column not in table.names():
            return
        for batch in labelled_rows(table, columns, BadRows(str(path), source.unit, policy)):
            parts = batch.columns
            keys = same_text_keys(parts[: len(texts)])
            for key, value in zip(keys.tolist(), _texts(parts[len(texts)]), strict=True):
                if value:
                    yield key, value


def _texts(column: pa.Array) -> list[str | None]:
    """Return the values of a column of text."""
    values: list[str | None] = column.to_pylist()
    return values


def check_behaviour(
    pipeline: Pipeline, registry: Registry, production: Version, margins: Mapping[str, float]
) -> list[Guard]:
    """Compare the pass rates of the behaviour tests that ``promotion.behaviour`` names.

    A test that production was not tested with cannot get worse.
    """
    path = REPORTS / "behaviour.json"
    ours = _pass_rates(pipeline.programs.cwd / path)
    target = pipeline.programs.cwd / ".dvc" / "tmp" / f"{production.name}-behaviour.json"
    try:
        message = f"Fetching the behaviour tests of {production.name}"
        pipeline.get(registry.repository, str(path), production.commit, target, message)
        theirs = _pass_rates(target)
    except (ProgramError, DataError) as error:
        pipeline.on_line(f"The behaviour tests of {production.name} are not known: {error}")
        theirs = {}

    guards = []
    for name, margin in margins.items():
        names = sorted(ours.keys() & theirs.keys()) if name == ALL_TESTS else [name]
        for test in names:
            guards.append(_behaviour_guard(test, ours.get(test), theirs.get(test), margin))
    return guards


def _behaviour_guard(test: str, ours: float | None, theirs: float | None, margin: float) -> Guard:
    """Return the result of one behaviour test, given the pass rates of candidate and production."""
    limit = f"at most {margin:g} below production"
    name = f"behaviour test {test!r}"
    if ours is None:
        return Guard(name, "unknown", limit, kept=False)
    if theirs is None:
        return Guard(name, f"{ours:.4f}; production was not tested", limit, kept=True)
    value = f"{ours:.4f} - {theirs:.4f} = {ours - theirs:+.4f}"
    return Guard(name, value, limit, kept=theirs - ours <= margin)


def _pass_rates(path: Path) -> dict[str, float]:
    """Return the pass rate of each behaviour test in a report; none without a report."""
    report = Behaviour.read_if_exists(path)
    if report is None:
        return {}
    return {test.name: test.pass_rate for test in report.tests if test.pass_rate is not None}
