"""A table of scalar columns with what is expected of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from great_expectations.expectations.expectation import Expectation
from great_expectations.expectations.metadata_types import FailureSeverity

from stages.validate.distributions import Distribution
from stages.validate.expectations import (
    ExpectColumnKsDistanceToBeAtMost,
    ExpectColumnPairValuesToBeEqual,
    ExpectColumnStabilityIndexToBeAtMost,
    ExpectColumnValuesToBeBetween,
    ExpectColumnValuesToBeInSet,
)
from tuneline.params.validate import AtMost, Drift, Rule, ValidateParams

SEVERITIES = {"error": FailureSeverity.CRITICAL, "warning": FailureSeverity.WARNING}


@dataclass(frozen=True)
class Table:
    """Scalar columns, and what is expected of them.

    Attributes:
        kind: ``columns``, ``raw``, ``tokenized`` or ``between``.
        split: The split it is about.
        frame: Its column ``row`` numbers its rows; in ``raw`` and ``tokenized`` these are the rows of the split.
        expectations: Each knows its check: ``expectation.meta["check"]``.
    """

    kind: str
    split: str
    frame: pd.DataFrame
    expectations: Sequence[Expectation]

    @property
    def name(self) -> str:
        """For example ``tokenized-train``."""
        return f"{self.kind}-{self.split}"


def expect(kind: type[Expectation], check: str, params: ValidateParams, **arguments: Any) -> Expectation:
    """An expectation that knows the check it belongs to, with that check's severity."""
    rule: Rule = getattr(params, check)
    return kind(severity=SEVERITIES[rule.severity], meta={"check": check}, **arguments)


def mostly(params: ValidateParams, check: str) -> float:
    """The share of rows that must pass, as Great Expectations counts it."""
    limit: AtMost = getattr(params, check)
    return round(1.0 - limit.max, 12)


def between(params: ValidateParams, check: str, column: str, low: float | None, high: float | None) -> Expectation:
    """Values of a column lie between limits, of as many rows as the check demands."""
    arguments = {"column": column, "min_value": low, "max_value": high, "mostly": mostly(params, check)}
    return expect(ExpectColumnValuesToBeBetween, check, params, **arguments)


def one_of(params: ValidateParams, check: str, column: str, values: Sequence[Any]) -> Expectation:
    """Values of a column are in a set, of as many rows as the check demands."""
    return expect(ExpectColumnValuesToBeInSet, check, params, column=column, value_set=list(values), mostly=mostly(params, check))


def equal(params: ValidateParams, check: str, one: str, other: str) -> Expectation:
    """Two columns are equal, in as many rows as the check demands."""
    arguments = {"column_A": one, "column_B": other, "mostly": mostly(params, check)}
    return expect(ExpectColumnPairValuesToBeEqual, check, params, **arguments)


def alike(params: ValidateParams, check: str, column: str, reference: Distribution, ordered: bool) -> list[Expectation]:
    """A column is distributed like a reference.

    Args:
        params: Severities and thresholds.
        check: A key whose value is a ``Drift``.
        column: Of the table.
        reference: What it should be like.
        ordered: Whether its values have an order; ids of classes have none.
    """
    drift: Drift = getattr(params, check)
    bins = {"column": column, "edges": list(reference.edges), "counts": list(reference.counts), "significance": drift.significance}
    chance = f"or no larger than chance makes it once in {round(1 / drift.significance):,}"
    psi = f"{check}: the population stability index must be at most {drift.max_psi}, {chance}."
    found = [expect(ExpectColumnStabilityIndexToBeAtMost, check, params, max_value=drift.max_psi, description=psi, **bins)]
    if ordered:
        ks = f"{check}: the Kolmogorov-Smirnov distance must be at most {drift.max_ks}, {chance}."
        found.append(expect(ExpectColumnKsDistanceToBeAtMost, check, params, max_value=drift.max_ks, description=ks, **bins))
    return found
