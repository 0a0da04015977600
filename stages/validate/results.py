"""Runs the checks with Great Expectations, in an ephemeral context, and keeps what they found: entries, violating rows and metrics."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import great_expectations as gx
import numpy as np
from great_expectations.core.batch_definition import BatchDefinition
from great_expectations.core.expectation_validation_result import ExpectationSuiteValidationResult, ExpectationValidationResult
from great_expectations.data_context.types.base import ProgressBarsConfig
from great_expectations.expectations.expectation import ColumnMapExpectation, ColumnPairMapExpectation, Expectation
from great_expectations.validator.validation_statistics import calc_validation_statistics

from stages.validate.checks import CHECKS, Outcome, Table, expectations
from stages.validate.columns import Rows
from stages.validate.tables import DerivedData, count_words
from stages.validate.violations import Violations, printable
from tuneline.core.paths import SPLITS
from tuneline.core.provenance import split_hash
from tuneline.core.tables import SplitReader
from tuneline.core.terminal import phase
from tuneline.params.validate import Rule
from tuneline.reports.checks import CheckEntry, Checks, Profile, Status, WordCounts

SHOWN_VALUES = 5
RESULT_FORMAT = {"result_format": "COMPLETE", "partial_unexpected_count": SHOWN_VALUES, "return_unexpected_index_query": False}
"""With the violating rows as numbers of the frame's index. With ``unexpected_index_column_names``, Great Expectations would look up
each row by itself: 100,000 rows, three expectations that most of them violate, 19 s against 0.16 s (and 0.09 s without the rows)."""
OMITTED_ARGUMENTS = ("batch_id", "mostly")
"""Arguments left out of ``checks.json``; ``allowed`` has ``mostly`` in words."""
ROWS_AT_A_TIME = 250_000
"""Rows that Great Expectations gets at a time: it needs several times the memory of their columns."""


@dataclass(frozen=True)
class CheckResults:
    """Results of all checks.

    Attributes:
        entries: Entries of ``checks.json``: in the order of ``CHECKS``, then of the splits.
        violations: Violating rows, of checks that pass within their limit, too.
        words: Words of train; ``None`` if it could not be read.
    """

    entries: Sequence[CheckEntry]
    violations: Sequence[Violations]
    metrics: Mapping[str, float]
    suites: Sequence[ExpectationSuiteValidationResult]
    profile: Profile
    words: WordCounts | None
    raw_sha256: Mapping[str, str]

    @property
    def errors(self) -> list[CheckEntry]:
        """Results that end the stage."""
        return [entry for entry in self.entries if entry.stops]

    @property
    def warnings(self) -> list[CheckEntry]:
        """Failed checks that do not end the stage."""
        return [entry for entry in self.entries if entry.status != "passed" and not entry.stops]

    @property
    def not_run(self) -> list[str]:
        """Keys of checks that do not apply to this data; docs/data-checks.md lists when."""
        run = {entry.check for entry in self.entries}
        return [key for key in CHECKS if key not in run]

    def record(self) -> Checks:
        """Return the content of ``checks.json``."""
        return Checks(
            passed=not self.errors,
            errors=len(self.errors),
            warnings=len(self.warnings),
            metrics=self.metrics,
            not_run=self.not_run,
            raw_sha256=self.raw_sha256,
            checks=self.entries,
        )


def check_tables(data: DerivedData) -> CheckResults:
    """Run all checks on the derived tables."""
    whole = batch_definition()
    entries, violations, suites = [], [], []
    metrics: dict[str, dict[str, float]] = {split: {} for split in SPLITS}
    for table in data.tables:
        results = run_expectations(table, list(expectations(table, data.params.validate_)), whole)
        suites.append(_suite(table, [result for result, _ in results]))
        for result, failing in results:
            outcome = read_outcome(table, result)
            found = _violations(outcome, failing, data)
            violations += [found] if len(found.rows) else []
            entries.append(_entry(outcome, found, data))
            if outcome.check.metric and outcome.crashed is None:  # of several expectations of a check, the first counts
                metrics[table.split].setdefault(outcome.check.metric, outcome.measurement)
    order = list(CHECKS)
    entries.sort(key=lambda entry: order.index(entry.check))
    violations.sort(key=lambda found: order.index(found.check.key))
    return CheckResults(
        entries,
        violations,
        {f"{split}_{name}": value for split, values in metrics.items() for name, value in values.items()},
        suites,
        Profile(version=1, labels=data.labels.names, splits=data.profiles),
        count_words(data.raw["train"]) if "train" in data.raw else None,
        {split: split_hash(SplitReader.open(data.folders.raw, split, "download").paths) for split in SPLITS},
    )


def batch_definition() -> BatchDefinition[Any]:
    """Return the definition of a batch of a whole frame. One serves all tables: each new one serializes the context."""
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False, metric_calculations=False)
    return context.data_sources.add_pandas("splits").add_dataframe_asset("table").add_batch_definition_whole_dataframe("all")


def run_expectations(
    table: Table, expected: Sequence[Expectation], whole: BatchDefinition[Any], at_most: int = ROWS_AT_A_TIME
) -> list[tuple[ExpectationValidationResult, Rows]]:
    """Validate a table, and return the result of each expectation and the numbers of the rows that violate it, ascending.

    Great Expectations catches exceptions of expectations; ``Outcome`` has their messages. It gets ``at_most`` rows at a time for the
    expectations about single rows, whose results are added up.
    """
    of_rows = [one for one in expected if isinstance(one, ColumnMapExpectation | ColumnPairMapExpectation)]
    parts: dict[str, list[ExpectationValidationResult]] = defaultdict(list)
    for some, size in ((of_rows, at_most), ([one for one in expected if one not in of_rows], table.columns.rows)):
        suite = gx.ExpectationSuite(table.name, expectations=some)
        needed = {value for one in some for key, value in dict(one).items() if key.startswith("column")} & table.columns.names
        for frame in table.columns.frames(sorted(needed) or sorted(table.columns.names)[:1], max(size, 1)) if some else ():
            phase(f"checks of {table.name}")
            for result in whole.get_batch({"dataframe": frame}).validate(suite, result_format=RESULT_FORMAT).results:
                parts[_key(result.expectation_config)].append(result)
    if lacking := [one.meta for one in expected if _key(one) not in parts]:
        raise ValueError(f"{table.name}: no result for {lacking[0]}; a violation would go unnoticed")
    return [_added(parts[_key(one)]) for one in expected]


def _key(expectation: Any) -> str:
    return str(sorted(expectation.meta.items()))


def _added(parts: Sequence[ExpectationValidationResult]) -> tuple[ExpectationValidationResult, Rows]:
    """Add up the results of an expectation on parts of a table, without the lists of all violating rows; the first that crashed, if any."""
    none = np.empty(0, np.int64)
    for part in parts:
        if exception_message(part) is not None or "unexpected_index_list" not in part.result:
            return part, none
    failing = np.concatenate([none, *(np.array(part.result["unexpected_index_list"], np.int64) for part in parts)])
    total, missing = (sum(part.result[key] for part in parts) for key in ("element_count", "missing_count"))
    checked, shown = total - missing, [value for part in parts for value in part.result["partial_unexpected_list"]]
    percent = len(failing) / checked * 100 if checked else None
    result, config = copy(parts[0]), parts[0].expectation_config
    result.success = not checked or (checked - len(failing)) / checked >= (config.kwargs.get("mostly", 1) if config else 1)
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
        str(note["exception_message"]) for note in (info, *info.values()) if isinstance(note, dict) and note.get("raised_exception")
    ]
    return messages[0] if messages else None


def read_outcome(table: Table, result: ExpectationValidationResult) -> Outcome:
    """Read the result of one expectation on a table."""
    config: Any = result.expectation_config
    details = result.result
    check, crashed = CHECKS[config.meta["check"]], exception_message(result)
    return Outcome(
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


def _suite(table: Table, results: list[ExpectationValidationResult]) -> ExpectationSuiteValidationResult:
    statistics = calc_validation_statistics(results)._asdict()
    return ExpectationSuiteValidationResult(
        success=statistics.pop("success"), results=results, suite_name=table.name, statistics=statistics
    )


def _violations(outcome: Outcome, failing: Rows, data: DerivedData) -> Violations:
    """Return the rows that violate an expectation, or those of the tokenized split that a check lists with its measurement."""
    table = outcome.table
    if outcome.check.ranks is not None:
        (table,) = (other for other in data.tables if (other.kind, other.split) == ("tokenized", table.split))
        failing = np.flatnonzero(table.columns.column(outcome.check.ranks))
    return Violations(outcome.check, table, outcome.arguments, failing)


def _entry(outcome: Outcome, found: Violations, data: DerivedData) -> CheckEntry:
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
        worst=list(found.worst(data.raw, data.params.data.text_columns)) if status == "failed" and len(found.rows) else [],
        notes=[printable(note) for note in outcome.table.notes.get(outcome.check.key, ())],
        hint=outcome.check.hint if status != "passed" else None,
    )
