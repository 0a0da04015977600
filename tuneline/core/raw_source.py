"""Origin of the raw splits: ``data/raw/source.json``, which the stage ``download`` writes."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pydantic import Field

from tuneline.core.records import OMITTED, Record


class SplitSource(Record):
    """Origin of one raw split."""

    specification: str = Field(alias="from")
    """As in ``data.splits``, for example ``train[90%:]+extra``."""
    rows: int
    left_out: int
    """Rows of the specification that are not in the split: incomplete ones, or beyond ``data.max_rows``."""


class Splitting(Record):
    """How one split of the source was divided: ``data.split``, and what it gave."""

    validation: float
    test: float
    by: str | None
    stratify: bool
    seed: int
    rows_without_group: int
    """Rows without a value in the column ``by``; each of them is a group of its own."""


class AppliedCorrections(Record):
    """What ``data/corrections/`` changed in the rows of the source."""

    labels: int
    """Rows that got another label."""
    dropped: int
    """Rows that were left out."""
    unmatched: int
    """Corrections that match no row."""
    stale: int
    """Label corrections that were not applied: the row's label is no longer the label that was corrected."""
    sha256: Mapping[str, str]
    """SHA-256 of each file of corrections, by name."""


class RemoteSource(Record):
    """A file of a storage, as it was when it was read."""

    size: int
    """Its size in bytes."""
    version: str | None
    """Its ETag, or another name of its version."""
    sha256: str
    """Hash of its content."""


class RawSource(Record):
    """Origin of the raw splits. Each kind of source has keys of its own."""

    written_by: ClassVar[str] = "download"

    source: str
    """``sample``, ``files`` or ``hub``, as in ``data.source``."""
    rows: int | None = OMITTED
    """sample: number of tickets."""
    mislabelled: float | None = OMITTED
    """sample: fraction of the tickets with a wrong label."""
    seed: int | None = OMITTED
    """sample: seed of the generator."""
    files: Mapping[str, str] | None = OMITTED
    """files: the files that were read, by split of the source."""
    batches: Mapping[str, Mapping[str, int]] | None = OMITTED
    """files: the batches that were read and their rows, by split of the source."""
    remote: Mapping[str, RemoteSource] | None = OMITTED
    """files: the files on a storage (``data.path: s3://...``), which DVC does not track, by URL."""
    path: str | None = OMITTED
    """hub: id of the data set."""
    name: str | None = OMITTED
    """hub: its configuration."""
    revision: str | None = OMITTED
    """hub: commit, tag or branch that was asked for."""
    commit: str | None = OMITTED
    """hub: commit that was read."""
    splits: Mapping[str, SplitSource]
    label_names: Sequence[str] | None
    """Class names in the order of their ids; ``None`` for a regression."""
    split: Splitting | None = OMITTED
    corrections: AppliedCorrections | None = OMITTED

    @property
    def attributes(self) -> Mapping[str, Any]:
        """The keys of the source whose values are not nested, for people."""
        content = self.model_dump(mode="json")
        return {key: value for key, value in content.items() if isinstance(value, str | int | float)}
