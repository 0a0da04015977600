"""Origin of the base model: ``models/base/source.json``, which the stage ``base`` writes."""

import hashlib
from collections.abc import Mapping
from typing import ClassVar

from tuneline.core.records import OMITTED, Record


class PretrainedSource(Record):
    """A pretrained model that was brought into the project, whole or its tokenizer only."""

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
