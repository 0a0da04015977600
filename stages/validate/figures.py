"""Numbers that move between versions of the data, for ``metrics/validate.json``."""

from collections.abc import Sequence

from stages.validate.running import Outcome
from tuneline.paths import SPLITS

SHARES = {
    "blank_text": "blank_rate",
    "broken_encoding": "broken_encoding_rate",
    "duplicates": "duplicate_rate",
    "conflicting_labels": "conflict_rate",
    "leakage": "leakage_rate",
    "near_duplicates": "near_duplicate_rate",
    "truncation_rate": "truncation_rate",
}
"""Checks whose failing share of rows is a figure, and its name."""
MEASURES = {
    "rows": "rows",
    "class_balance": "imbalance",
    "unknown_rate": "unknown_rate",
    "label_drift": "label_psi",
    "length_drift": "length_psi",
    "promoted_labels": "promoted_label_psi",
    "promoted_lengths": "promoted_length_psi",
}
"""Checks whose measure of the whole split is a figure, and its name. Of drift, the first measure: the population stability index."""


def figures(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """One flat mapping, split by split: ``train_rows``, ``test_leakage_rate`` and so on. What was not judged is left out."""
    found: dict[str, float] = {}
    for split in SPLITS:
        for outcome in outcomes:
            if outcome.table.split == split and outcome.crashed is None:
                for name, value in _figure(outcome).items():
                    found.setdefault(f"{split}_{name}", value)
    return found


def _figure(outcome: Outcome) -> dict[str, float]:
    if outcome.check in SHARES and outcome.rows is not None:
        return {SHARES[outcome.check]: (outcome.failing or 0) / max(outcome.rows, 1)}
    if outcome.check in MEASURES and outcome.observed is not None:
        return {MEASURES[outcome.check]: outcome.observed}
    if outcome.table.kind == "between":
        return {outcome.check: float(outcome.table.frame[outcome.check].iloc[0])}
    return {}
