"""Generated texts and raw splits."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from tuneline.core.stage.tables import write_table
from tuneline.model.tasks import Classification, Task
from tuneline.model.tasks.columns import raw_schema

NO_YES = Classification(("no", "yes"))
WORDS = """the parcel is missing invoice was paid twice cannot log in since Monday café naïve résumé über
straße 東京 please help order number 4711 refund! (again) what? don't it's e-mail user@example.org""".split()


def sentences(count: int, seed: int = 0, longest: int = 14) -> list[str]:
    """Return random sentences of 1 to ``longest`` words."""
    random = np.random.default_rng(seed)
    return [" ".join(random.choice(WORDS, random.integers(1, longest + 1))) for _ in range(count)]


def write_raw(
    path: Path, texts: Sequence[Sequence[str]], labels: Sequence[float] | None = None, names: Task = NO_YES
) -> None:
    """Write a raw split with one text column (``subject``) or two (``subject``, ``body``)."""
    columns = dict(zip(("subject", "body"), texts, strict=False))
    rows = len(texts[0])
    values = labels if labels is not None else [row % 2 for row in range(rows)]
    schema = raw_schema(list(columns), names)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_table(pa.table({**columns, "labels": values, "idx": range(rows)}, schema=schema), path)


def write_splits(folder: Path, rows: int = 60, columns: int = 2) -> None:
    """Write all three raw splits."""
    for seed, split in enumerate(("train", "validation", "test")):
        write_raw(
            folder / f"{split}.parquet",
            [sentences(rows, seed=10 * seed + column) for column in range(columns)],
        )
