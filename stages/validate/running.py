"""Runs the suites in an ephemeral Great Expectations context and reads what came out."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import great_expectations as gx
from great_expectations.core.expectation_validation_result import ExpectationSuiteValidationResult, ExpectationValidationResult
from great_expectations.data_context.types.base import ProgressBarsConfig

from stages.validate.suites.table import Table

RESULT_FORMAT = {"result_format": "BASIC", "partial_unexpected_count": 5}
"""Bounds what a result carries; Great Expectations counts all failing rows all the same."""
BULKY = ("batch_id", "edges", "counts", "mostly")
"""Arguments left out of the machine-readable result: bins of a hundred numbers, and what ``allowed`` says better."""


@dataclass(frozen=True)
class Outcome:
    """What one expectation found in one table.

    Attributes:
        check: The key under ``validate:``.
        table: What was judged.
        passed: Whether the expectation was met.
        crashed: What went wrong inside it, when it could not be judged.
        type: Of the expectation, for example ``expect_column_values_to_be_between``.
        arguments: Of the expectation.
        rows: Rows judged; ``None`` for an expectation of a whole column.
        failing: Rows that failed it.
        observed: The value found, for an expectation of a whole column.
        missing: Values that should be in a column and are not.
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
    """Judges each table, in order.

    Great Expectations catches what an expectation raises; ``outcomes`` brings it to light.
    """
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False, metric_calculations=False)
    source = context.data_sources.add_pandas("splits")
    results = []
    for table in tables:
        batch = source.add_dataframe_asset(table.name).add_batch_definition_whole_dataframe("all").get_batch({"dataframe": table.frame})
        suite = gx.ExpectationSuite(table.name, expectations=list(table.expectations))
        results.append(batch.validate(suite, result_format=RESULT_FORMAT))
    return results


def outcomes(tables: Sequence[Table], results: Sequence[ExpectationSuiteValidationResult]) -> Iterator[Outcome]:
    """What each expectation found, table by table.

    Raises:
        ValueError: A result is missing, or says not which expectation it is of: a check would pass unseen.
    """
    for table, suite in zip(tables, results, strict=True):
        if len(suite.results) != len(table.expectations):
            raise ValueError(f"{table.name}: {len(suite.results)} results of {len(table.expectations)} expectations")
        for result in suite.results:
            yield _outcome(table, result)


def _outcome(table: Table, result: ExpectationValidationResult) -> Outcome:
    config, found = result.expectation_config, result.result
    if config is None:
        raise ValueError(f"a result of {table.name} does not say which expectation it is of")
    crashed = _crash(result.exception_info)
    return Outcome(
        check=config.meta["check"],
        table=table,
        passed=bool(result.success) and crashed is None,
        crashed=crashed,
        type=config.type,
        arguments={name: value for name, value in config.kwargs.items() if name not in BULKY},
        rows=found["element_count"] - found["missing_count"] if "element_count" in found else None,
        failing=found.get("unexpected_count"),
        observed=found.get("observed_value"),
        missing=tuple(found.get("partial_missing_list") or ()),
    )


def _crash(info: dict[str, Any] | None) -> str | None:
    """Great Expectations notes one exception, or one for each metric that an expectation stands on."""
    notes = [info or {}, *(info or {}).values()]
    messages = [str(note["exception_message"]) for note in notes if isinstance(note, dict) and note.get("raised_exception")]
    return messages[0] if messages else None
