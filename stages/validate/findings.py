"""What a person wants to know of each outcome: how many rows, how many are allowed, which are the worst."""

import html
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from stages.validate.excerpts import Excerpts
from stages.validate.running import Outcome
from tuneline.params import ValidateParams
from tuneline.params.validate import AtLeast, AtMost, Drift, RowCount, Rule

WORST = 5


@dataclass(frozen=True)
class Row:
    """A row that fails a check.

    Attributes:
        number: In its split.
        values: What was judged, by column.
        texts: The beginning of its texts, by column.
        like: The row that it repeats, if it is about that.
    """

    number: int
    values: Mapping[str, Any]
    texts: Mapping[str, str]
    like: str | None


@dataclass(frozen=True)
class Finding:
    """What one expectation found.

    Attributes:
        outcome: As Great Expectations said it.
        severity: ``error`` or ``warning``.
        status: ``passed``, ``failed`` or ``crashed``.
        found: In words.
        allowed: In words.
        worst: Failing rows, the worst first.
    """

    outcome: Outcome
    severity: str
    status: str
    found: str
    allowed: str
    worst: tuple[Row, ...]

    @property
    def stops(self) -> bool:
        """Whether it ends the stage: a check that crashed does, whatever its severity."""
        return self.status == "crashed" or (self.status == "failed" and self.severity == "error")


def findings(params: ValidateParams, outcomes: Sequence[Outcome], excerpts: Excerpts) -> Iterator[Finding]:
    """Puts outcomes into words, and adds the worst rows of those that failed."""
    for outcome in outcomes:
        rule: Rule = getattr(params, outcome.check)
        status = "crashed" if outcome.crashed else "passed" if outcome.passed else "failed"
        of_rows = outcome.rows is not None or "total" in outcome.arguments
        worst = tuple(_worst(outcome, excerpts)) if status == "failed" and of_rows else ()
        yield Finding(outcome, rule.severity, status, _found(outcome, rule), _allowed(outcome, rule), worst)


def _found(outcome: Outcome, rule: Rule) -> str:
    if outcome.crashed:
        return outcome.crashed
    if outcome.missing:
        return f"no row of class {', '.join(map(str, outcome.missing))}"
    if isinstance(rule, Drift):
        measure = "population stability index" if "stability_index" in outcome.type else "Kolmogorov-Smirnov distance"
        return f"{measure} {number(outcome.observed)}"
    if outcome.rows is None:
        return share(outcome.observed) if isinstance(rule, AtMost) else number(outcome.observed)
    if outcome.table.kind == "between":
        return number(outcome.table.frame[outcome.check].iloc[0])
    failing = outcome.failing or 0
    return f"{failing:,} of {outcome.rows:,} rows ({share(failing / max(outcome.rows, 1))})"


def _allowed(outcome: Outcome, rule: Rule) -> str:
    if isinstance(rule, Drift):
        limit = outcome.arguments["max_value"]
        return f"at most {number(limit)}, or what chance alone makes once in {round(1 / rule.significance):,}"
    if isinstance(rule, AtMost):
        return f"at most {share(rule.max)}"
    if isinstance(rule, AtLeast | RowCount):
        return f"at least {number(rule.min)}"
    return number(outcome.arguments["value"]) if "value" in outcome.arguments else "none may differ"


def _worst(outcome: Outcome, excerpts: Excerpts) -> Iterator[Row]:
    frame = outcome.table.frame
    for place in worst_rows(frame, outcome.arguments):
        row = int(frame["row"].iloc[place])
        values = {name: _plain(frame[name].iloc[place]) for name in _shown(outcome)}
        yield Row(row, values, excerpts.texts(outcome.table, row), excerpts.like(outcome, place))


def worst_rows(frame: pd.DataFrame, arguments: Mapping[str, Any]) -> NDArray[np.int64]:
    """Rows that miss an expectation, at most ``WORST``: those furthest from what was expected, then in order."""
    missed = miss(frame, arguments)
    places = np.flatnonzero(missed > 0)
    return places[np.argsort(-missed[places], kind="stable")][:WORST]


def miss(frame: pd.DataFrame, arguments: Mapping[str, Any]) -> NDArray[np.float64]:
    """How far each row is from what was expected of it: 0 where it meets it, and where it was not judged.

    Of a share of a whole column, what the row adds to it.
    """
    if "column_A" in arguments:
        differ: NDArray[np.float64] = (frame[arguments["column_A"]] != frame[arguments["column_B"]]).to_numpy(np.float64)
        return differ
    values = frame[arguments["column"]].to_numpy()
    if "total" in arguments:
        added: NDArray[np.float64] = values.astype(np.float64)
        return added
    if "value_set" in arguments:
        weight = frame["similarity"].to_numpy() if arguments["column"] == "near_duplicate_of" else 1.0
        outside: NDArray[np.float64] = weight * (~np.isin(values, arguments["value_set"]) & ~pd.isna(values))
        return outside
    low, high = arguments.get("min_value"), arguments.get("max_value")
    beyond = np.zeros(len(values))
    if low is not None:
        beyond = np.maximum(beyond, low - values)
    if high is not None:
        beyond = np.maximum(beyond, values - high)
    return beyond


def _shown(outcome: Outcome) -> list[str]:
    names = [outcome.arguments[key] for key in ("column", "column_A", "column_B", "total") if key in outcome.arguments]
    return [*names, "similarity"] if "near_duplicate_of" in names else [name for name in names if not name.endswith("_of")]


def _plain(value: Any) -> Any:
    """A number as Python knows it, so that JSON does too; NaN and infinity as words. Text as it was before it was escaped."""
    if isinstance(value, str):
        return html.unescape(value)
    plain = value.item() if isinstance(value, np.generic) else value
    return str(plain) if isinstance(plain, float) and not np.isfinite(plain) else plain


def share(value: float) -> str:
    """A share as people read it."""
    return f"{100 * value:.3g} %"


def number(value: Any) -> str:
    """A number as people read it."""
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}" if isinstance(value, float) else "all there"
