"""A data set of the hub: the present commit of its branch, set in ``params.yaml``."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa

from flows.ingestion.checks import RefusedError
from flows.ingestion.ledger import Ingested
from flows.ingestion.selection import RowHashes
from flows.settings.ingest import IngestSource
from tuneline.errors import ParamsError
from tuneline.files.shards import SplitReader
from tuneline.hub import explained
from tuneline.params.data import DataParams
from tuneline.paths import PARAMS, RAW, SPLITS
from tuneline.text import Keys


@dataclass(frozen=True)
class Revision:
    """A new commit of the data set, in a checkout.

    Attributes:
        source: The source that follows the data set.
        commit: The commit.
        root: The checkout.
        texts: The text columns.
        before: Hashes of the texts of ``data/raw`` before, by split; empty if the checkout had none.
    """

    source: IngestSource
    commit: str
    root: Path
    texts: tuple[str, ...]
    before: dict[str, Keys]

    @classmethod
    def find(cls, source: IngestSource, data: DataParams, root: Path) -> "Revision | None":
        """Set the present commit of the branch in ``params.yaml``; ``None`` if it is there already.

        Raises:
            ParamsError: The pipeline reads no data set of the hub.
            StageError: The hub has no such branch, or cannot be reached.
        """
        if data.source != "hub":
            hint = "A source with hub: true follows the data set of data.path; for files, name a folder, url or query."
            raise ParamsError(f"{source.name}: data.source is {data.source!r}, not 'hub'.", hint)
        commit = present_commit(source, str(data.path))
        if commit == data.revision:
            return None
        texts = tuple(data.text_columns)
        before = raw_texts(root, texts)
        set_revision(root, commit)
        return cls(source, commit, root, texts, before)

    @property
    def found(self) -> Ingested:
        """The entry of the ledger, before the stages have run: without a number of rows."""
        return Ingested(date=datetime.now(UTC).isoformat(timespec="seconds"), source=self.source.name, revision=self.commit)

    def entry(self) -> Ingested:
        """Return the entry of the ledger, after the stages have run.

        Raises:
            RefusedError: Rows of validation or test are now in train.
        """
        after = raw_texts(self.root, self.texts)
        nothing = np.zeros(0, np.uint64)
        held = np.concatenate([nothing, *(self.before.get(split, nothing) for split in SPLITS if split != "train")])
        train, trained = after.get("train", nothing), self.before.get("train", nothing)
        moved = int(np.count_nonzero(np.isin(train, held) & ~np.isin(train, trained)))
        if moved:
            raise RefusedError(f"{moved:,} rows that were in validation or test are in train in {self.commit[:12]}.")
        added = sum(map(len, after.values())) - sum(map(len, self.before.values())) if self.before else 0
        return self.found.model_copy(update={"added": max(0, added)})


def present_commit(source: IngestSource, name: str) -> str:
    """Return the commit that the branch of a source has now.

    Raises:
        StageError: The hub has no such branch, or cannot be reached.
    """
    from huggingface_hub import HfApi

    with explained("data.path", name, source.revision):
        return str(HfApi().dataset_info(name, revision=source.revision).sha)


def set_revision(root: Path, commit: str) -> None:
    """Set ``data.revision`` in ``params.yaml`` of a checkout, which keeps its comments. ``conf/params.yaml`` is a link to it."""
    from tuneline.params_file import changed, write

    write(root / PARAMS, changed(root / PARAMS, {"data.revision": commit}))


def raw_texts(root: Path, texts: tuple[str, ...]) -> dict[str, Keys]:
    """Return the hashes of the texts in ``data/raw`` by split; empty if the checkout has no raw splits."""
    found = {}
    for split in SPLITS:
        if raw := SplitReader.find(root / RAW, split):
            hashes = [RowHashes.of(batch.columns, pa.nulls(len(batch), pa.string()), None).texts for batch in raw.batches(texts)]
            found[split] = np.concatenate([np.zeros(0, np.uint64), *hashes])
    return found
