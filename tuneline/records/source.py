"""Origin of the data: ``data/raw/source.json`` and ``data/tokenized/source.json``."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pydantic import Field

from tuneline.records.record import OMITTED, Record


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

    @property
    def facts(self) -> Mapping[str, Any]:
        """The keys of the source, those that are not nested, for people."""
        return {key: value for key, value in self.model_dump(mode="json").items() if isinstance(value, str | int | float)}


class TokenizerSource(Record):
    """Origin of a tokenizer. The path of a folder is left out, because it depends on the machine."""

    origin: str = Field(alias="from")
    """``the train split``, ``a folder`` or ``hub``."""
    name: str | None = OMITTED
    """Name of the repository on the hub."""
    commit: str | None = OMITTED
    """Its commit."""


class TokenizedSource(Record):
    """Origin of the tokenized splits, which are made of ``data/raw``."""

    written_by: ClassVar[str] = "tokenize"

    tokenizer: TokenizerSource
