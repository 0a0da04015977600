"""How experiments are shown: a table or a list for a terminal, and CSV."""

import csv
import io

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from tuneline.experiments.rows import COLUMNS, ExperimentRows
from tuneline.runtime.terminal import visible
from tuneline.words.titles import title_of

WIDE = 120
"""Columns of a terminal from which the table breaks no name."""
SHOWN = 4
"""Parameters of an experiment that a terminal shows."""


def experiments_table(rows: ExperimentRows, *, every: bool) -> Table:
    """Return the table for a terminal.

    Args:
        rows: The experiments.
        every: They are on several commits.
    """
    is_tested = any(row.test is not None for row in rows.rows)
    metric = ""
    if rows.metric:
        metric = title_of(rows.metric).lower()

    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), collapse_padding=True)
    table.add_column("experiment", overflow="fold")
    table.add_column("differs from its commit" if every else "differs from HEAD", overflow="fold")
    table.add_column(f"validation {metric}", justify="right")
    table.add_column("against the best", justify="right", overflow="fold", min_width=len("be told apart"))
    if is_tested:
        table.add_column("test", justify="right", no_wrap=True)
    table.add_column("seconds", justify="right", no_wrap=True)
    table.add_column("commit", justify="right", no_wrap=True)
    if every:
        table.add_column("date", justify="right", no_wrap=True)

    # A cell of data is made visible here: rich cuts cells by the width of what they show
    for row in rows.rows:
        score = ""
        if row.score:
            score = str(row.score)
            if row.score.metric != rows.metric:  # the title of the column names another metric
                score = f"{row.score.metric} {score}"
        cells = [
            visible(row.experiment.name),
            visible(rows.text(row, SHOWN)) or "nothing",
            score,
            row.against_best,
        ]
        if is_tested:
            cells.append("" if row.test is None else f"{row.test:.3f}")
        cells.append("" if row.seconds is None else f"{row.seconds:.0f}")
        cells.append(row.experiment.commit[:7])
        if every:
            cells.append(row.experiment.date)
        table.add_row(*cells)
    return table


def as_list(rows: ExperimentRows, *, every: bool) -> Text:
    """Return two lines for each experiment: its result, and what it is.

    They are for a terminal that is too narrow for the table.
    """
    text = Text()
    for row in rows.rows:
        text.append(visible(row.experiment.name), "bold")
        if row.score:
            text.append(f": {title_of(row.score.metric).lower()} {row.score}")
        if row.against_best:
            text.append(f", {row.against_best}")
        text.append("\n")

        details = [visible(rows.text(row, SHOWN)) or "nothing differs"]
        if row.test is not None:
            details.append(f"test {row.test:.3f}")
        if row.seconds is not None:
            details.append(f"{row.seconds:.0f} s")
        details.append(f"commit {row.experiment.commit[:7]}")
        if every:
            details.append(row.experiment.date)
        text.append(f"    {', '.join(details)}\n")
    text.rstrip()
    return text


def as_csv(rows: ExperimentRows) -> str:
    """Return all values as CSV: one column for each parameter that differs anywhere."""
    keys = dict.fromkeys(key for row in rows.rows for key in row.differs)
    text = io.StringIO()
    writer = csv.DictWriter(text, [*COLUMNS, *keys], extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(row.values() for row in rows.rows)
    return text.getvalue().rstrip("\n")
