"""How flow ``score`` talks to the process that predicts many files (``tuneline/cli/predict/jobs.py``).

``python -m MODULE OPTIONS FILE...``: OPTIONS are those of ``JobOptions`` as JSON. The predictions of the n-th file are in ``n.parquet``.
What is printed about a file is between the lines ``BEGINS`` and ``ENDS``, which has the exit status that ``tuneline predict`` would have
had.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

MODULE = "tuneline.cli.predict.jobs"
BEGINS = "file {number} begins"
ENDS = "file {number} ends with status {status}"


@dataclass(frozen=True)
class JobOptions:
    """What the files have in common.

    Attributes:
        model: Folder of the model.
        folder: Folder of the predictions.
        keep: Columns that are copied into the output.
        bad_rows: What to do about a row that cannot be predicted.
        max_bad_share: Largest fraction of such rows in a file.
        max_cell_characters: Longest cell of an input.
        max_row_group_mb: Largest row group of a Parquet file, decoded.
        max_unpacked_mb: Largest input after unpacking and decoding.
        engine: ``ray`` for the workers of a Ray cluster.
        workers: ray: files at a time; ``None`` for one for each CPU of the cluster.
    """

    model: str
    folder: str
    keep: Sequence[str]
    bad_rows: Literal["stop", "skip"]
    max_bad_share: float
    max_cell_characters: int
    max_row_group_mb: int
    max_unpacked_mb: int
    engine: Literal["local", "ray"] = "local"
    workers: int | None = None
