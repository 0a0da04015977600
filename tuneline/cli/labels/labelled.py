"""The texts that have a label already, as hashes: those of the pipeline's data."""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa

from tuneline.errors import DataError
from tuneline.files.schemas import LABELS, ROW_GROUP, UNLABELLED
from tuneline.inputs import Input, InputColumns, Row, kind_of, open_rows
from tuneline.params import DataParams
from tuneline.paths import RAW, SOURCE
from tuneline.readers.delimited import Dialect
from tuneline.readers.limits import Limits
from tuneline.readers.rows import ENDINGS
from tuneline.readers.urls import is_url
from tuneline.text import Keys, normalized, text_keys, unordered_row_keys

NO_LABEL = (None, "", UNLABELLED, str(UNLABELLED))


def keys_of(texts: Sequence[tuple[str, ...]]) -> Keys:
    """Return a hash of each row's texts, shape ``(rows,)``. Case, white space and the order of a pair make no difference."""
    return unordered_row_keys([text_keys(normalized(pa.array(column, pa.string()))) for column in zip(*texts, strict=True)])


def labelled_keys(data: DataParams) -> Keys:
    """Return the sorted hashes of all labelled texts: of the files under ``data.path``, or of ``data/raw`` where those are no files.

    Files without the text columns or the label column are other data, and rows that cannot be read have no label.
    """
    own = data.source == "files" and not is_url(data.path or "")
    given = Path(data.path or ".") if own else RAW
    folder = given if given.parts[:2] == SOURCE.parts or not own else SOURCE / given
    files = sorted(path for path in folder.rglob("[!.]*") if path.is_file() and path.name.endswith(ENDINGS))
    keys = [np.empty(0, np.uint64)]
    for path in files:
        texts = _texts(path, data, data.label_column if own else LABELS)
        while batch := list(islice(texts, ROW_GROUP)):
            keys.append(keys_of(batch))
    return np.unique(np.concatenate(keys))


def _texts(path: Path, data: DataParams, label: str) -> Iterator[tuple[str, ...]]:
    """Yield the texts of the rows of a file that have a label."""
    kind, files = kind_of(path, "data.files"), data.files
    dialect = Dialect.default(kind == "tsv", files.delimiter, files.quoting, files.columns)
    limits = Limits.of(files.max_cell_characters, files.max_row_group_mb, files.max_unpacked_mb)
    try:
        with open_rows(Input(path, kind, dialect, files.encoding, limits), InputColumns(tuple(data.text_columns), (label,))) as source:
            yield from (row.texts for row in source.rows if isinstance(row, Row) and row.kept[label] not in NO_LABEL)
    except DataError:
        return
