"""The scored rows from which the queue is chosen: the texts of the archived inputs, beside their predictions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tuneline.errors import DataError
from tuneline.inputs import InputColumns, Row
from tuneline.scored import ScoredFile, id_text, open_archived, scored_files

MOST_CHARACTERS = 1 << 28
"""Characters of texts that are kept in memory; no further rows are read beyond them."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A scored row.

    Attributes:
        id: Its id, if ids were asked for.
        texts: One or two.
        prediction: Class name or number.
        probabilities: Probability of each class, by name; empty for a regression.
    """

    id: str | None
    texts: tuple[str, ...]
    prediction: str | float
    probabilities: dict[str, float]


@dataclass
class Candidates:
    """The rows to choose from.

    Attributes:
        rows: The rows, those of the latest file first.
        problems: Why files were left out.
    """

    rows: list[Candidate] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def collect(root: Path, outbox: Path, texts: Sequence[str], id_column: str | None, last_rows: int) -> Candidates:
    """Read the last scored rows.

    Args:
        root: The repository.
        outbox: Folder of the scored files.
        texts: The text columns.
        id_column: Column of the ids; ``None`` for none.
        last_rows: Number of rows to read, at most.
    """
    found, characters = Candidates(), 0
    columns = InputColumns(tuple(texts), () if id_column is None else (id_column,))
    for scored in scored_files(root / outbox):
        before = len(found.rows)
        try:
            with open_archived(root, scored, columns) as rows:
                for row, prediction in joined(rows, predictions(scored)):
                    if len(found.rows) == last_rows or characters > MOST_CHARACTERS:
                        return found
                    found.rows.append(Candidate(id_text(row.kept[id_column]) if id_column else None, row.texts, *prediction))
                    characters += row.characters
            if len(found.rows) == before and scored.record.rows:
                found.problems.append(f"{scored.record.archived}: no row has {' and '.join(map(repr, columns.options))}.")
        except DataError as error:
            found.problems.append(error.problem)
    return found


def predictions(scored: ScoredFile) -> Iterator[tuple[int, str | float, dict[str, float]]]:
    """Yield the row number, the prediction and the probabilities of each row of a scored file.

    Raises:
        DataError: It is damaged.
    """
    try:
        with pq.ParquetFile(scored.path) as file:
            names = file.schema_arrow.names
            # The last columns are prediction, or label, probability and one for each class; then model_version, if it is there.
            regression = "prediction" in names[-2:]
            classes = [] if regression else [name for name in names[names.index("probability") :] if name.startswith("probability_")]
            label = "prediction" if regression else "label"
            for batch in file.iter_batches(columns=["row", label, *classes]):
                for values in batch.to_pylist():
                    yield values["row"], values[label], {name.removeprefix("probability_"): values[name] for name in classes}
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{scored.path} cannot be read: {error}") from None


def joined(rows: Iterator[Row], predicted: Iterator[tuple[Any, ...]]) -> Iterator[tuple[Row, tuple[Any, ...]]]:
    """Yield each row that has a prediction, with it. Both are in the order of their numbers."""
    number, *prediction = next(predicted, (None,))
    for row in rows:
        if number is None:
            return
        if row.number == number:
            yield row, tuple(prediction)
            number, *prediction = next(predicted, (None,))
