"""Runs the checks with Great Expectations, and keeps their results: entries, violating rows and metrics.

Great Expectations says which rows violate an expectation. The report shows the worst ones; all of them, with
their texts, are in ``reports/checks/rows/CHECK.parquet``, for people and for ``tuneline data drop``.
"""

import html
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import great_expectations as gx
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from great_expectations.core.batch_definition import BatchDefinition
from great_expectations.core.expectation_validation_result import (
    ExpectationSuiteValidationResult,
    ExpectationValidationResult,
)
from great_expectations.data_context.types.base import ProgressBarsConfig
from great_expectations.expectations.expectation import (
    ColumnMapExpectation,
    ColumnPairMapExpectation,
    Expectation,
)
from great_expectations.validator.validation_statistics import calc_validation_statistics
from numpy.typing import NDArray

from stages.validate.checks import CHECK_TABLE, Check, CheckOutcome, Table, expectations
from stages.validate.columns import RowNumbers
from stages.validate.copies import NUMBERED_THROUGH
from stages.validate.raw import RawSplit
from stages.validate.tables import DerivedData
from tuneline.core.hashes import split_hash
from tuneline.core.tables import ROW_GROUP, SplitReader, failing_rows_schema, rebatch, write_batches
from tuneline.params.validate import Rule
from tuneline.paths import SPLITS
from tuneline.reports.checks import CheckEntry, Checks, Profile, Status, Violation
from tuneline.runtime.terminal import phase

MAX_ROWS = 5
"""Violating rows in the report, for each expectation."""
MAX_CHARACTERS = 120
"""Characters of an excerpt."""
# all but printable characters; then spaces without a width, separators of lines, and marks of direction
UNPRINTABLE = re.compile(
    r"[^\x20-\x7e\xa0-\uffff\U00010000-\U0010ffff]|[\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]"
)
LIMITS = {"at least": "min_value", "at most": "max_value"}
README = "All rows that violate a data check, one file per check. A check without such rows has no file.\n"
"""Keeps the folder, a dependency of the stage ``evaluate``, where no row violates a check.

DVC restores no empty folder.
"""


@dataclass(frozen=True)
class Violations:
    """Rows of a table, ascending, that violate an expectation.

    For a measurement, they are rows of the tokenized split that are listed with it.
    """

    check: Check
    table: Table
    arguments: Mapping[str, Any]
    rows: RowNumbers

    @property
    def shown(self) -> Sequence[str]:
        """Columns that show why a row violates the check."""
        if self.check.shows is not None:
            return self.check.shows
        columns = []
        for key in ("column", "column_A", "column_B"):
            if key in self.arguments:
                columns.append(self.arguments[key])
        return columns

    def of_split(self, raw: Mapping[str, RawSplit]) -> bool:
        """Return True if the rows are of a split that can be read."""
        return self.table.kind in ("raw", "tokenized") and self.table.split in raw

    def worst(self, raw: Mapping[str, RawSplit], text_columns: Sequence[str]) -> Iterator[Violation]:
        """Yield the rows that violate the check most, at most ``MAX_ROWS``."""
        # the numbers of the worst rows: they are read in ascending order
        worst = np.argsort(-self.excess(), kind="stable")[:MAX_ROWS]
        part = Violations(self.check, self.table, self.arguments, np.sort(self.rows[worst]))
        values = self.table.columns.take(self.shown, part.rows)
        other_rows = part.other_rows(raw)

        for position in np.argsort(-part.excess(), kind="stable"):
            row = int(part.rows[position])
            like = None
            if other_rows is not None:
                split = str(other_rows[0][position])
                other = int(other_rows[1][position])
                texts_of_other = _excerpts(raw[split], other, text_columns)
                like = f"{split}, row {other}: {' | '.join(texts_of_other.values())}"
            texts = {}
            if self.of_split(raw):
                texts = _excerpts(raw[self.table.split], row, text_columns)
            shown = {name: _json_value(values[name].iloc[position]) for name in self.shown}
            yield Violation(number=row, values=shown, texts=texts, like=like)

    def excess(self) -> NDArray[np.float64]:
        """Return by how much each row violates the check, of shape ``(rows,)``: the largest is the worst."""
        if "similarity" in self.shown:
            return self._values("similarity").astype(np.float64)
        if self.check.ranks:
            return self._values(self.check.ranks).astype(np.float64)
        low = self.arguments.get("min_value")
        high = self.arguments.get("max_value")
        if low is None and high is None:
            return np.zeros(len(self.rows))
        values = self._values(self.arguments["column"]).astype(np.float64)
        excess: NDArray[np.float64] = np.abs(values - np.clip(values, low, high))
        return excess

    def _values(self, column: str) -> NDArray[Any]:
        """Read a column of the rows."""
        values: NDArray[Any] = self.table.columns.take([column], self.rows)[column].to_numpy()
        return values

    def other_rows(self, raw: Mapping[str, RawSplit]) -> tuple[NDArray[np.str_], RowNumbers] | None:
        """Return the rows that the rows repeat: their splits and their numbers, each of shape ``(rows,)``.

        The result is ``None`` for other checks.
        """
        column = self.arguments.get("column")
        if self.check.relation is None or column is None:
            return None
        numbers = self._values(column).astype(np.int64)
        if column not in NUMBERED_THROUGH:
            return np.full(len(numbers), self.table.split), numbers

        # from a number through all splits to the split and the number in it
        ends = np.cumsum([split.rows for split in raw.values()])
        starts = np.append(0, ends)
        split = np.searchsorted(ends, numbers, side="right")
        return np.array(list(raw))[split], numbers - starts[split]

    def described(self, raw: Mapping[str, RawSplit]) -> dict[str, pa.Array]:
        """Return the column ``reason`` and, for a check of repeated rows, ``other_split`` and ``other_row``.

        Each has the shape ``(rows,)``.
        """
        values = self.table.columns.take(self.shown, self.rows)
        other_rows = self.other_rows(raw)
        if other_rows is None:
            return {"reason": self._limits_exceeded(values)}

        # "repeats train row 12", or "resembles train row 12 with similarity 0.9"
        splits = pa.array(other_rows[0], pa.string())
        numbers = pa.array(other_rows[1])
        parts = [pa.scalar(self.check.relation), splits, pa.scalar("row"), numbers.cast(pa.string())]
        if "similarity" in self.shown:
            similarity = pa.array(np.round(values["similarity"].to_numpy(), 3))
            parts += [pa.scalar("with similarity"), similarity.cast(pa.string())]
        reason = pc.binary_join_element_wise(*parts, " ")
        return {"reason": reason, "other_split": splits, "other_row": numbers}

    def _limits_exceeded(self, values: pd.DataFrame) -> pa.Array:
        """Return the values of each row with the limits, such as "visible characters 0 (at least 1)"."""
        parts: list[pa.Array | pa.Scalar] = []
        for name in self.shown:
            parts.append(pa.scalar(name.replace("_", " ")))
            parts.append(pa.array(values[name].to_numpy()).cast(pa.string()))

        limits = []
        for words, key in LIMITS.items():
            if self.arguments.get(key) is not None:
                limits.append(f"{words} {self.arguments[key]:g}")
        # limits of a column that is not shown would be read as limits of the shown one
        if limits and (self.check.ranks or self.arguments["column"] in self.shown):
            parts.append(pa.scalar(f"({', '.join(limits)})"))
        return pc.binary_join_element_wise(*parts, " ")


def _excerpts(split: RawSplit, row: int, text_columns: Sequence[str]) -> dict[str, str]:
    """Return excerpts of a row's texts, by column; none for a row that the split does not have."""
    rows = split.source.take(np.array([row]), text_columns).to_pylist()
    if not rows:
        return {}
    return {name: excerpt(text) for name, text in rows[0].items()}


def excerpt(text: str | None) -> str:
    """Return the start of a text, printable."""
    if text is None:
        return "(missing)"
    if len(text) > MAX_CHARACTERS:
        text = text[:MAX_CHARACTERS] + "…"
    return printable(text)


def printable(text: str) -> str:
    """Return a text on one line, with invisible characters and changes of writing direction escaped."""
    return UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _json_value(value: Any) -> Any:
    """Return a value that strict JSON can hold.

    Numbers become Python numbers, NaN and infinity strings; texts lose their HTML escapes.
    """
    if isinstance(value, str):
        return printable(html.unescape(value))
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    return value


def write_row_files(
    folder: Path,
    all_violations: Sequence[Violations],
    raw: Mapping[str, RawSplit],
    text_columns: Sequence[str],
) -> None:
    """Write the violating rows of each check, a file for each, to a new folder; no file without such rows.

    Checks that pass within their limit have violating rows, too.
    """
    folder.mkdir()
    (folder / "README.md").write_text(README, encoding="utf-8")

    # by check, then by split
    grouped: dict[str, dict[str, list[Violations]]] = {}
    for violations in all_violations:
        if violations.of_split(raw):
            by_split = grouped.setdefault(violations.check.key, {})
            by_split.setdefault(violations.table.split, []).append(violations)

    for check, by_split in grouped.items():
        phase(f"rows of {check}")
        batches = _batches_of_splits(by_split, raw, text_columns)
        first = next(batches, None)
        if first is not None:  # its schema depends on the check
            rows = rebatch(chain([first], batches), first.schema)
            write_batches(folder / f"{check}.parquet", first.schema, rows)


def _batches_of_splits(
    by_split: Mapping[str, Sequence[Violations]],
    raw: Mapping[str, RawSplit],
    text_columns: Sequence[str],
) -> Iterator[pa.RecordBatch]:
    """Yield the violating rows of a check in all splits, with their texts."""
    for name, split in raw.items():
        if name in by_split:
            yield from _batches(by_split[name], raw, split, text_columns)


def _batches(
    all_violations: Sequence[Violations],
    raw: Mapping[str, RawSplit],
    split: RawSplit,
    text_columns: Sequence[str],
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a split that violate the expectations of a check, with their texts.

    Rows that the raw split lacks are left out.
    """
    all_rows = np.unique(np.concatenate([violations.rows for violations in all_violations]))
    all_rows = all_rows[all_rows < split.rows]
    for start in range(0, len(all_rows), ROW_GROUP):
        rows = all_rows[start : start + ROW_GROUP]
        texts = split.source.take(rows, text_columns)
        parts = [_reasons(violations, rows, raw) for violations in all_violations]
        has_pairs = "other_row" in parts[0].column_names

        # a row may violate several expectations: all reasons are joined, and the first other row is kept
        columns = [pa.repeat(split.source.split, len(rows)), pa.array(rows)]
        for name in text_columns:
            columns.append(pa.concat_arrays(texts[name].chunks))
        reasons = [part.column("reason").combine_chunks() for part in parts]
        columns.append(pc.binary_join_element_wise(*reasons, "; ", null_handling="skip"))
        if has_pairs:
            for name in ("other_split", "other_row"):
                columns.append(pc.coalesce(*(part.column(name).combine_chunks() for part in parts)))
        yield pa.record_batch(columns, schema=failing_rows_schema(text_columns, has_pairs))


def _reasons(violations: Violations, rows: RowNumbers, raw: Mapping[str, RawSplit]) -> pa.Table:
    """Return the description of rows, null for those that do not violate the expectation."""
    inside = violations.rows[np.isin(violations.rows, rows)]
    described = Violations(violations.check, violations.table, violations.arguments, inside).described(raw)
    positions = pc.index_in(pa.array(rows), pa.array(inside))  # null for the others, as what is taken there
    return pa.table({name: values.take(positions) for name, values in described.items()})


SHOWN_VALUES = 5
"""Violating values in a page of Great Expectations."""
RESULT_FORMAT = {
    "result_format": "COMPLETE",
    "partial_unexpected_count": SHOWN_VALUES,
    "return_unexpected_index_query": False,
}
"""Format of a result that has the violating rows as numbers of the frame's index.

With ``unexpected_index_column_names``, Great Expectations would look up each row by itself: 100,000 rows,
three expectations that most of them violate, 19 s against 0.16 s (and 0.09 s without the rows).
"""
OMITTED_ARGUMENTS = ("batch_id", "mostly")
"""Arguments left out of ``checks.json``; ``allowed`` has ``mostly`` in words."""
ROWS_AT_A_TIME = 250_000
"""Rows that Great Expectations gets at a time: it needs several times the memory of their columns."""


@dataclass(frozen=True)
class CheckResults:
    """Results of all checks: the content of ``checks.json``, and what belongs to it.

    There are violating rows of checks that pass within their limit, too.
    """

    record: Checks
    violations: Sequence[Violations]
    suites: Sequence[ExpectationSuiteValidationResult]
    profile: Profile

    @property
    def errors(self) -> list[CheckEntry]:
        """Results that end the stage."""
        return [entry for entry in self.record.checks if entry.stops]

    @property
    def warnings(self) -> list[CheckEntry]:
        """Failed checks that do not end the stage."""
        return [entry for entry in self.record.checks if entry.status != "passed" and not entry.stops]


def check_tables(data: DerivedData) -> CheckResults:
    """Run all checks on the derived tables."""
    whole = batch_definition()
    entries: list[CheckEntry] = []
    violations: list[Violations] = []
    suites = []
    metrics: dict[str, dict[str, float]] = {split: {} for split in SPLITS}
    for table in data.tables:
        results = []
        expected = list(expectations(table, data.params.validate_))
        for result, failing in run_expectations(table, expected, whole):
            results.append(result)
            outcome = read_outcome(table, result)
            violating = _violations(outcome, failing, data)
            if len(violating.rows):
                violations.append(violating)
            entries.append(_entry(outcome, violating, data))
            # of several expectations of a check, the first counts
            if outcome.check.metric and outcome.crashed is None:
                metrics[table.split].setdefault(outcome.check.metric, outcome.measurement)
        suites.append(_suite_result(table, results))

    # tables are checked by split, but the report is ordered by check
    order = list(CHECK_TABLE)
    entries.sort(key=lambda entry: order.index(entry.check))
    violations.sort(key=lambda violating: order.index(violating.check.key))

    profile = Profile.of(data.labels, data.profiles)
    return CheckResults(_checks_record(entries, metrics, data), violations, suites, profile)


def _suite_result(
    table: Table, results: list[ExpectationValidationResult]
) -> ExpectationSuiteValidationResult:
    """Return the results of a table as Great Expectations renders them."""
    statistics = calc_validation_statistics(results)._asdict()
    success = statistics.pop("success")
    return ExpectationSuiteValidationResult(
        success=success, results=results, suite_name=table.name, statistics=statistics
    )


def _checks_record(
    entries: Sequence[CheckEntry], metrics: Mapping[str, Mapping[str, float]], data: DerivedData
) -> Checks:
    """Return the content of ``checks.json``."""
    errors = 0
    warnings = 0
    not_run = {}
    for key, check in CHECK_TABLE.items():
        if data.labels.label_shape or not check.for_sets:
            not_run[key] = check
    for entry in entries:
        not_run.pop(entry.check, None)
        if entry.status == "passed":
            continue
        if entry.stops:
            errors += 1
        else:
            warnings += 1

    flat_metrics: dict[str, float] = {}
    for split, profile in data.profiles.items():
        for name, value in (profile.label_figures or {}).items():
            flat_metrics[f"{split}_{name}"] = value
    for split, values in metrics.items():
        for name, value in values.items():
            flat_metrics[f"{split}_{name}"] = value

    hashes = {}
    for split in SPLITS:
        hashes[split] = split_hash(SplitReader.open(data.folders.raw, split, "download").paths)

    return Checks(
        passed=errors == 0,
        errors=errors,
        warnings=warnings,
        metrics=flat_metrics,
        not_run=list(not_run),
        raw_sha256=hashes,
        checks=entries,
    )


def batch_definition() -> BatchDefinition[Any]:
    """Return the definition of a batch of a whole frame.

    One serves all tables: each new one serializes the context.
    """
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False, metric_calculations=False)
    asset = context.data_sources.add_pandas("splits").add_dataframe_asset("table")
    return asset.add_batch_definition_whole_dataframe("all")


def run_expectations(
    table: Table, expected: Sequence[Expectation], whole: BatchDefinition[Any], at_most: int = ROWS_AT_A_TIME
) -> list[tuple[ExpectationValidationResult, RowNumbers]]:
    """Validate a table, and return the result of each expectation, and the rows that violate it, ascending.

    Great Expectations catches exceptions of expectations; ``CheckOutcome`` has their messages. It gets
    ``at_most`` rows at a time for the expectations about single rows, whose results are added up.
    """
    about_rows: list[Expectation] = []
    about_table: list[Expectation] = []
    for expectation in expected:
        if isinstance(expectation, ColumnMapExpectation | ColumnPairMapExpectation):
            about_rows.append(expectation)
        else:
            about_table.append(expectation)

    parts: dict[str, list[ExpectationValidationResult]] = defaultdict(list)
    for group, size in ((about_rows, at_most), (about_table, table.columns.rows)):
        if not group:
            continue
        suite = gx.ExpectationSuite(table.name, expectations=group)
        for frame in table.columns.frames(_columns_needed(group, table), max(size, 1)):
            phase(f"checks of {table.name}")
            batch = whole.get_batch({"dataframe": frame})
            for result in batch.validate(suite, result_format=RESULT_FORMAT).results:
                parts[_key(result.expectation_config)].append(result)

    for expectation in expected:
        if _key(expectation) not in parts:
            raise ValueError(
                f"{table.name}: no result for {expectation.meta}; a violation would go unnoticed"
            )
    return [_added(parts[_key(expectation)]) for expectation in expected]


def _columns_needed(group: Sequence[Expectation], table: Table) -> list[str]:
    """Return the columns of a table that expectations name; any one if they name none, to count its rows."""
    names = set()
    for expectation in group:
        for key, value in dict(expectation).items():
            if key.startswith("column"):
                names.add(value)
    present = sorted(names & table.columns.names)
    return present or sorted(table.columns.names)[:1]


def _key(expectation: Any) -> str:
    """Return the same for an expectation and its result."""
    return str(sorted(expectation.meta.items()))


def _added(parts: Sequence[ExpectationValidationResult]) -> tuple[ExpectationValidationResult, RowNumbers]:
    """Add up the results of an expectation on parts of a table; return the sum and the violating rows.

    The sum has no list of all violating rows. If a part crashed, it is the result of all.
    """
    for part in parts:
        if exception_message(part) is not None or "unexpected_index_list" not in part.result:
            return part, np.empty(0, np.int64)

    # sums over the parts
    total = 0
    missing = 0
    failing_parts = []
    shown: list[Any] = []
    for part in parts:
        total += part.result["element_count"]
        missing += part.result["missing_count"]
        failing_parts.append(np.array(part.result["unexpected_index_list"], np.int64))
        shown += part.result["partial_unexpected_list"]
    checked = total - missing
    failing = np.concatenate(failing_parts)

    # what Great Expectations derives from them
    result = copy(parts[0])
    config = result.expectation_config
    mostly = config.kwargs.get("mostly", 1) if config else 1
    result.success = not checked or (checked - len(failing)) / checked >= mostly
    result.result = {
        "element_count": total,
        "unexpected_count": len(failing),
        "unexpected_percent": _percentage(len(failing), checked),
        "partial_unexpected_list": shown[:SHOWN_VALUES],
        "missing_count": missing,
        "missing_percent": _percentage(missing, total),
        "unexpected_percent_total": _percentage(len(failing), total),
        "unexpected_percent_nonmissing": _percentage(len(failing), checked),
    }
    return result, failing


def _percentage(count: int, total: int) -> float | None:
    if not total:
        return None
    return count / total * 100


def exception_message(result: ExpectationValidationResult) -> str | None:
    """Return the message of the first exception; ``None`` without one.

    Great Expectations notes one exception, or one for each metric that the expectation depends on.
    """
    info = result.exception_info or {}
    for note in (info, *info.values()):
        if isinstance(note, dict) and note.get("raised_exception"):
            return str(note["exception_message"])
    return None


def read_outcome(table: Table, result: ExpectationValidationResult) -> CheckOutcome:
    """Read the result of one expectation on a table."""
    config: Any = result.expectation_config
    details = result.result
    check = CHECK_TABLE[config.meta["check"]]
    crashed = exception_message(result)
    arguments = dict(config.kwargs)
    for name in OMITTED_ARGUMENTS:
        arguments.pop(name, None)
    rows = None
    if "element_count" in details:  # else it is about a whole column or table
        rows = details["element_count"] - details["missing_count"]
    return CheckOutcome(
        check=check,
        requirement=check.requires[config.meta["requirement"]],
        table=table,
        passed=bool(result.success) and crashed is None,
        crashed=crashed,
        type=config.type,
        arguments=arguments,
        rows=rows,
        failing=details.get("unexpected_count"),
        observed=details.get("observed_value"),
        missing=tuple(details.get("partial_missing_list") or ()),
    )


def _violations(outcome: CheckOutcome, failing: RowNumbers, data: DerivedData) -> Violations:
    """Return the rows that violate an expectation.

    For a check that ranks rows, they are the rows of the tokenized split that it lists with its measurement.
    """
    table = outcome.table
    if outcome.check.ranks is None:
        return Violations(outcome.check, table, outcome.arguments, failing)
    tables = {candidate.name: candidate for candidate in data.tables}
    tokenized = tables[f"tokenized-{table.split}"]
    ranked = np.flatnonzero(tokenized.columns.column(outcome.check.ranks))
    return Violations(outcome.check, tokenized, outcome.arguments, ranked)


def _entry(outcome: CheckOutcome, violations: Violations, data: DerivedData) -> CheckEntry:
    """Return the entry of ``checks.json`` for an expectation on a table."""
    rule: Rule = getattr(data.params.validate_, outcome.check.key)
    status: Status = "failed"
    if outcome.crashed:
        status = "crashed"
    elif outcome.passed:
        status = "passed"

    worst: list[Violation] = []
    if status == "failed" and len(violations.rows):
        worst = list(violations.worst(data.raw, data.params.data.text_columns))
    hint = None
    if status != "passed":
        hint = outcome.check.hint
    return CheckEntry(
        check=outcome.check.key,
        split=outcome.table.split,
        table=outcome.table.kind,
        severity=rule.severity,
        status=status,
        title=outcome.check.title,
        found=outcome.crashed or outcome.requirement.found(outcome),
        allowed=outcome.requirement.allowed(rule, outcome.arguments),
        rows=outcome.rows,
        failing=outcome.failing,
        observed=outcome.observed,
        expectation={"type": outcome.type, **outcome.arguments},
        worst=worst,
        notes=list(map(printable, outcome.table.notes.get(outcome.check.key, ()))),
        hint=hint,
    )
