"""Runs the suites in an ephemeral Great Expectations context and reads what came out."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import great_expectations as gx
from great_expectations.core.expectation_validation_result import ExpectationSuiteValidationResult, ExpectationValidationResult
from great_expectations.data_context.types.base import ProgressBarsConfig

from stages.checks.suites import Table

WORST = 10
"""Failing rows that Great Expectations lists of each expectation; it counts them all."""


@dataclass(frozen=True)
class Outcome:
    """What one expectation found in one table.

    Attributes:
        check: The key under ``validate:``.
        table: For example ``tokenized/train``.
        severity: ``error`` or ``warning``.
        passed: Whether the expectation was met.
        crashed: What went wrong inside it, when it could not be judged.
        expectation: Its type and arguments.
        rows: Rows judged; ``None`` for an expectation of a whole column or table.
        unexpected: Rows that failed it.
        observed: The value found, for an expectation of a whole column or table.
        failing: The numbers of the first failing rows.
    """

    check: str
    table: str
    severity: str
    passed: bool
    crashed: str | None
    expectation: dict[str, Any]
    rows: int | None
    unexpected: int | None
    observed: Any
    failing: tuple[int, ...]


def run_suites(tables: Sequence[Table]) -> list[ExpectationSuiteValidationResult]:
    """Judges each table, in order. Great Expectations catches what an expectation raises; ``outcomes`` brings it to light."""
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False, metric_calculations=False)
    source = context.data_sources.add_pandas("splits")
    form = {"result_format": "SUMMARY", "partial_unexpected_count": WORST, "unexpected_index_column_names": ["row"]}
    results = []
    for table in tables:
        batch = source.add_dataframe_asset(table.name).add_batch_definition_whole_dataframe("all").get_batch({"dataframe": table.frame})
        suite = gx.ExpectationSuite(table.name, expectations=list(table.expectations))
        results.append(batch.validate(suite, result_format=form))
    return results


def outcomes(results: Sequence[ExpectationSuiteValidationResult]) -> Iterator[Outcome]:
    """What each expectation found, table by table."""
    for suite in results:
        for result in suite.results:
            yield _outcome(suite.suite_name, result)


def _outcome(table: str, result: ExpectationValidationResult) -> Outcome:
    config, found = result.expectation_config, result.result
    if config is None:
        raise ValueError(f"a result of {table} does not say which expectation it is of")
    arguments = {name: value for name, value in config.kwargs.items() if name != "batch_id"}
    return Outcome(
        check=config.meta["check"],
        table=table,
        severity="warning" if config.severity == "warning" else "error",
        passed=bool(result.success),
        crashed=_crash(result.exception_info),
        expectation={"type": config.type, **arguments},
        rows=found.get("element_count"),
        unexpected=found.get("unexpected_count"),
        observed=found.get("observed_value"),
        failing=tuple(row["row"] for row in found.get("partial_unexpected_index_list") or ()),
    )


def _crash(info: dict[str, Any] | None) -> str | None:
    """Great Expectations notes one exception, or one for each metric that an expectation stands on."""
    notes = [info or {}, *(info or {}).values()]
    messages = [note["exception_message"] for note in notes if isinstance(note, dict) and note.get("raised_exception")]
    return messages[0] if messages else None
