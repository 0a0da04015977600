"""Settings of the flows, ``conf/flows.yaml``: typed and frozen, like the parameters.

No stage reads them: a stage reads ``params.yaml``. They stand here and not in ``flows/``, because
``tuneline doctor`` reads them too.
"""

import os
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from tuneline.core.params.loading import read_yaml, validated
from tuneline.core.params.section import Positive, PositiveFloat, Rate, Section

SETTINGS = Path("conf/flows.yaml")

Count = Annotated[int, Field(ge=0)]
Duration = Annotated[float, Field(ge=0)]
"""A time; the name of its setting has the unit."""
FilePath = Annotated[Path, Field(strict=False)]
"""A path. Not strict, because YAML has texts and no paths."""
Ref = Annotated[str, Field(pattern=r"^[^-\s][^\s]*$")]
"""A git ref, which git cannot take for an option."""


class StagePolicy(Section):
    """``stages.NAME``: retries and timeout of a stage.

    A stage whose parameters or data are wrong (exit code 78) is never tried again.
    """

    retries: Count = 1
    """Attempts after a failure: a network can come back, and a training resumes from its checkpoint."""
    retry_delay_seconds: Duration = 0
    """Seconds before each retry."""
    timeout_minutes: PositiveFloat = 60
    """Minutes after which an attempt is ended."""


class Training(Section):
    """What flow ``train`` runs, and where results go."""

    ref: Ref = "main"
    """What is run: ``main``, of this folder. Flow ``ingest`` commits new rows to this branch.

    ``origin/main``: what several people or machines share, fetched by each run.
    """
    push: bool = False
    """Push results and new rows to the remotes of DVC and git; flow ``clean`` removes old branches there.

    DVC needs a default remote.
    """


class PromotionPolicy(Section):
    """Conditions under which a model replaces the one in production (docs/promotion.md)."""

    error_rate: Annotated[float, Field(gt=0, lt=0.5)] = 0.05
    """Largest probability of promoting, in a year, any model that is no better."""
    candidates_per_year: Positive = 365
    """Candidates that are expected in a year, by which ``error_rate`` is divided.

    Weekly trainings: 52. Fewer candidates need less evidence each.
    """
    min_rows: Positive = 100
    """Smallest number of rows of the reported split; fewer decide nothing."""
    min_gain: float = 0.0
    """The whole interval of the difference must be above it.

    Negative: a model that is worse by less than this is promoted as well.
    """
    guards: dict[str, Rate] = {}
    """What must not lose more than a margin: ``{"customer: acme": 0.02, "label": 0.05}``.

    ``COLUMN: VALUE`` is one group of rows, ``COLUMN`` every value of a column of the data; ``label`` is the
    class.
    """


class DriftLimits(Section):
    """Limits beyond which new texts drifted from the training data, if the difference is also significant."""

    max_psi: PositiveFloat = 0.25
    """Largest population stability index."""
    min_known_words: Rate = 0.7
    """Smallest share of words that were common in training, relative to their share in training."""


class DriftSettings(DriftLimits):
    """Limits of the drift of scored rows, and the rows that are compared with the training data."""

    window_rows: Positive = 5000
    """Number of last scored rows that are compared, rounded up to whole files."""


class Scoring(Section):
    """Settings of flow ``score`` (docs/ingest.md)."""

    inbox: FilePath = Path("data/inbox")
    """Folder of new files: CSV, TSV, JSONL or Parquet, plain or .gz."""
    outbox: FilePath = Path("data/scored")
    """Folder of the results: ``FILE.parquet``, or ``FILE.error.json`` for a file that was refused.

    The second result of a name is ``FILE.2.parquet``.
    """
    archive: FilePath = Path("data/archive")
    """An input is moved here when its result is complete. On the file system of the inbox."""
    keep: list[str] = []
    """Input columns that are copied to the output."""
    max_bad_share: Rate = 0.0
    """Fraction of the rows of a file that may be left out, because they cannot be read or have no text.

    A file with more is refused; with 0, a file with any.
    """
    settle_seconds: Duration = 10
    """A file that came or changed more recently waits for the next run.

    The drop folder of flow ``ingest`` has the same rule.
    """
    drift: DriftSettings = DriftSettings()
    """Limits of the drift of scored rows, and the rows that are compared with the training data."""

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        folders = [self.inbox, self.outbox, self.archive]
        if len({os.path.normpath(folder) for folder in folders}) < len(folders):
            raise ValueError("outbox: inbox, outbox and archive must be different folders")
        return self


class Retention(Section):
    """What flow ``clean`` keeps (docs/operations.md)."""

    branch_days: Duration | None = 90
    """Branches ``runs/*``; ``null``: for ever.

    Never the one in production; tags keep their commits.
    """
    checkouts: Count = 3
    """Number of checkouts of failed runs."""
    cache: bool = True
    """Collect DVC's cache: what no branch, tag, experiment or working tree names."""


class Ingest(Section):
    """Settings of flow ``ingest`` (docs/ingest.md)."""

    folder: FilePath | None = None
    """Drop folder of files with labelled rows, relative to the repository; they move to its ``done/``.

    ``null``: nothing is ingested.
    """

    @model_validator(mode="after")
    def _inside(self) -> Self:
        if self.folder is not None and (self.folder.is_absolute() or ".." in self.folder.parts):
            raise ValueError(f"folder: {self.folder} is outside the repository")
        return self


class Settings(Section):
    """Settings of the flows, in ``conf/flows.yaml``."""

    stages: dict[str, StagePolicy] = {}
    """Retries and timeout of each stage, by its name; ``default`` for stages without an entry."""
    training: Training = Training()
    """What flow ``train`` runs, and where results go."""
    promotion: PromotionPolicy = PromotionPolicy()
    """Conditions under which a model replaces the one in production (docs/promotion.md)."""
    scoring: Scoring = Scoring()
    """Flow ``score``: its folders, bad rows and drift (docs/ingest.md)."""
    retention: Retention = Retention()
    """What flow ``clean`` keeps (docs/operations.md)."""
    ingest: Ingest = Ingest()
    """Flow ``ingest``: its drop folder (docs/ingest.md)."""
    lock_wait_seconds: Duration = 600
    """How long a run waits for DVC's lock, while a person works in the same checkout."""

    def policy(self, stage: str) -> StagePolicy:
        """Return the policy of a stage."""
        if stage in self.stages:
            return self.stages[stage]
        return self.stages.get("default", StagePolicy())


def load_settings(root: Path) -> Settings:
    """Read the settings of a repository; defaults where the file has none, or if there is no file.

    Raises:
        ParamsError: The file is not valid YAML, or has an unknown key or an invalid value. The message names
            the line, or lists all dotted keys.
    """
    path = root / SETTINGS
    values = read_yaml(path) if path.exists() else None
    hint = "The comments in the file say what each setting does."
    return validated(Settings, {} if values is None else values, path, hint)
