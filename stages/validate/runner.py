"""Runs the expectations in an ephemeral Great Expectations context and reads its results."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import great_expectations as gx
from great_expectations.core.expectation_validation_result import ExpectationSuiteValidationResult, ExpectationValidationResult
from great_expectations.data_context.types.base import ProgressBarsConfig

from stages.validate.tables import Table

RESULT_FORMAT = {"result_format": "BASIC", "partial_unexpected_count": 5}
"""Limits the example values in a result; Great Expectations still counts all violating rows."""
OMITTED_ARGUMENTS = ("batch_id", "edges", "counts", "mostly")
"""Arguments left out of ``checks.json``: long lists of bins, and ``mostly``, which ``allowed`` repeats in words."""


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


def run_suites(tables: Sequence[Table]) -> list[ExpectationSuiteValidationResult]:
    """Validate each table, in order.

    Great Expectations catches exceptions of expectations; ``read_outcomes`` reports them.
    """
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False, metric_calculations=False)
    source = context.data_sources.add_pandas("splits")
    whole = source.add_dataframe_asset("table").add_batch_definition_whole_dataframe("all")  # one for all: each serializes the context
    return [
        whole.get_batch({"dataframe": table.frame}).validate(
            gx.ExpectationSuite(table.name, expectations=list(table.expectations)), result_format=RESULT_FORMAT
        )
        for table in tables
    ]


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
