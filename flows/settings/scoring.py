"""Settings of flow ``score``."""

import os
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from flows.settings.section import Seconds, Section
from tuneline.readers.bad_rows import MAX_SHARE
from tuneline.readers.limits import DEFAULT_LIMITS, MB


class DriftLimits(Section):
    """Limits beyond which new texts drifted from the training data, if the difference is also significant.

    Attributes:
        max_psi: Largest population stability index.
        max_ks: Largest Kolmogorov-Smirnov distance.
        significance: Differences with a p-value of at least this are ignored.
        min_known_words: Smallest share of words that were common in training, relative to their share in training.
        min_rows: Number of rows below which drift is not measured.
        window_rows: Number of last scored rows that are compared, rounded up to whole files.
        repeat_hours: Hours between two events about the same model.
    """

    max_psi: Annotated[float, Field(gt=0)] = 0.25
    max_ks: Annotated[float, Field(gt=0, le=1)] = 0.2
    significance: Annotated[float, Field(gt=0, lt=1)] = 0.001
    min_known_words: Annotated[float, Field(ge=0, le=1)] = 0.7
    min_rows: Annotated[int, Field(ge=1)] = 200
    window_rows: Annotated[int, Field(ge=1)] = 5000
    repeat_hours: Annotated[float, Field(ge=0)] = 24


class SizeLimits(Section):
    """Largest sizes of a file that is scored: a small one can unpack to more than memory and disk hold.

    Attributes:
        max_cell_characters: Characters of a cell.
        max_row_group_mb: MB of a row group of a Parquet file, decoded.
        max_unpacked_mb: MB of the whole file, unpacked and decoded.
    """

    max_cell_characters: Annotated[int, Field(ge=1)] = DEFAULT_LIMITS.cell
    max_row_group_mb: Annotated[int, Field(ge=1)] = DEFAULT_LIMITS.row_group // MB
    max_unpacked_mb: Annotated[int, Field(ge=1)] = DEFAULT_LIMITS.unpacked // MB


class Scoring(Section):
    """Settings of flow ``score``.

    Attributes:
        inbox: Folder of new files, relative to the repository.
        outbox: Folder of scored files, relative to the repository.
        archive: Folder into which an input is moved when its result is complete; ``None``: it stays in the inbox.
        keep: Columns of the input that are copied to the output.
        bad_rows: ``stop`` refuses a file with a row that cannot be read or has no text; ``skip`` leaves the row out.
        max_bad_share: Largest fraction of the rows of a file that may be left out; a file with more is refused.
        settle_seconds: Seconds since its last change before a file is scored.
        engine: ``ray`` predicts several files at a time on the workers of a Ray cluster: the one that ``RAY_ADDRESS`` names, else on this
            machine.
        workers: ray: files at a time; ``None``: one for each CPU of the cluster.
        limits: Sizes beyond which a file is refused.
        drift: Limits of drift.
    """

    inbox: Path = Path("data/inbox")
    outbox: Path = Path("data/scored")
    archive: Path | None = Path("data/archive")
    keep: list[str] = []
    bad_rows: Literal["stop", "skip"] = "stop"
    max_bad_share: Annotated[float, Field(ge=0, le=1)] = MAX_SHARE
    settle_seconds: Seconds = 10
    engine: Literal["local", "ray"] = "local"
    workers: Annotated[int, Field(ge=1)] | None = None
    limits: SizeLimits = SizeLimits()
    drift: DriftLimits = DriftLimits()

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        folders = [folder for folder in (self.inbox, self.outbox, self.archive) if folder is not None]
        if len({Path(os.path.normpath(folder)) for folder in folders}) < len(folders):
            raise ValueError("inbox, outbox and archive must be different folders")
        return self
