"""The checkpoint to fine-tune: found, and how long the texts are for its tokenizer."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tuneline.checks.text_lengths import MOST_PIECES, TextLengths
from tuneline.core.params.train import invalid_name
from tuneline.core.runtime.errors import ParamsError, StageError
from tuneline.model.checkpoints.pretrained import CONFIG, Pretrained, check_model_type, find_pretrained
from tuneline.model.tokens.architectures import token_limit
from tuneline.model.tokens.tokenizer import checkpoint_limit, load_tokenizer

OPTION = "--checkpoint"
MOST_TRUNCATED = 0.01
"""Share of rows that may be truncated."""
USUAL_LENGTH = 512
"""Tokens that a model reads although no row of the data has so many.

A batch is padded to its longest row, so they cost nothing; and the data say little about the texts that the
model will read one day.
"""
SMALL = "sentence-transformers/all-MiniLM-L6-v2"
"""A checkpoint of 23 million parameters for English."""
MULTILINGUAL = "distilbert/distilbert-base-multilingual-cased"
"""A checkpoint of 135 million parameters for 104 languages."""
MOST_FOREIGN = 0.02
"""Share of letters beyond ASCII from which a multilingual checkpoint is suggested."""
TextColumns = Sequence[Sequence[str | None]]
"""The texts of some rows, by column."""


@dataclass(frozen=True)
class Lengths:
    """Lengths of texts in tokens, special tokens included.

    Attributes:
        rows: Lengths of the rows of a sample.
        limit: Tokens that the model takes; ``None`` if it has no limit.
    """

    rows: TextLengths
    limit: int | None

    @property
    def max_length(self) -> int:
        """The model's limit.

        For a model that takes more than 512 tokens, it is the smallest multiple of 8 that truncates at most
        1 % of the rows.
        """
        tokens = np.sort(self.rows.tokens)
        needed = int(tokens[-1 - int(MOST_TRUNCATED * len(tokens))])
        rounded = max(USUAL_LENGTH, -(-needed // 8) * 8)
        return rounded if self.limit is None else min(rounded, self.limit)

    @property
    def warnings(self) -> list[str]:
        """That the tokenizer does not know the language of the texts, if it does not."""
        if self.rows.word_pieces <= MOST_PIECES:
            return []
        return [
            f"! Its tokenizer divides a word into {self.rows.word_pieces:.1f} pieces on average: it was made"
            " for other texts, and more rows help little. Choose a checkpoint for this language, or a"
            f" multilingual one: {OPTION} {MULTILINGUAL}"
        ]

    @property
    def description(self) -> str:
        """How many rows are longer than a model input, in one line."""
        tokens = self.rows.tokens
        longer = float(np.mean(tokens > self.max_length))
        taken = " (the model takes no more)" if self.limit == self.max_length else ""
        return (
            f"max_length {self.max_length}: {longer:.1%} of rows are longer{taken}; tokens per row: median"
            f" {np.median(tokens):.0f}, longest {tokens.max()}"
        )


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint whose files were read, except for the weights.

    Attributes:
        config: Its ``config.json``.
        license: Licence in its model card, if it states one.
        folder: Folder with its tokenizer and configuration.
    """

    pretrained: Pretrained
    config: Mapping[str, Any]
    parameters: int
    license: str | None
    folder: Path

    @property
    def width(self) -> int:
        """Size of the hidden layers."""
        return self._size("hidden_size", "dim", "d_model", default=768)

    @property
    def layers(self) -> int:
        """Number of layers."""
        return self._size("num_hidden_layers", "n_layers", default=12)

    def _size(self, *keys: str, default: int) -> int:
        """Return the size under the first key that there is: architectures name their sizes differently."""
        sizes = [self.config[key] for key in keys if isinstance(self.config.get(key), int)]
        return sizes[0] if sizes else default

    @property
    def description(self) -> str:
        """Name, commit, architecture, size and licence in one line."""
        licence = f"licence {self.license}" if self.license else "no licence in its model card"
        return (
            f"{self.pretrained.label} ({self.config.get('model_type')}, {self.layers} layers of {self.width},"
            f" {self.parameters / 1e6:,.1f} million parameters, {licence})"
        )

    def measure(self, columns: TextColumns) -> Lengths:
        """Tokenize the texts of rows without truncation. At least one row has a text."""
        name = self.pretrained.label
        tokenizer = load_tokenizer(self.folder, f"{OPTION}: {name}")
        backend = tokenizer.backend_tokenizer
        backend.encode_special_tokens = True
        backend.no_truncation()
        backend.no_padding()

        # without the rows that have no text
        rows = []
        for row in zip(*columns, strict=True):
            if any(text and text.strip() for text in row):
                rows.append([text or "" for text in row])
        lengths = TextLengths.measured(backend, list(zip(*rows, strict=True)), name)

        # the smaller limit of tokenizer and model; some state none
        limits = [checkpoint_limit(self.folder), token_limit(self.config)]
        limit = min((limit for limit in limits if limit is not None), default=None)
        return Lengths(lengths, limit)


def open_checkpoint(name: str, revision: str | None) -> Checkpoint:
    """Find a checkpoint on the hub or in ``models/source/``, and read its configuration and tokenizer.

    The weights are not downloaded.

    Raises:
        StageError: It does not exist, cannot be reached, or cannot be fine-tuned here.
    """
    problem = invalid_name(name, revision)
    if problem:
        raise ParamsError(f"{OPTION}: {problem}.")
    pretrained = find_pretrained(name, revision, OPTION)
    check_model_type(pretrained)
    if not pretrained.tokenizer_files():
        hint = (
            "Choose one that has a tokenizer; or save tokenizer and weights into one folder"
            " models/source/NAME and name that."
        )
        raise StageError(f"{OPTION}: {pretrained.label} has no tokenizer.", hint)
    pretrained.weight_files()
    folder = pretrained.fetch([CONFIG, *pretrained.tokenizer_files()])
    return Checkpoint(pretrained, pretrained.config(), pretrained.parameters(), pretrained.license(), folder)


def suggested_for(texts: Iterable[str | None]) -> str:
    """Return a small checkpoint that reads the language of texts."""
    letters = foreign = 0
    for text in texts:
        of_text = "".join(filter(str.isalpha, text or ""))
        letters += len(of_text)
        foreign += len(of_text) - len(of_text.encode("ascii", "ignore"))
    return MULTILINGUAL if foreign > MOST_FOREIGN * letters else SMALL
