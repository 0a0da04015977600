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
    """Origin of the raw splits. Each kind of source adds keys of its own: name and commit of a data set, seed of the sample."""

    written_by: ClassVar[str] = "download"

    source: str
    """As in ``data.source``."""
    splits: Mapping[str, SplitSource]
    label_names: Sequence[str] | None
    """Class names in the order of their ids; ``None`` for a regression."""
    split: Splitting | None = OMITTED

    @property
    def facts(self) -> Mapping[str, Any]:
        """Source, and those of its own keys that are not nested, for people."""
        return {
            "source": self.source,
            **{key: value for key, value in (self.model_extra or {}).items() if not isinstance(value, dict | list)},
        }


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
