"""Runs the expectations in an ephemeral Great Expectations context and reads its results."""

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import great_expectations as gx
from great_expectations.core.batch_definition import BatchDefinition
from great_expectations.core.expectation_validation_result import ExpectationSuiteValidationResult, ExpectationValidationResult
from great_expectations.data_context.types.base import ProgressBarsConfig
from great_expectations.expectations.expectation import ColumnMapExpectation, ColumnPairMapExpectation
from great_expectations.validator.validation_statistics import calc_validation_statistics

from stages.validate.tables import Table
from tuneline.terminal import phase

SHOWN_VALUES = 5
RESULT_FORMAT = {"result_format": "BASIC", "partial_unexpected_count": SHOWN_VALUES}
"""Limits the example values in a result; Great Expectations still counts all violating rows."""
OMITTED_ARGUMENTS = ("batch_id", "edges", "counts", "mostly")
"""Arguments left out of ``checks.json``: long lists of bins, and ``mostly``, which ``allowed`` repeats in words."""

ROWS_AT_A_TIME = 250_000
"""Rows that Great Expectations gets at a time: it needs several times the memory of their columns."""
UNCHECKED = frozenset({"class", "key", "unordered_key", "similarity", "beyond_ascii", "is_header"})
"""Columns that no expectation is about."""


@dataclass(frozen=True)
class Outcome:
    """Result of one expectation on one table.

    Attributes:
        check: Key of the check.
        table: The table.
        passed: True if the expectation is met.
        crashed: Message of the exception raised while it was evaluated, if any.
        type: Type of the expectation, for example ``expect_column_values_to_be_between``.
        arguments: Arguments of the expectation.
        rows: Number of checked rows; ``None`` for an expectation of a whole column or table.
        failing: Number of violating rows, likewise.
        observed: Observed value, for an expectation of a whole column or table.
        missing: Required values that the column does not have.
    """

    check: str
    table: Table
    passed: bool
    crashed: str | None
    type: str
    arguments: dict[str, Any]
    rows: int | None
    failing: int | None
    observed: Any
    missing: tuple[Any, ...]

    @property
    def columns(self) -> list[str]:
        """Names of the columns that the expectation is about."""
        return columns_of(self.arguments)


def columns_of(arguments: Mapping[str, Any]) -> list[str]:
    """Return the names of the columns in the arguments of an expectation."""
    return [arguments[key] for key in ("column", "column_A", "column_B", "total") if key in arguments]


def run_suites(tables: Sequence[Table], at_most: int = ROWS_AT_A_TIME) -> list[ExpectationSuiteValidationResult]:
    """Validate each table, in order.

    Great Expectations catches exceptions of expectations; ``read_outcomes`` reports them.

    Args:
        tables: The tables.
        at_most: Rows that Great Expectations gets at a time. It gets a larger table column by column, and those of its expectations that
            are about single rows in parts, whose results are added up.
    """
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False, metric_calculations=False)
    source = context.data_sources.add_pandas("splits")
    whole = source.add_dataframe_asset("table").add_batch_definition_whole_dataframe("all")  # one for all: each serializes the context
    return [_validated(table, whole, at_most) for table in tables]


def _validated(table: Table, whole: BatchDefinition[Any], at_most: int) -> ExpectationSuiteValidationResult:
    columns = table.columns
    if columns.rows <= at_most:
        (frame,) = columns.frames(sorted(columns.names - UNCHECKED), max(at_most, 1))
        suite = gx.ExpectationSuite(table.name, expectations=list(table.expectations))
        return whole.get_batch({"dataframe": frame}).validate(suite, result_format=RESULT_FORMAT)
    results: list[ExpectationValidationResult] = []
    for expectation in table.expectations:
        phase(f"checks of {table.name}: {len(results) + 1} of {len(table.expectations)}")
        of_rows = isinstance(expectation, ColumnMapExpectation | ColumnPairMapExpectation)
        names = [name for name in columns_of(dict(expectation)) if name in columns.names] or sorted(columns.names)[:1]
        frames = columns.frames(names, at_most if of_rows else columns.rows)
        parts = [whole.get_batch({"dataframe": frame}).validate(expectation, result_format=RESULT_FORMAT) for frame in frames]
        results.append(added(parts))
    statistics = calc_validation_statistics(results)._asdict()
    return ExpectationSuiteValidationResult(
        success=statistics.pop("success"), results=results, suite_name=table.name, statistics=statistics
    )


def added(parts: Sequence[ExpectationValidationResult]) -> ExpectationValidationResult:
    """Add up the results of an expectation about single rows on parts of a table; the first that crashed, if one did."""
    first, config = parts[0], parts[0].expectation_config
    if len(parts) == 1 or config is None:
        return first
    for part in parts:
        if _exception_message(part.exception_info) is not None:
            return part
    rows, missing, failing = (sum(part.result[key] for part in parts) for key in ("element_count", "missing_count", "unexpected_count"))
    checked, shown = rows - missing, [value for part in parts for value in part.result["partial_unexpected_list"]]
    percent = failing / checked * 100 if checked else None
    result = copy(first)
    result.success = not checked or (checked - failing) / checked >= config.kwargs.get("mostly", 1)
    result.result = {
        "element_count": rows,
        "unexpected_count": failing,
        "unexpected_percent": percent,
        "partial_unexpected_list": shown[:SHOWN_VALUES],
        "missing_count": missing,
        "missing_percent": missing / rows * 100,
        "unexpected_percent_total": failing / rows * 100,
        "unexpected_percent_nonmissing": percent,
    }
    return result


def read_outcomes(tables: Sequence[Table], results: Sequence[ExpectationSuiteValidationResult]) -> Iterator[Outcome]:
    """Yield the outcome of each expectation, table by table.

    Raises:
        ValueError: A result is missing or lacks its expectation; a violation would go unnoticed.
    """
    for table, suite in zip(tables, results, strict=True):
        if len(suite.results) != len(table.expectations):
            raise ValueError(f"{table.name}: {len(suite.results)} results for {len(table.expectations)} expectations")
        for result in suite.results:
            yield _outcome(table, result)


def _outcome(table: Table, result: ExpectationValidationResult) -> Outcome:
    config, details = result.expectation_config, result.result
    if config is None:
        raise ValueError(f"{table.name}: a result lacks its expectation")
    crashed = _exception_message(result.exception_info)
    return Outcome(
        check=config.meta["check"],
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


def _exception_message(info: dict[str, Any] | None) -> str | None:
    """Return the first message; Great Expectations notes one exception, or one per metric that the expectation depends on."""
    notes = [info or {}, *(info or {}).values()]
    messages = [str(note["exception_message"]) for note in notes if isinstance(note, dict) and note.get("raised_exception")]
    return messages[0] if messages else None
