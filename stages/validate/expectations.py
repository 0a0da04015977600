"""Runs the checks with Great Expectations, in an ephemeral context, and keeps what they found: entries, violating rows and metrics.

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
from stages.validate.columns import Rows
from stages.validate.near_duplicates import NUMBERED_THROUGH
from stages.validate.raw import RawSplit
from stages.validate.tables import DerivedData, count_train_words
from tuneline.core.hashes import split_hash
from tuneline.core.paths import SPLITS
from tuneline.core.tables import ROW_GROUP, SplitReader, failing_rows_schema, rebatch, write_batches
from tuneline.core.terminal import phase
from tuneline.params.validate import Rule
from tuneline.reports.checks import CheckEntry, Checks, Profile, Status, Violation, WordCounts

MAX_ROWS = 5
"""Violating rows in the report, for each expectation."""
MAX_CHARACTERS = 120
"""Characters of an excerpt."""
UNPRINTABLE = re.compile(
    r"[^\x20-\x7e\xa0-\uffff\U00010000-\U0010ffff]|[\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]"
)
LIMITS = {"at least": "min_value", "at most": "max_value"}
README = "All rows that violate a data check, one file per check. A check without such rows has no file.\n"
"""Keeps the folder, a dependency of the stage ``evaluate``, where no row violates a check: DVC restores no empty folder."""


@dataclass(frozen=True)
class Violations:
    """Rows of a table, ascending, that violate an expectation; of a measurement, rows of the tokenized split that are listed with it."""

    check: Check
    table: Table
    arguments: Mapping[str, Any]
    rows: Rows

    @property
    def shown(self) -> Sequence[str]:
        """Columns that show why a row violates the check."""
        if self.check.shows is not None:
            return self.check.shows
        return [self.arguments[key] for key in ("column", "column_A", "column_B") if key in self.arguments]

    def of_split(self, raw: Mapping[str, RawSplit]) -> bool:
        """Return True if the rows are those of a split that can be read."""
        return self.table.kind in ("raw", "tokenized") and self.table.split in raw

    def worst(self, raw: Mapping[str, RawSplit], text_columns: Sequence[str]) -> Iterator[Violation]:
        """Yield the rows that violate the check most, at most ``MAX_ROWS``."""
        rows = np.sort(self.rows[np.argsort(-self.excess(), kind="stable")[:MAX_ROWS]])
        part = Violations(self.check, self.table, self.arguments, rows)
        others, values = part.other_rows(raw), self.table.columns.take(self.shown, rows)
        for place in np.argsort(-part.excess(), kind="stable"):
            row, like = int(rows[place]), None
            if others is not None:
                split, other = str(others[0][place]), int(others[1][place])
                like = f"{split}, row {other}: " + " | ".join(
                    _excerpts(raw[split], other, text_columns).values()
                )
            texts = _excerpts(raw[self.table.split], row, text_columns) if self.of_split(raw) else {}
            shown = {name: _json_value(values[name].iloc[place]) for name in self.shown}
            yield Violation(number=row, values=shown, texts=texts, like=like)

    def excess(self) -> NDArray[np.float64]:
        """Return by how much each row violates the check, of shape ``(rows,)``: the largest is the worst."""
        if ranked := "similarity" if "similarity" in self.shown else self.check.ranks:
            return self.table.columns.take([ranked], self.rows)[ranked].to_numpy(np.float64)
        low, high = (self.arguments.get(limit) for limit in LIMITS.values())
        if low is None and high is None:
            return np.zeros(len(self.rows))
        column = self.arguments["column"]
        values = self.table.columns.take([column], self.rows)[column].to_numpy().astype(np.float64)
        excess: NDArray[np.float64] = np.abs(values - np.clip(values, low, high))
        return excess

    def other_rows(self, raw: Mapping[str, RawSplit]) -> tuple[NDArray[np.str_], Rows] | None:
        """Return the rows that the rows repeat: their splits and their numbers, each of shape ``(rows,)``; ``None`` for other checks."""
        column = self.arguments.get("column")
        if self.check.relation is None or column is None:
            return None
        others = self.table.columns.take([column], self.rows)[column].to_numpy().astype(np.int64)
        if column not in NUMBERED_THROUGH:
            return np.full(len(others), self.table.split), others
        stops = np.cumsum([split.rows for split in raw.values()])
        split = np.searchsorted(stops, others, side="right")
        return np.array(list(raw))[split], others - np.append(0, stops)[split]

    def described(self, raw: Mapping[str, RawSplit]) -> dict[str, pa.Array]:
        """Return the columns ``reason`` and, for a check of repeated rows, ``other_split`` and ``other_row``, each of shape ``(rows,)``."""
        values, others = self.table.columns.take(self.shown, self.rows), self.other_rows(raw)
        if others is not None:
            splits, other = pa.array(others[0], pa.string()), pa.array(others[1])
            parts = [pa.scalar(self.check.relation), splits, pa.scalar("row"), other.cast(pa.string())]
            if "similarity" in self.shown:
                parts += [
                    pa.scalar("with similarity"),
                    pa.array(np.round(values["similarity"].to_numpy(), 3)).cast(pa.string()),
                ]
            return {
                "reason": pc.binary_join_element_wise(*parts, " "),
                "other_split": splits,
                "other_row": other,
            }
        named = (
            (pa.scalar(name.replace("_", " ")), pa.array(values[name].to_numpy()).cast(pa.string()))
            for name in self.shown
        )
        limits = [
            f"{word} {self.arguments[key]:g}"
            for word, key in LIMITS.items()
            if self.arguments.get(key) is not None
        ]
        is_limited = limits and (self.check.ranks or self.arguments["column"] in self.shown)
        required = [pa.scalar(f"({', '.join(limits)})")] if is_limited else []
        return {"reason": pc.binary_join_element_wise(*chain.from_iterable(named), *required, " ")}


def _excerpts(split: RawSplit, row: int, text_columns: Sequence[str]) -> dict[str, str]:
    """Return excerpts of a row's texts, by column; none for a row that the split does not have."""
    rows = split.source.take(np.array([row]), text_columns).to_pylist()
    return {name: excerpt(text) for name, text in rows[0].items()} if rows else {}


def excerpt(text: str | None) -> str:
    """Return the start of a text, printable."""
    if text is None:
        return "(missing)"
    return printable(text if len(text) <= MAX_CHARACTERS else text[:MAX_CHARACTERS] + "…")


def printable(text: str) -> str:
    """Return a text on one line, with invisible characters and changes of writing direction escaped."""
    return UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _json_value(value: Any) -> Any:
    """Return a value that strict JSON can hold: Python numbers, NaN and infinity as strings, and texts without HTML escapes."""
    if isinstance(value, str):
        return printable(html.unescape(value))
    plain = value.item() if isinstance(value, np.generic) else value
    return str(plain) if isinstance(plain, float) and not np.isfinite(plain) else plain


def write_row_files(
    folder: Path,
    all_violations: Sequence[Violations],
    raw: Mapping[str, RawSplit],
    text_columns: Sequence[str],
) -> None:
    """Write the violating rows of each check, also of those that pass within their limit, to a new folder; no file if there are none."""
    folder.mkdir()
    (folder / "README.md").write_text(README, encoding="utf-8")
    grouped: dict[str, dict[str, list[Violations]]] = {}
    for violations in all_violations:
        if violations.of_split(raw):
            grouped.setdefault(violations.check.key, {}).setdefault(violations.table.split, []).append(
                violations
            )
    for check, splits in grouped.items():
        phase(f"rows of {check}")
        batches = (
            batch
            for name, split in raw.items()
            if name in splits
            for batch in _batches(splits[name], raw, split, text_columns)
        )
        if first := next(batches, None):
            write_batches(
                folder / f"{check}.parquet", first.schema, rebatch(chain([first], batches), first.schema)
            )


def _batches(
    all_violations: Sequence[Violations],
    raw: Mapping[str, RawSplit],
    split: RawSplit,
    text_columns: Sequence[str],
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a split that violate the expectations of a check, with their texts.

    Rows that the raw split lacks are left out.
    """
    every = np.unique(np.concatenate([violations.rows for violations in all_violations]))
    every = every[every < split.rows]
    for start in range(0, len(every), ROW_GROUP):
        rows = every[start : start + ROW_GROUP]
        reasons = [_reasons(violations, rows, raw) for violations in all_violations]
        columns = {
            name: [part.column(name).combine_chunks() for part in reasons] for name in reasons[0].column_names
        }
        reason = pc.binary_join_element_wise(*columns.pop("reason"), "; ", null_handling="skip")
        texts = split.source.take(rows, text_columns)
        yield pa.record_batch(
            [
                pa.repeat(split.source.split, len(rows)),
                pa.array(rows),
                *(pa.concat_arrays(texts[name].chunks) for name in text_columns),
                reason,
                *(pc.coalesce(*values) for values in columns.values()),
            ],
            schema=failing_rows_schema(text_columns, "other_row" in columns),
        )


def _reasons(violations: Violations, rows: Rows, raw: Mapping[str, RawSplit]) -> pa.Table:
    """Return the description of rows, null for those that do not violate the expectation."""
    inside = violations.rows[np.isin(violations.rows, rows)]
    described = Violations(violations.check, violations.table, violations.arguments, inside).described(raw)
    places = pc.index_in(pa.array(rows), pa.array(inside))
    return pa.table({name: values.take(places) for name, values in described.items()})


SHOWN_VALUES = 5
RESULT_FORMAT = {
    "result_format": "COMPLETE",
    "partial_unexpected_count": SHOWN_VALUES,
    "return_unexpected_index_query": False,
}
"""With the violating rows as numbers of the frame's index.

With ``unexpected_index_column_names``, Great Expectations would look up
each row by itself: 100,000 rows, three expectations that most of them violate, 19 s against 0.16 s (and 0.09
s without the rows).
"""
OMITTED_ARGUMENTS = ("batch_id", "mostly")
"""Arguments left out of ``checks.json``; ``allowed`` has ``mostly`` in words."""
ROWS_AT_A_TIME = 250_000
"""Rows that Great Expectations gets at a time: it needs several times the memory of their columns."""


@dataclass(frozen=True)
class CheckResults:
    """Results of all checks: the content of ``checks.json``, and what belongs to it.

    There are violating rows of checks that pass within their limit, too. ``words`` is ``None`` if train could
    not be read.
    """

    record: Checks
    violations: Sequence[Violations]
    suites: Sequence[ExpectationSuiteValidationResult]
    profile: Profile
    words: WordCounts | None

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
    entries, violations, suites = [], [], []
    metrics: dict[str, dict[str, float]] = {split: {} for split in SPLITS}
    for table in data.tables:
        results = run_expectations(table, list(expectations(table, data.params.validate_)), whole)
        of_table = [result for result, _ in results]
        statistics = calc_validation_statistics(of_table)._asdict()
        success = statistics.pop("success")
        suites.append(
            ExpectationSuiteValidationResult(
                success=success, results=of_table, suite_name=table.name, statistics=statistics
            )
        )
        for result, failing in results:
            outcome = read_outcome(table, result)
            found = _violations(outcome, failing, data)
            violations += [found] if len(found.rows) else []
            entries.append(_entry(outcome, found, data))
            if (
                outcome.check.metric and outcome.crashed is None
            ):  # of several expectations of a check, the first counts
                metrics[table.split].setdefault(outcome.check.metric, outcome.measurement)
    order = list(CHECK_TABLE)
    entries.sort(key=lambda entry: order.index(entry.check))
    violations.sort(key=lambda found: order.index(found.check.key))
    failed = [entry.stops for entry in entries if entry.status != "passed"]
    record = Checks(
        passed=not any(failed),
        errors=failed.count(True),
        warnings=failed.count(False),
        metrics={
            f"{split}_{name}": value for split, values in metrics.items() for name, value in values.items()
        },
        not_run=[key for key in CHECK_TABLE if key not in {entry.check for entry in entries}],
        raw_sha256={
            split: split_hash(SplitReader.open(data.folders.raw, split, "download").paths) for split in SPLITS
        },
        checks=entries,
    )
    profile = Profile(version=1, labels=data.labels.names, splits=data.profiles)
    return CheckResults(
        record,
        violations,
        suites,
        profile,
        count_train_words(data.raw["train"]) if "train" in data.raw else None,
    )


def batch_definition() -> BatchDefinition[Any]:
    """Return the definition of a batch of a whole frame.

    One serves all tables: each new one serializes the context.
    """
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False, metric_calculations=False)
    return (
        context.data_sources.add_pandas("splits")
        .add_dataframe_asset("table")
        .add_batch_definition_whole_dataframe("all")
    )


def run_expectations(
    table: Table, expected: Sequence[Expectation], whole: BatchDefinition[Any], at_most: int = ROWS_AT_A_TIME
) -> list[tuple[ExpectationValidationResult, Rows]]:
    """Validate a table, and return the result of each expectation and the numbers of the rows that violate it, ascending.

    Great Expectations catches exceptions of expectations; ``CheckOutcome`` has their messages. It gets
    ``at_most`` rows at a time for the expectations about single rows, whose results are added up.
    """
    of_rows = [
        expectation
        for expectation in expected
        if isinstance(expectation, ColumnMapExpectation | ColumnPairMapExpectation)
    ]
    parts: dict[str, list[ExpectationValidationResult]] = defaultdict(list)
    for some, size in (
        (of_rows, at_most),
        ([expectation for expectation in expected if expectation not in of_rows], table.columns.rows),
    ):
        suite = gx.ExpectationSuite(table.name, expectations=some)
        needed = {
            value
            for expectation in some
            for key, value in dict(expectation).items()
            if key.startswith("column")
        } & table.columns.names
        for frame in (
            table.columns.frames(sorted(needed) or sorted(table.columns.names)[:1], max(size, 1))
            if some
            else ()
        ):
            phase(f"checks of {table.name}")
            for result in (
                whole.get_batch({"dataframe": frame}).validate(suite, result_format=RESULT_FORMAT).results
            ):
                parts[_key(result.expectation_config)].append(result)
    if lacking := [expectation.meta for expectation in expected if _key(expectation) not in parts]:
        raise ValueError(f"{table.name}: no result for {lacking[0]}; a violation would go unnoticed")
    return [_added(parts[_key(expectation)]) for expectation in expected]


def _key(expectation: Any) -> str:
    return str(sorted(expectation.meta.items()))


def _added(parts: Sequence[ExpectationValidationResult]) -> tuple[ExpectationValidationResult, Rows]:
    """Add up the results of an expectation on parts of a table, without the lists of all violating rows; the first that crashed, if any."""
    none = np.empty(0, np.int64)
    for part in parts:
        if exception_message(part) is not None or "unexpected_index_list" not in part.result:
            return part, none
    failing = np.concatenate(
        [none, *(np.array(part.result["unexpected_index_list"], np.int64) for part in parts)]
    )
    total, missing = (sum(part.result[key] for part in parts) for key in ("element_count", "missing_count"))
    checked, shown = (
        total - missing,
        [value for part in parts for value in part.result["partial_unexpected_list"]],
    )
    percent = len(failing) / checked * 100 if checked else None
    result, config = copy(parts[0]), parts[0].expectation_config
    result.success = not checked or (checked - len(failing)) / checked >= (
        config.kwargs.get("mostly", 1) if config else 1
    )
    result.result = {
        "element_count": total,
        "unexpected_count": len(failing),
        "unexpected_percent": percent,
        "partial_unexpected_list": shown[:SHOWN_VALUES],
        "missing_count": missing,
        "missing_percent": missing / total * 100 if total else None,
        "unexpected_percent_total": len(failing) / total * 100 if total else None,
        "unexpected_percent_nonmissing": percent,
    }
    return result, failing


def exception_message(result: ExpectationValidationResult) -> str | None:
    """Return the first message; Great Expectations notes one exception, or one per metric that the expectation depends on."""
    info = result.exception_info or {}
    messages = [
        str(note["exception_message"])
        for note in (info, *info.values())
        if isinstance(note, dict) and note.get("raised_exception")
    ]
    return messages[0] if messages else None


def read_outcome(table: Table, result: ExpectationValidationResult) -> CheckOutcome:
    """Read the result of one expectation on a table."""
    config: Any = result.expectation_config
    details = result.result
    check, crashed = CHECK_TABLE[config.meta["check"]], exception_message(result)
    return CheckOutcome(
        check=check,
        requirement=check.requires[config.meta["requirement"]],
        table=table,
        passed=bool(result.success) and crashed is None,
        crashed=crashed,
        type=config.type,
        arguments={name: value for name, value in config.kwargs.items() if name not in OMITTED_ARGUMENTS},
        rows=details["element_count"] - details["missing_count"] if "element_count" in details else None,
        failing=details.get("unexpected_count"),
        observed=details.get("observed_value"),
        missing=tuple(details.get("partial_missing_list") or ()),
    )


def _violations(outcome: CheckOutcome, failing: Rows, data: DerivedData) -> Violations:
    """Return the rows that violate an expectation, or those of the tokenized split that a check lists with its measurement."""
    table = outcome.table
    if outcome.check.ranks is not None:
        (table,) = (other for other in data.tables if (other.kind, other.split) == ("tokenized", table.split))
        failing = np.flatnonzero(table.columns.column(outcome.check.ranks))
    return Violations(outcome.check, table, outcome.arguments, failing)


def _entry(outcome: CheckOutcome, violations: Violations, data: DerivedData) -> CheckEntry:
    rule: Rule = getattr(data.params.validate_, outcome.check.key)
    status: Status = "crashed" if outcome.crashed else "passed" if outcome.passed else "failed"
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
        worst=(
            list(violations.worst(data.raw, data.params.data.text_columns))
            if status == "failed" and len(violations.rows)
            else []
        ),
        notes=[printable(note) for note in outcome.table.notes.get(outcome.check.key, ())],
        hint=outcome.check.hint if status != "passed" else None,
    )
