"""Origins: ``models/base/source.json`` of the base model, ``data/raw/source.json`` of the raw splits."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pydantic import Field

from tuneline.core.stage.records import OMITTED, Record


class PretrainedSource(Record):
    """A pretrained model that was brought into the project."""

    name: str
    """Name on the hub, or the path of a folder under ``models/source/``."""
    commit: str | None = OMITTED
    """Commit on the hub; a folder has none."""
    license: str | None
    """Licence that its model card states."""
    sha256: Mapping[str, str]
    """SHA-256 of each file, by name."""

    @property
    def checksum(self) -> str:
        """SHA-256 of the weights, or of the tokenizer where there are no weights.

        It is the hash of the file if there is one, else a hash over the names and hashes of all files.
        """
        weights = {name: value for name, value in self.sha256.items() if name.endswith(".safetensors")}
        hashes = weights or dict(self.sha256)
        if len(hashes) == 1:
            return next(iter(hashes.values()))
        lines = [f"{value}  {name}\n" for name, value in sorted(hashes.items())]
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    @property
    def description(self) -> str:
        """Name, commit, licence and checksum in one line, for people."""
        name = self.name
        if self.commit:
            name = f"{name} at {self.commit}"
        return f"{name}, licence {self.license or 'not stated'}, SHA-256 {self.checksum}"


class BaseSource(Record):
    """Origin of ``models/base/``."""

    written_by: ClassVar[str] = "base"

    checkpoint: PretrainedSource | None
    """The checkpoint in ``models/base/model/``; ``None``: the model is trained from scratch."""
    tokenizer: PretrainedSource | None
    """The tokenizer in ``models/base/tokenizer/``; ``None``: one is trained on the train split."""


class SplitSource(Record):
    """Origin of one raw split."""

    specification: str = Field(alias="from")
    """The split of the source, as in ``data.splits``."""
    rows: int
    left_out: int
    """Rows of the source's split that are not in the split: incomplete ones, or beyond ``data.max_rows``."""


class Splitting(Record):
    """How one split of the source was divided: ``data.split``, and what it gave."""

    validation: float
    test: float
    by: str | None
    stratify: bool
    seed: int


class AppliedCorrections(Record):
    """What ``data/corrections/`` changed in the rows of the source."""

    labels: int
    """Rows that got another label."""
    dropped: int
    """Rows that were left out."""
    unmatched: int
    """Corrections that match no row: its texts or its label are others now."""
    sha256: Mapping[str, str]
    """SHA-256 of each file of corrections, by name."""


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
