"""A data set of the Hugging Face hub as a source, pinned to a commit."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from tuneline.core.runtime.errors import DataError, UnreadableError
from tuneline.core.runtime.terminal import listed
from tuneline.core.stage.tables import ROW_GROUP
from tuneline.rows.reading.labelled import LabelledColumns, labelled_batches
from tuneline.rows.reading.rows import BadRows, nearest
from tuneline.rows.reading.tables import ValueBatch
from tuneline.rows.splits.source import SourceSplit

_COMMIT = re.compile(r"[0-9a-f]{40}")
_PIN = (
    "Without network, set data.revision to the commit of a data set that was fetched before;"
    " data/raw/source.json records it."
)


class Hub:
    """One configuration of one data set, at one commit.

    Data only: the datasets library runs no code of the repository.
    """

    def __init__(self, path: str, name: str | None, revision: str | None) -> None:
        """Find the commit, and fetch the data set or take it from the cache."""
        if Path(path).exists():
            raise DataError(
                f"data.path: {path!r} is a folder here, and data.source is hub.",
                "For files set data.source to files.",
            )
        self.path = path
        self.name = name
        self.revision = revision
        self.label = path
        if name:
            self.label += f" {name}"
        self.commit = resolve_commit(path, revision)

        import datasets

        try:
            self.data: Any = datasets.load_dataset(self.path, self.name, revision=self.commit)
        except (ConnectionError, OSError, datasets.exceptions.DatasetsError) as error:
            raise UnreadableError(f"data.path: {self.label} cannot be fetched: {error}", _PIN) from None
        except (ValueError, RuntimeError, pa.ArrowException) as error:
            # an unknown configuration, a loading script, or damaged files
            raise DataError(
                f"data.path, data.name: {self.label} cannot be read: {error}",
                "Check data.name; of a data set with a loading script use a copy in Parquet.",
            ) from None
        # Without network the library takes the latest version that it finds in its cache, whatever was asked
        # for.
        for split in self.data.values():
            for file in split.cache_files:
                if self.commit not in Path(file["filename"]).parts:
                    problem = (
                        f"data.revision: commit {self.commit} of {self.label} is not in the cache, and the"
                        " hub is out of reach."
                    )
                    raise UnreadableError(problem, _PIN)

    def read(self, split: str, columns: LabelledColumns) -> SourceSplit:
        """Open one split."""
        if split not in self.data:
            problem = f"data.splits: {self.label} has no split {split!r}{nearest(split, self.data)}."
            raise DataError(
                problem,
                f"It has {listed(self.data)}. Divide one with data.split.",
            )
        data = self.data[split]
        name = f"{self.label}, split {split}"
        names = columns.check(data.column_names, name)
        classes = None
        if columns.label_columns != (columns.label,):
            classes = columns.label_columns
        feature = data.features.get(columns.label)
        while hasattr(feature, "feature"):  # a list
            feature = feature.feature
        if classes is None and hasattr(feature, "names"):
            classes = tuple(feature.names)

        # rows
        bad = BadRows(name, "row", columns.policy)
        tables = data.select_columns(names).with_format("arrow").iter(batch_size=ROW_GROUP)
        batches = ValueBatch.numbered(_batches_of(tables))
        return SourceSplit(name, [(bad, labelled_batches(batches, columns, bad, classes))], classes)

    def provenance(self, _rows: Mapping[str, int], /) -> dict[str, Any]:
        """Return the data set and the commit that was read."""
        return {"path": self.path, "name": self.name, "revision": self.revision, "commit": self.commit}


def _batches_of(tables: Iterator[pa.Table]) -> Iterator[pa.RecordBatch]:
    for table in tables:
        yield from table.combine_chunks().to_batches()


def resolve_commit(path: str, revision: str | None) -> str:
    """Return the commit that a revision points to now. A commit hash is returned without asking the hub."""
    if revision is not None and _COMMIT.fullmatch(revision):
        return revision
    from huggingface_hub import HfApi, errors
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined]  # whichever the client is built on

    try:
        return str(HfApi().dataset_info(path, revision=revision).sha)
    except (
        errors.RevisionNotFoundError,
        errors.RepositoryNotFoundError,  # also for one that asks for access
        errors.HFValidationError,
    ) as error:
        raise DataError(
            f"data.path: the hub gives no data set {path!r} (data.revision: {revision}):"
            f" {type(error).__name__}.",
            "Check both on its page ('nyu-mll/glue'); for a private one log in with `hf auth login`.",
        ) from None
    except (OSError, httpx.HTTPError) as error:
        raise UnreadableError(
            f"data.path: the hub cannot be asked for {path}: {str(error).splitlines()[0]}", _PIN
        ) from None
