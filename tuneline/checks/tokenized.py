"""Scalar columns of the tokenized splits, which Great Expectations checks instead of lists.

Checks of values in list columns raise inside Great Expectations, and checks of their uniqueness take
quadratic time.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
from tokenizers import Tokenizer

from tuneline.checks.definitions import Columns, percent
from tuneline.checks.raw import RawSplit, files_of, load_columns, read_batches, save_columns
from tuneline.checks.text_lengths import TextLengths
from tuneline.core.params import RunParams, TokenizeParams
from tuneline.core.runtime.terminal import phase
from tuneline.core.stage.arrays import RaggedArray, RowNumbers
from tuneline.core.stage.engines import map_tasks
from tuneline.core.stage.entry import require
from tuneline.core.stage.tables import LABELS, WINDOW_LENGTHS, SplitReader
from tuneline.model.tasks import Task
from tuneline.model.tasks.columns import labels_of
from tuneline.model.tokens.tokenizer_settings import TOKENIZER_CONFIG, TOKENIZER_JSON

MEASURED_ROWS = 2_000
"""Rows of a split whose texts are tokenized again at most."""
MEASURED_CHARACTERS = 20_000_000
"""Characters of them, about: some seconds."""
WHOLE_SHARE = 0.99
"""Share of the rows whose length a note names: ``max_length`` or windows for it read nearly all."""


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


def evenly_spaced(total: int, number: int) -> RowNumbers:
    """Return at most ``number`` of ``total`` row numbers, evenly spaced from the first to the last."""
    return np.unique(np.linspace(0, max(total - 1, 0), min(number, total)).astype(np.int64))


def derive_tokenized(source: SplitReader, vocabulary: Vocabulary, task: Task, folder: Path) -> None:
    """Write the columns of ``batch_columns`` of one file, reading a batch of rows at a time."""
    phase(f"tokens of {source.paths[0].stem}")
    batches = [batch_columns(batch, vocabulary, task) for batch in read_batches(source)]
    save_columns(folder, source, batches)


def read_tokenized(
    splits: Mapping[str, SplitReader], vocabulary: Vocabulary, task: Task, folder: Path, run: RunParams
) -> dict[str, Columns]:
    """Derive the scalar columns of tokenized splits, one file at a time.

    All workers of the engine can write the folder.
    """
    derive = partial(derive_tokenized, vocabulary=vocabulary, task=task, folder=folder)
    for _ in map_tasks(derive, files_of(splits), run, name="tokens"):
        pass  # the results are in files
    return {name: load_columns(folder, split) for name, split in splits.items()}


def batch_columns(batch: pa.RecordBatch, vocabulary: Vocabulary, task: Task) -> Columns:
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


def whole_lengths(raw: RawSplit, text_columns: Sequence[str], tokenizer: Path) -> TextLengths:
    """Count the tokens of whole rows of a split, evenly spaced: the tokenized rows lack what was cut."""
    mean_characters = float(raw.columns["characters"].mean())
    affordable = max(int(MEASURED_CHARACTERS / max(mean_characters, 1)), 1)
    rows = evenly_spaced(raw.rows, min(MEASURED_ROWS, affordable))
    counting = load_plain_tokenizer(tokenizer)
    counting.encode_special_tokens = True  # a special token that stands in a text is text
    columns = []
    for name in text_columns:
        columns.append([text or "" for text in raw.source.take(rows, [name])[name].to_pylist()])
    return TextLengths.measured(counting, columns, str(tokenizer))


def truncation_notes(lengths: TextLengths, params: TokenizeParams) -> list[str]:
    """Return what the model does not read of rows, and how long they are."""
    reading = lengths.cut(params.max_length)
    long_rows = reading.incomplete
    if not long_rows:
        return []
    if params.long_text == "windows":
        windows = params.windows
        reading = lengths.windowed(params.max_length, windows.stride, windows.max_windows)
    longest = int(np.quantile(lengths.tokens, WHOLE_SHARE, method="inverted_cdf"))
    return [
        f"{percent(long_rows)} of the rows are longer than {params.max_length:,} tokens; the model does not"
        f" read {percent(reading.lost)} of all tokens. {percent(WHOLE_SHARE)} of the rows have at most"
        f" {longest:,} tokens."
    ]
