"""``tuneline show --gate``: what is used up of the year's error probability, and what a candidate needs."""

import time
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table
from rich.text import Text

from tuneline.cli.console import Console
from tuneline.gating.discordant_rows import fewest_discordant, votes_needed
from tuneline.gating.error_budget import NEW_ROWS, ErrorBudget, GateEntry
from tuneline.gating.gate_history import read_gate_history
from tuneline.settings import PromotionPolicy, load_settings

SHOWN = 5
"""Splits that are shown, the latest first."""


def show_gate(console: Console, root: Path) -> None:
    """Print the error budget of each split, and what a candidate needs to be promoted on the latest one."""
    policy = load_settings(root).promotion
    history = read_gate_history(root, policy.artifact)
    console.print(
        Text(
            f"{policy.artifact}: at most {policy.error_rate:.0%} of years promote a model that is no better."
            f" {policy.candidates_per_year} candidates on one split share that equally."
        )
    )
    if not history:
        console.print(Text("No candidate was compared with production yet; nothing is used up."))
    else:
        console.print(gate_table(history, policy))
    console.print(Text(tonight(history, policy)))


def gate_table(history: Sequence[GateEntry], policy: PromotionPolicy) -> Table:
    """Return one row for each split of the last decisions, the latest first."""
    names = ("split", "candidates", "promoted", "level of a candidate", "used up in a year", "left")
    table = Table(*names, title="Error budget", title_justify="left")
    hashes = list(dict.fromkeys(entry.rows_hash for entry in reversed(history)))
    for rows_hash in hashes[:SHOWN]:
        budget = _budget(history, rows_hash, policy)
        of_split = [entry for entry in history if entry.rows_hash == rows_hash]
        name = NEW_ROWS
        if rows_hash != NEW_ROWS:
            name = f"{of_split[-1].split} {rows_hash[:12]}"
        promoted = sum(entry.outcome == "promoted" for entry in of_split)
        table.add_row(
            name,
            str(len(of_split)),
            str(promoted),
            f"{budget.level:.2g}",
            f"{budget.spent:.2g} of {budget.total:g}",
            f"{budget.left:.2g}",
        )
    return table


def _budget(history: Sequence[GateEntry], rows_hash: str, policy: PromotionPolicy) -> ErrorBudget:
    if rows_hash == NEW_ROWS:
        return ErrorBudget.of_new_rows(history, time.time(), policy)
    return ErrorBudget.of_split(history, rows_hash, time.time(), policy)


def tonight(history: Sequence[GateEntry], policy: PromotionPolicy) -> str:
    """Say what a candidate needs on the split of the last decision, in rows and points."""
    of_splits = [entry for entry in history if entry.rows_hash != NEW_ROWS]
    if not of_splits:
        level = _budget((), "", policy).level
        return (
            f"Where accuracy decides, a candidate is tested at {level:.2g}: at least"
            f" {fewest_discordant(level)} rows that only one model predicts correctly."
        )
    last = of_splits[-1]
    budget = _budget(history, last.rows_hash, policy)
    if budget.level == 0:
        return (
            "The year's budget of this split is used up: no candidate is promoted until its rows change, or"
            " the first decisions are a year old."
        )
    if last.discordant is None:
        return f"A candidate needs an interval of {1 - 2 * budget.level:.5%} above promotion.min_gain."

    # as many discordant rows as last time
    discordant = max(last.discordant, fewest_discordant(budget.level))
    needed = votes_needed(discordant, budget.level) or discordant
    net = 2 * needed - discordant
    points = 100 * net / last.independent
    return (
        f"Tonight a candidate needs {needed} of {discordant} rows that only one model predicts correctly (the"
        f" last one had {last.discordant}): {net} rows more than production, {points:+.2f}"
        f" points of {last.independent:,} independent rows."
    )
