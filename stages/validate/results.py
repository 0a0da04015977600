"""Results of all checks: their status, their measurements in words, violating rows, and metrics."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from great_expectations.core.expectation_validation_result import ExpectationSuiteValidationResult

from stages.validate.checks import CHECKS, Check
from stages.validate.profile import count_words
from stages.validate.runner import Outcome, read_outcomes, run_suites
from stages.validate.tables import DerivedData, Table
from stages.validate.violations import Excerpts, printable, worst_violations
from tuneline.files.shards import SplitReader
from tuneline.params import ValidateParams
from tuneline.params.validate import AtLeast, AtMost, Drift, LearnableLabels, RowCount, Rule
from tuneline.paths import SPLITS
from tuneline.records.checks import CheckEntry, Checks, Severity, Status, Violation
from tuneline.records.profile import Profile
from tuneline.records.provenance import split_hash
from tuneline.records.words import WordCounts


@dataclass(frozen=True)
class CheckResult:
    """Result of one expectation of a check on one split.

    Attributes:
        outcome: Result of Great Expectations.
        severity: ``error`` or ``warning``.
        status: ``passed``, ``failed`` or ``crashed``.
        found: The measurement, in words.
        allowed: The limit, in words.
        worst: Rows that violate the check, the worst first.
        notes: What the check found beside its measurement, one line each, without invisible characters.
    """

    outcome: Outcome
    severity: Severity
    status: Status
    found: str
    allowed: str
    worst: tuple[Violation, ...]
    notes: tuple[str, ...] = ()

    @property
    def check(self) -> Check:
        """The check."""
        return CHECKS[self.outcome.check]

    @property
    def split(self) -> str:
        """Name of the split."""
        return self.outcome.table.split

    @property
    def stops(self) -> bool:
        """True if it ends the stage: a failed check of severity ``error``, or any check that crashed."""
        return self.status == "crashed" or (self.status == "failed" and self.severity == "error")

    def entry(self) -> CheckEntry:
        """Return its entry in ``checks.json``."""
        outcome = self.outcome
        return CheckEntry(
            check=outcome.check,
            split=self.split,
            table=outcome.table.kind,
            severity=self.severity,
            status=self.status,
            title=self.check.title,
            found=self.found,
            allowed=self.allowed,
            rows=outcome.rows,
            failing=outcome.failing,
            observed=outcome.observed,
            expectation={"type": outcome.type, **outcome.arguments},
            worst=self.worst,
            notes=self.notes,
            hint=self.check.hint if self.status != "passed" else None,
        )


@dataclass(frozen=True)
class CheckResults:
    """Results of all checks.

    Attributes:
        results: In the order of ``CHECKS``, then of the splits.
        metrics: Measurements for ``metrics/validate.json``.
        suites: Results of Great Expectations, one per table.
        profile: Profile of the data.
        words: Words of train; ``None`` if it could not be read.
        raw_sha256: SHA-256 of the raw files, by split.
    """

    results: Sequence[CheckResult]
    metrics: dict[str, float]
    suites: Sequence[ExpectationSuiteValidationResult]
    profile: Profile
    words: WordCounts | None
    raw_sha256: Mapping[str, str]

    @property
    def errors(self) -> list[CheckResult]:
        """Results that end the stage."""
        return [result for result in self.results if result.stops]

    @property
    def warnings(self) -> list[CheckResult]:
        """Failed checks that do not end the stage."""
        return [result for result in self.results if result.status != "passed" and not result.stops]

    @property
    def not_run(self) -> list[str]:
        """Keys of checks that do not apply to this data; docs/data-checks.md lists when."""
        run = {result.outcome.check for result in self.results}
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
            checks=[result.entry() for result in self.results],
        )


def check_tables(data: DerivedData) -> CheckResults:
    """Run all checks on the derived tables."""
    suites = run_suites(data.tables)
    outcomes = list(read_outcomes(data.tables, suites))
    excerpts = Excerpts(data.params.data.text_columns, data.raw)
    results = [_result(outcome, data.params.validate_, excerpts) for outcome in outcomes]
    order = list(CHECKS)
    results.sort(key=lambda result: order.index(result.outcome.check))
    return CheckResults(
        results,
        measurements(outcomes),
        suites,
        Profile(version=1, labels=data.labels.names, splits=data.profiles),
        count_words(data.raw["train"]) if "train" in data.raw else None,
        {split: split_hash(SplitReader.open(data.folders.raw, split, "download").paths) for split in SPLITS},
    )


def _result(outcome: Outcome, params: ValidateParams, excerpts: Excerpts) -> CheckResult:
    rule: Rule = getattr(params, outcome.check)
    status: Status = "crashed" if outcome.crashed else "passed" if outcome.passed else "failed"
    has_rows = outcome.rows is not None or "total" in outcome.arguments
    worst = tuple(worst_violations(outcome, excerpts)) if status == "failed" and has_rows else ()
    notes = tuple(printable(note) for note in outcome.table.notes.get(outcome.check, ()))
    return CheckResult(outcome, rule.severity, status, _found(outcome, rule), _allowed(outcome, rule), worst, notes)


def _found(outcome: Outcome, rule: Rule) -> str:
    if outcome.crashed:
        return outcome.crashed
    if outcome.missing:
        return f"no row of class {', '.join(map(str, outcome.missing))}"
    if isinstance(rule, Drift):
        distance = "population stability index" if "stability_index" in outcome.type else "Kolmogorov-Smirnov distance"
        return f"{distance} {_number(outcome.observed)}"
    if outcome.rows is None:
        return _percent(outcome.observed) if isinstance(rule, AtMost) else _number(outcome.observed)
    if outcome.table.kind == "between":
        return _found_in_split(outcome, rule)
    failing = outcome.failing or 0
    return f"{failing:,} of {outcome.rows:,} rows ({_percent(failing / max(outcome.rows, 1))})"


def _found_in_split(outcome: Outcome, rule: Rule) -> str:
    values = _only_row(outcome.table)
    if not isinstance(rule, LearnableLabels):
        return _percent(values[outcome.check]) if isinstance(rule, AtMost) else _number(values[outcome.check])
    if outcome.arguments["column"] != "disagreement_low":
        low, high = f"{values['auc_low']:.3f}", f"{values['auc_high']:.3f}"
        drop = f", at least {values['auc_drop']:.3f} below train" if outcome.arguments["column"] == "auc_drop" else ""
        return f"area under the ROC curve {values['learnable_labels']:.3f} (95 % interval {low} to {high}){drop}"
    low, high = _percent(values["disagreement_low"]), _percent(values["disagreement_high"])
    return f"{_percent(values['disagreement'])} of the surest rows have another label (95 % interval {low} to {high})"


def _only_row(table: Table) -> "pd.Series[float]":
    """Return the one row of a table of measurements."""
    (frame,) = table.columns.frames(sorted(table.columns.names))
    return frame.iloc[0]


def _allowed(outcome: Outcome, rule: Rule) -> str:
    if isinstance(rule, Drift):
        limit = outcome.arguments["max_value"]
        return f"at most {_number(limit)}, or not significant (p > {rule.significance:g})"
    if isinstance(rule, LearnableLabels):
        column = outcome.arguments["column"]
        if column == "disagreement_low":
            return f"at most {_percent(rule.max_disagreement)}"
        return f"at least {_number(rule.min_auc)}" if column == "auc_high" else f"at most {_number(rule.max_auc_drop)} below train"
    if isinstance(rule, AtMost):
        return f"at most {_percent(rule.max)}"
    if isinstance(rule, AtLeast | RowCount):
        return f"at least {_number(rule.min)}"
    return _number(outcome.arguments["value"]) if "value" in outcome.arguments else "no differences"


def _percent(value: float) -> str:
    return f"{100 * value:.3g} %"


def _number(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}" if isinstance(value, float) else "complete"


def measurements(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Return the metrics of all checks by name, for example ``train_rows`` or ``test_leakage_rate``.

    Of several expectations of a check, the first counts; of drift that is the population stability index.
    """
    metrics: dict[str, float] = {}
    for split in SPLITS:
        for outcome in outcomes:
            if outcome.table.split == split:
                for name, value in _measurement(outcome):
                    metrics.setdefault(f"{split}_{name}", value)
    return metrics


def _measurement(outcome: Outcome) -> Iterator[tuple[str, float]]:
    metric = CHECKS[outcome.check].metric
    if metric is None or outcome.crashed is not None:
        return
    if outcome.table.kind == "between":
        yield metric, float(_only_row(outcome.table)[outcome.check])
    elif outcome.rows is not None:
        yield metric, (outcome.failing or 0) / max(outcome.rows, 1)
    elif outcome.observed is not None:
        yield metric, outcome.observed
