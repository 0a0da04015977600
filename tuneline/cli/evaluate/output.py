"""How an evaluation on a file is shown: in the terminal, and as a file of errors."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.table import Table
from rich.text import Text

from tuneline.cli.console import Console
from tuneline.cli.evaluate.file_evaluation import FileEvaluation
from tuneline.params import DataParams
from tuneline.predict.columns import cell_text
from tuneline.results.largest_errors import error_size
from tuneline.results.rendering import metric_names
from tuneline.runtime.atomic_files import replace_file
from tuneline.tasks.columns import decoded_predictions
from tuneline.words.spreadsheet import free_names, harmless, write_csv
from tuneline.words.titles import title_of


def print_evaluation(result: FileEvaluation) -> None:
    """Print metrics with intervals, the verdict, the worst slice, and what could not be computed."""
    console = Console(soft_wrap=True)
    console.print(_metrics_table(result))
    lines = list(map(str, result.verdict))

    record = result.slices
    worst = record.worst
    if worst is not None:
        lines.append(
            f"Worst slice: {worst.by} {worst.name}, {title_of(record.metric)} {record.value(worst):.3f}"
            f" ({worst.rows:,} rows, 95 % interval {worst.low:.3f} to {worst.high:.3f})."
        )

    lines += result.notes
    for line in lines:
        console.print(Text(line))


def _metrics_table(result: FileEvaluation) -> Table:
    """Return the table of the metrics."""
    title = f"{result.model.name} on {result.file.path.name}, {result.evidence}"
    if result.file.left_out:
        title += f", {result.file.left_out:,} left out"
    table = Table(title=title, title_justify="left")
    table.add_column("", justify="left")
    table.add_column("value", justify="right")
    table.add_column("95 % interval", justify="left")

    for name in metric_names(result.metrics):
        ends = result.intervals.get(name)
        interval = ""
        if ends:
            interval = f"{ends.low:.4f} to {ends.high:.4f}"
        table.add_row(title_of(name), f"{result.metrics[name]:.4f}", interval)
    return table


def write_errors(path: Path, result: FileEvaluation, data: DataParams) -> int:
    """Write the wrong predictions, the most confident first; return their number.

    Of numbers, it writes all rows, the largest error first.
    """
    # rows
    predictions = result.predictions
    task = predictions.task
    sizes = predictions.error_sizes
    order = np.argsort(-sizes, kind="stable")
    order = order[predictions.errors[order]]

    # columns: the position, the texts, and what is added to them
    rows = pa.array(order)
    file = result.file
    texts = {name: text.take(rows) for name, text in file.texts.items()}
    added = free_names((file.unit, "label", "predicted", error_size(task)), list(texts))
    columns = {added[file.unit]: file.positions.take(rows)}
    columns |= texts
    columns[added["label"]] = pa.array(decoded_predictions(task, predictions.labels[order]).to_pylist())
    columns[added["predicted"]] = pa.array(
        decoded_predictions(task, predictions.predicted[order]).to_pylist()
    )
    columns[added[error_size(task)]] = pa.array(sizes[order].round(6))
    table = pa.table(columns)

    if path.suffix.lower() == ".parquet":
        with replace_file(path) as partial:
            pq.write_table(table, partial)
    else:
        # The names of columns are data, too: others wrote the file
        header = [harmless(name) for name in table.column_names]
        values = []
        for column in table.columns:
            values.append([cell_text(task, value) for value in column.to_pylist()])
        write_csv(path, data, header, zip(*values, strict=True))
    return len(order)
