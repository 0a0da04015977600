"""``tuneline show --gate``: what is used up of the year's error probability, and what a candidate needs."""

import time
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table
from rich.text import Text

from tuneline.cli.console import Console
from tuneline.gating.error_budget import ErrorBudget, GateEntry, fewest_discordant, votes_needed
from tuneline.gating.gate_history import read_gate_history
from tuneline.settings import PromotionPolicy, load_settings

UNDECIDED = 0.5
"""P-value of a candidate that is as good as production on validation."""


def show_gate(console: Console, root: Path) -> None:
    """Print the error budget of the year, and what a candidate needs to be promoted on the latest split."""
    policy = load_settings(root).promotion
    history = read_gate_history(root, policy.artifact)
    console.print(
        Text(
            f"{policy.artifact}: at most {policy.error_rate:.0%} of years promote a model that is no better."
            " The better a candidate is on validation, the more of the year it may use up."
        )
    )
    if not history:
        console.print(Text("No candidate was compared with production yet; nothing is used up."))
    else:
        console.print(gate_table(history, policy))
    console.print(Text(tonight(history, policy)))


def gate_table(history: Sequence[GateEntry], policy: PromotionPolicy) -> Table:
    """Return what candidates have used up within a year."""
    names = ("candidates", "promoted", "used up in a year", "left")
    table = Table(*names, title="Error budget", title_justify="left")
    budget = ErrorBudget.of_split(history, "", time.time(), policy)
    promoted = sum(entry.outcome == "promoted" for entry in budget.entries)
    spent = f"{budget.spent:.2g} of {budget.total:g}"
    table.add_row(str(len(budget.entries)), str(promoted), spent, f"{budget.left:.2g}")
    return table


def tonight(history: Sequence[GateEntry], policy: PromotionPolicy) -> str:
    """Say what a candidate needs on the split of the last decision, in rows and points."""
    budget = ErrorBudget.of_split(history, "", time.time(), policy, UNDECIDED)
    if budget.level == 0:
        return (
            "The year's budget is used up: no candidate is promoted on the reported split until the first"
            " decisions are a year old."
        )
    levels = {"at best": budget.largest, f"with p = {UNDECIDED} on validation": budget.level}
    if not budget.entries:
        fewest = fewest_discordant(budget.largest)
        return (
            f"Tonight a candidate is tested at {budget.largest:.2g} at best, and at {budget.level:.2g} with"
            f" p = {UNDECIDED} on validation. Where accuracy decides, it needs at least {fewest} rows that"
            " only one model predicts correctly."
        )
    last = budget.entries[-1]
    if last.discordant is None:
        needs = []
        for case, level in levels.items():
            needs.append(f"{case} an interval of {1 - 2 * level:.5%}")
        return f"Tonight a candidate needs {', '.join(needs)}, above promotion.min_gain."

    needs = [f"{case} {_rows_needed(last, level)}" for case, level in levels.items()]
    return (
        f"Tonight a candidate needs {', '.join(needs)} (rows that only one model predicts correctly; the last"
        f" candidate had {last.discordant} of {last.independent:,} independent rows)."
    )


def _rows_needed(last: GateEntry, level: float) -> str:
    """Return how many rows a candidate has to win, of as many discordant ones as the last one had."""
    discordant = max(last.discordant or 0, fewest_discordant(level))
    needed = votes_needed(discordant, level) or discordant
    net = 2 * needed - discordant
    points = 100 * net / last.independent
    return f"{needed} of {discordant} rows, {net} more than production or {points:+.2f} points"
