"""What the checks need of the texts of a raw split, derived from each of its files alone: tasks of the engine.

A file gives scalar columns and keys of its rows, the words of its rows as numbers, and how often each word occurs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stages.validate.columns import column_writer
from stages.validate.rows import read_batches
from tuneline.files.schemas import LABELS, UNLABELLED, read_table, write_table
from tuneline.files.shards import SplitReader
from tuneline.mojibake import broken_characters
from tuneline.terminal import phase
from tuneline.text import CONTROL_CHARACTERS, EncodedWords, VocabularyCounts, normalized, row_keys, text_keys, unordered_row_keys, words

BOM = "\ufeff"
"""Byte order mark: the start of a file that was appended to another."""


@dataclass(frozen=True)
class RawShard:
    """A file of a raw split, and where its results are.

    Attributes:
        source: The file.
        text_columns: Its columns with texts.
        folder: The folder of the results. They have the name of the file, in one folder for each kind.
    """

    source: SplitReader
    text_columns: tuple[str, ...]
    folder: Path

    @property
    def name(self) -> str:
        """Name of the file."""
        return self.source.paths[0].name

    def derive(self) -> None:
        """Write the results, reading a batch of rows at a time."""
        phase(f"texts of {self.source.paths[0].stem}")
        vocabulary = VocabularyCounts.empty()
        words_of_rows = self.folder / "words" / self.name
        words_of_rows.mkdir(parents=True, exist_ok=True)
        with column_writer(self.folder / "columns" / self.name) as write:
            for number, batch in enumerate(read_batches(self.source)):
                texts = [normalized(pc.fill_null(batch[name], "")) for name in self.text_columns]
                hashes = [text_keys(column) for column in texts]
                keys = {"key": row_keys(hashes), "unordered_key": unordered_row_keys(hashes)}
                write({**scalar_columns(batch, self.text_columns), "is_header": is_header(texts, self.text_columns), **keys})
                encoded, found = EncodedWords.with_words(words(texts))
                np.savez(words_of_rows / f"{number:06d}.npz", keys=encoded.keys, indices=encoded.indices, lengths=encoded.lengths)
                vocabulary = vocabulary.plus(VocabularyCounts.of_encoded(encoded, found))
        columns = {"hashes": vocabulary.hashes, "counts": vocabulary.counts, "words": vocabulary.words}
        write_table(pa.table(columns), self.folder / f"vocabulary-{self.name}")

    def words(self) -> Iterator[EncodedWords]:
        """Yield the words of the rows, a batch of rows at a time."""
        for path in sorted((self.folder / "words" / self.name).iterdir()):
            with np.load(path) as arrays:
                yield EncodedWords(arrays["keys"], arrays["indices"], arrays["lengths"])

    def vocabulary(self) -> VocabularyCounts:
        """Return how often each word occurs."""
        table = read_table(self.folder / f"vocabulary-{self.name}").combine_chunks()
        return VocabularyCounts(table["hashes"].to_numpy(), table["counts"].to_numpy(), pa.concat_arrays(table["words"].chunks))


def scalar_columns(batch: pa.RecordBatch, text_columns: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Return the scalar columns of a batch: those of ``RawSplit`` except the keys and ``is_header``."""
    zeros = np.zeros(batch.num_rows, dtype=np.int64)
    beyond_ascii = np.zeros(batch.num_rows, dtype=bool)
    columns = {"missing": zeros, "characters": zeros, "control_characters": zeros, "broken_characters": zeros}
    visible = np.full(batch.num_rows, np.iinfo(np.int64).max)
    for name in text_columns:
        texts, is_missing = pc.fill_null(batch[name], ""), batch[name].is_null().to_numpy(zero_copy_only=False)
        counts = {
            "missing": is_missing,
            "characters": _as_integers(pc.utf8_length(texts)),
            "control_characters": _as_integers(pc.count_substring_regex(texts, CONTROL_CHARACTERS)),
            "broken_characters": broken_characters(texts),
        }
        columns = {key: columns[key] + values for key, values in counts.items()}
        beyond_ascii |= ~pc.string_is_ascii(texts).to_numpy(zero_copy_only=False)
        # A missing text violates missing_values only, not blank_text too.
        visible = np.minimum(visible, np.where(is_missing, visible, _as_integers(pc.utf8_length(pc.utf8_trim_whitespace(texts)))))
    labels = batch[LABELS]
    columns["missing"] = columns["missing"] + labels.is_null().to_numpy(zero_copy_only=False)
    numbers = pc.fill_null(labels, UNLABELLED).to_numpy(zero_copy_only=False)
    return {**columns, "visible_characters": visible, LABELS: numbers, "beyond_ascii": beyond_ascii}


def is_header(texts: Sequence[pa.Array], text_columns: Sequence[str]) -> NDArray[np.bool_]:
    """Return a mask of the rows each of whose normalized texts is the name of its column."""
    names = [normalized(pa.array([name]))[0].as_py() for name in text_columns]
    columns = [
        pc.is_in(column, pa.array([name, f"{BOM}{name}", f'"{name}"'])).to_numpy(zero_copy_only=False)
        for column, name in zip(texts, names, strict=True)
    ]
    found: NDArray[np.bool_] = np.logical_and.reduce(columns)
    return found


def _as_integers(column: pa.Array) -> NDArray[np.int64]:
    numbers: NDArray[np.int64] = column.to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers
