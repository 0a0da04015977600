"""Scalar columns of the tokenized splits, which Great Expectations checks instead of lists.

Checks of values in list columns raise inside Great Expectations, and checks of their uniqueness take
quadratic time.
"""

import json
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from tokenizers import Tokenizer, decoders

from stages.validate.columns import (
    Arrays,
    RowNumbers,
    StoredColumns,
    column_writer,
    files_of,
    read_batches,
)
from tuneline.analysis.ragged_array import RaggedArray
from tuneline.core.stage import require
from tuneline.core.tables import LABELS, WINDOW_LENGTHS, SplitReader
from tuneline.core.tokenizer_files import TOKENIZER_CONFIG, TOKENIZER_JSON
from tuneline.engines import map_tasks
from tuneline.params import Params, RunParams, TokenizeParams
from tuneline.runtime.terminal import phase
from tuneline.tasks import Task
from tuneline.tasks.columns import labels_of

CONTINUATION = "##"
"""What WordPiece writes before a token that continues a word, if no token is before it."""


@dataclass(frozen=True)
class Vocabulary:
    """A tokenizer's ids.

    Attributes:
        largest_id: Largest token id; the smallest is 0.
        special_ids: Ids of the special tokens except the unknown token.
        template: Special tokens of one row, in order; the texts are between them.
        first_id: Special token at the start of each row; ``None`` without one.
        has_type_ids: True if ``model_input_names`` of the tokenizer lists ``token_type_ids``.
    """

    largest_id: int
    unknown_id: int | None
    special_ids: frozenset[int]
    template: tuple[int, ...]
    first_id: int | None
    last_id: int | None
    largest_type_id: int
    has_type_ids: bool

    @classmethod
    def read(cls, folder: Path, texts: int) -> Self:
        """Read ``tokenizer.json`` and ``tokenizer_config.json``; rows have one or two ``texts``."""
        tokenizer = load_plain_tokenizer(folder)
        config = json.loads(require(folder / TOKENIZER_CONFIG, "tokenize").read_text(encoding="utf-8"))

        # special tokens
        name = config.get("unk_token") or ""
        if isinstance(name, dict):  # as transformers writes a token with options
            name = name["content"]
        unknown = tokenizer.token_to_id(name)
        special_ids = set()
        for token, added in tokenizer.get_added_tokens_decoder().items():
            if added.special and token != unknown:
                special_ids.add(token)

        # where a row has them, by an example
        row = tokenizer.encode("a", "a") if texts == 2 else tokenizer.encode("a")
        is_special = row.special_tokens_mask
        template = []
        for token, special in zip(row.ids, is_special, strict=True):
            if special:
                template.append(token)
        return cls(
            largest_id=max(tokenizer.get_vocab(with_added_tokens=True).values()),
            unknown_id=unknown,
            special_ids=frozenset(special_ids),
            template=tuple(template),
            first_id=row.ids[0] if is_special[0] else None,
            last_id=row.ids[-1] if is_special[-1] else None,
            largest_type_id=max(row.type_ids),
            has_type_ids="token_type_ids" in config.get("model_input_names", ()),
        )


def load_plain_tokenizer(folder: Path) -> Tokenizer:
    """Load a folder's tokenizer without truncation and padding."""
    tokenizer = Tokenizer.from_file(str(require(folder / TOKENIZER_JSON, "tokenize")))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def decoding_matches(
    raw: SplitReader, tokenized: SplitReader, params: Params, tokenizer: Path, vocabulary: Vocabulary
) -> NDArray[np.float64]:
    """Decode a sample of a split and compare it with the texts of the raw split, which has as many rows.

    The result has the shape ``(rows,)``: 1 where the ids decode to the texts, 0 where not, NaN for a row out
    of the sample.
    """
    rows = evenly_spaced(tokenized.rows, params.validate_.decoded_text.rows)
    decoder = Decoder(load_plain_tokenizer(tokenizer), vocabulary, params.tokenize)
    ids = tokenized.take(rows, ["input_ids"])["input_ids"].to_pylist()
    lengths = [[len(row_ids)] for row_ids in ids]  # of the inputs of each row
    if WINDOW_LENGTHS in tokenized.schema.names:
        lengths = tokenized.take(rows, [WINDOW_LENGTHS])[WINDOW_LENGTHS].to_pylist()
    columns = [raw.take(rows, [name])[name].to_pylist() for name in params.data.text_columns]

    result = np.full(tokenized.rows, np.nan)
    for row, row_ids, row_lengths, *texts in zip(rows, ids, lengths, *columns, strict=True):
        row_texts = [text or "" for text in texts]
        if len(row_lengths) == 1:
            result[row] = decoder.matches(row_ids, row_texts)
        else:
            result[row] = decoder.windows_match(row_ids, row_lengths, row_texts)
    return result


def evenly_spaced(total: int, number: int) -> RowNumbers:
    """Return at most ``number`` of ``total`` row numbers, evenly spaced from the first to the last."""
    return np.unique(np.linspace(0, max(total - 1, 0), min(number, total)).astype(np.int64))


class Decoder:
    """Compares rows of ids with their texts. Rows of ``max_length`` may have lost tokens."""

    def __init__(self, tokenizer: Tokenizer, vocabulary: Vocabulary, params: TokenizeParams) -> None:
        self._tokenizer = tokenizer
        self._vocabulary = vocabulary
        self._params = params
        if isinstance(tokenizer.decoder, decoders.WordPiece):
            tokenizer.decoder = decoders.WordPiece(cleanup=False)  # cleanup turns "do not" into "don't"

    def matches(self, ids: Sequence[int], texts: Sequence[str]) -> bool:
        """Return True if the ids decode to the texts.

        An unknown token matches any text. If the row may be truncated, its segments need only match the
        starts of the texts, or only their ends; if its middle may be cut out, both of them.
        """
        parts = self._parts(ids)
        segments = list(map(self._pieces, parts))
        required = list(map(comparable, texts))
        if len(ids) < self._params.max_length:
            return pieces_match(_joined(segments), "".join(required))

        # without a special token between them, the end of the truncated first text is unknown
        if len(segments) != len(required):
            return True
        if self._params.long_text == "head_tail":
            return all(map(pieces_match, map(self._head_and_tail, parts), required))
        pairs = list(zip(segments, required, strict=True))
        if all(pieces_match(pieces, text, to_end=False) for pieces, text in pairs):
            return True
        return all(pieces_match(pieces, text, from_start=False) for pieces, text in pairs)

    def windows_match(self, ids: Sequence[int], lengths: Sequence[int], texts: Sequence[str]) -> bool:
        """Return True if each window of a row decodes to parts of the texts.

        The first window has the starts of the texts, and the last one their ends. If the row may be
        truncated, only one of both need be so.

        Args:
            ids: Token ids of all windows, one after the other.
            lengths: Tokens of each window.
            texts: The texts of the row.
        """
        required = list(map(comparable, texts))
        has_starts = True
        has_ends = True
        first = 0
        for number, length in enumerate(lengths):
            segments = list(map(self._inner_pieces, self._parts(ids[first : first + length])))
            first += length
            if len(segments) != len(required):  # without a special token between them
                continue
            pairs = list(zip(segments, required, strict=True))
            if not all(pieces_match(pieces, text, from_start=False, to_end=False) for pieces, text in pairs):
                return False
            if number == 0:
                has_starts = all(pieces_match(pieces, text, to_end=False) for pieces, text in pairs)
            if number == len(lengths) - 1:
                has_ends = all(pieces_match(pieces, text, from_start=False) for pieces, text in pairs)
        if len(ids) < self._params.max_length * self._params.windows.max_windows:
            return has_starts and has_ends
        return has_starts or has_ends

    def _parts(self, ids: Sequence[int]) -> list[list[int]]:
        """Return the ids between special tokens: the ids of the texts."""
        parts = []
        for special, run in groupby(ids, key=lambda token: token in self._vocabulary.special_ids):
            if not special:
                parts.append(list(run))
        return parts

    def _head_and_tail(self, ids: Sequence[int]) -> list[str]:
        """Return the pieces of the start and of the end of a text, between which tokens may be cut out."""
        head = round(self._params.head_share * len(ids))
        return self._pieces(ids[:head]) + self._inner_pieces(ids[head:])

    def _inner_pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the pieces of a part of a text that may begin within a word."""
        pieces = self._pieces(ids)
        first_token = self._tokenizer.id_to_token(ids[0]) if ids else None
        if first_token is not None and first_token.startswith(CONTINUATION):
            pieces[0] = pieces[0].removeprefix(CONTINUATION)
        return pieces

    def _pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the texts between runs of unknown tokens, one more than there are runs."""
        unknown = self._vocabulary.unknown_id
        pieces = [""]
        for is_unknown, run in groupby(ids, key=lambda token: token == unknown):
            if is_unknown:
                pieces.append("")
            else:
                pieces[-1] = comparable(self._tokenizer.decode(list(run), skip_special_tokens=False))
        return pieces


def comparable(text: str) -> str:
    """Return a text without what normalizers change.

    These are case, accents, white space, control characters and compatibility forms.
    """
    characters = []
    for character in unicodedata.normalize("NFKD", text).casefold():
        if character.isspace() or character == "\ufffd":  # the latter replaces what cannot be decoded
            continue
        if unicodedata.category(character)[0] not in "MC":  # marks, such as accents; control characters
            characters.append(character)
    return "".join(characters)


def pieces_match(pieces: Sequence[str], text: str, from_start: bool = True, to_end: bool = True) -> bool:
    """Return True if ``text`` consists of ``pieces`` in order, with any text between them.

    Text before the first piece is allowed without ``from_start``, and text after the last one without
    ``to_end``.
    """
    end = 0
    for number, piece in enumerate(pieces):
        is_last = number == len(pieces) - 1
        if number == 0 and from_start:
            start = 0 if text.startswith(piece) else -1
        elif is_last and to_end:
            start = text.rfind(piece, end)
        else:
            start = text.find(piece, end)
        if start < 0:
            return False
        end = start + len(piece)
    return not to_end or end == len(text)


def _joined(segments: list[list[str]]) -> list[str]:
    """Join the pieces of all segments; the last piece of one continues in the first piece of the next."""
    joined = [""]
    for pieces in segments:
        joined[-1] += pieces[0]
        joined += pieces[1:]
    return joined


def derive_columns(source: SplitReader, vocabulary: Vocabulary, task: Task, folder: Path) -> None:
    """Write the columns of ``batch_columns`` of one file under the same name, a batch of rows at a time."""
    phase(f"tokens of {source.paths[0].stem}")
    with column_writer(folder / source.paths[0].name) as write:
        for batch in read_batches(source):
            write(batch_columns(batch, vocabulary, task))


def read_tokenized(
    splits: Mapping[str, SplitReader], vocabulary: Vocabulary, task: Task, folder: Path, run: RunParams
) -> dict[str, StoredColumns]:
    """Derive the scalar columns of tokenized splits, one file at a time.

    All workers of the engine can write the folder.
    """
    files: list[SplitReader] = []
    for split in splits.values():
        files += files_of(split)
    derive = partial(derive_columns, vocabulary=vocabulary, task=task, folder=folder)
    for _ in map_tasks(derive, files, run, name="tokens"):
        pass  # the results are in files

    columns = {}
    for name, split in splits.items():
        columns[name] = StoredColumns.of(SplitReader.open(folder, split.split, "validate"))
    return columns


def batch_columns(batch: pa.RecordBatch, vocabulary: Vocabulary, task: Task) -> Arrays:
    """Return the scalar columns of a batch, each of shape ``(rows,)``.

    Of a row in several windows, a column that is about one input of the model has the value of the first
    window that is not as it should be.
    """
    ids = RaggedArray.of(batch["input_ids"])
    mask = RaggedArray.of(batch["attention_mask"])
    input_lengths = model_input_lengths(batch, ids)
    inputs = RaggedArray(ids.values, input_lengths.values)

    # special tokens, by a table of all ids: its last entry is for ids out of the vocabulary
    outside = vocabulary.largest_id + 1
    is_special = np.zeros(outside + 1, dtype=bool)
    is_special[list(vocabulary.special_ids)] = True
    out_of_vocabulary = (ids.values < 0) | (ids.values > vocabulary.largest_id)
    is_special_token = is_special[np.where(out_of_vocabulary, outside, ids.values)]
    special = inputs.reduce(np.add, is_special_token)

    columns = {
        "tokens": ids.lengths,
        "smallest_id": ids.reduce(np.minimum, ids.values),
        "largest_id": ids.reduce(np.maximum, ids.values),
        "first_id": input_lengths.first_other(inputs.first(), vocabulary.first_id),
        "last_id": input_lengths.first_other(inputs.last(), vocabulary.last_id),
        "special_tokens": input_lengths.first_other(special, len(vocabulary.template)),
        "content_tokens": ids.lengths - ids.reduce(np.add, is_special_token),
        "unknown_tokens": ids.reduce(np.add, ids.values == vocabulary.unknown_id),
        "mask_tokens": mask.lengths,
        "smallest_mask": mask.reduce(np.minimum, mask.values, 1),
        "largest_mask": mask.reduce(np.maximum, mask.values, 1),
        LABELS: task.codes(labels_of(task, batch[LABELS])),
    }
    if WINDOW_LENGTHS in batch.schema.names:
        windows = RaggedArray.of(batch[WINDOW_LENGTHS])
        columns |= {
            "window_tokens": windows.reduce(np.add, windows.values),
            "longest_window": windows.reduce(np.maximum, windows.values),
        }
    if "token_type_ids" in batch.schema.names:
        types = RaggedArray.of(batch["token_type_ids"])
        drops = types.drops()
        if np.array_equal(types.lengths, ids.lengths):  # within each window
            input_types = RaggedArray(types.values, input_lengths.values)
            drops = input_lengths.first_other(input_types.drops(), 0)
        columns |= {
            "type_tokens": types.lengths,
            "smallest_type": types.reduce(np.minimum, types.values),
            "largest_type": types.reduce(np.maximum, types.values),
            "type_drops": drops,
        }
    return columns


def model_input_lengths(batch: pa.RecordBatch, ids: RaggedArray) -> RaggedArray:
    """Return the tokens of the inputs of the model that each row is: its windows, or itself.

    Rows whose windows do not have as many tokens as the row are taken as they are; a check names them.
    """
    if WINDOW_LENGTHS in batch.schema.names:
        windows = RaggedArray.of(batch[WINDOW_LENGTHS])
        tokens = windows.reduce(np.add, windows.values)
        if windows.lengths.all() and np.array_equal(tokens, ids.lengths):
            return windows
    return RaggedArray(ids.lengths, np.ones_like(ids.lengths))
