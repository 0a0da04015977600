"""The checkpoint to fine-tune: its size, its limit, and the lengths of the texts in tokens of its tokenizer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tuneline.architectures import token_limit
from tuneline.cli.init.rows import Row
from tuneline.errors import ParamsError, StageError
from tuneline.model_types import check_model_type
from tuneline.params.model import invalid_name
from tuneline.pretrained import CONFIG, Pretrained, find
from tuneline.tokenizer import checkpoint_limit, load_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

OPTION = "--checkpoint"


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint of which everything but the weights was read.

    Attributes:
        pretrained: Its name, commit and files.
        config: Its ``config.json``.
        parameters: Number of parameters.
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
        return next((value for key in keys if isinstance(value := self.config.get(key), int)), default)

    @property
    def description(self) -> str:
        """Name, commit, architecture, size and licence in one line."""
        millions = f"{self.parameters / 1e6:,.1f} million parameters"
        licence = f"licence {self.license}" if self.license else "no licence in its model card"
        return f"{self.pretrained.label} ({self.config.get('model_type')}, {self.layers} layers of {self.width}, {millions}, {licence})"


def open_checkpoint(name: str, revision: str | None) -> Checkpoint:
    """Find a checkpoint, and read its configuration and tokenizer. The weights are not downloaded.

    Args:
        name: Name on the hub, or ``models/source/NAME``.
        revision: Commit, tag or branch on the hub.

    Raises:
        StageError: It does not exist, cannot be reached, or cannot be fine-tuned here.
    """
    if problem := invalid_name(name, revision):
        raise ParamsError(f"{OPTION}: {problem}.")
    pretrained = find(name, revision, OPTION)
    check_model_type(pretrained)
    if not pretrained.tokenizer_files():
        hint = "Choose one that has a tokenizer; or save tokenizer and weights into one folder models/source/NAME and name that."
        raise StageError(f"{OPTION}: {pretrained.label} has no tokenizer.", hint)
    pretrained.weight_files()
    folder = pretrained.fetch([CONFIG, *pretrained.tokenizer_files()])
    return Checkpoint(pretrained, pretrained.config(), pretrained.parameters(), pretrained.license(), folder)


@dataclass(frozen=True)
class Lengths:
    """Lengths of texts in tokens, special tokens included.

    Attributes:
        tokens: Tokens of each row of a sample, ascending, of shape ``(rows,)``.
        limit: Tokens that the model takes; ``None`` if it has no limit.
    """

    tokens: NDArray[np.int64]
    limit: int | None

    MOST_TRUNCATED = 0.01
    """Share of rows that may be truncated."""
    SHORTEST = 16
    CHEAP = 128
    """Tokens up to which no row is truncated: a batch is padded to its longest row only, so the few long rows cost little."""

    @property
    def max_length(self) -> int:
        """The smallest multiple of 8 that truncates at most 1 % of the rows, and none below 128, within the limit of the model."""
        needed = int(self.tokens[-1 - int(self.MOST_TRUNCATED * len(self.tokens))])
        complete = min(int(self.tokens[-1]), self.CHEAP)
        rounded = max(self.SHORTEST, -(-max(needed, complete) // 8) * 8)
        return rounded if self.limit is None else min(rounded, self.limit)

    def truncated(self, length: int) -> float:
        """Return the share of rows that are longer."""
        return float(np.mean(self.tokens > length))

    @property
    def description(self) -> str:
        """Quantiles in one line."""
        median, ninety, most = (int(np.quantile(self.tokens, share, method="inverted_cdf")) for share in (0.5, 0.9, 1))
        return f"tokens per row: median {median}, 90% at most {ninety}, longest {most}"


def measure_lengths(checkpoint: Checkpoint, sample: Sequence[Row], columns: Sequence[str], text_columns: Sequence[str]) -> Lengths:
    """Tokenize the texts of a sample of rows, without truncation.

    Args:
        checkpoint: Its tokenizer counts.
        sample: Rows, with at least one that has a text.
        columns: Names of their columns.
        text_columns: One or two of them.

    Raises:
        StageError: The tokenizer cannot be loaded.
    """
    label = f"{OPTION}: {checkpoint.pretrained.label}"
    tokenizer = load_tokenizer(checkpoint.folder, label)
    positions = [list(columns).index(name) for name in text_columns]
    rows = [tuple(row[position] or "" for position in positions) for row in sample]
    rows = [row for row in rows if any(text.strip() for text in row)]
    limits = [checkpoint_limit(tokenizer, checkpoint.folder), token_limit(checkpoint.config)]
    return Lengths(_token_counts(tokenizer, rows), min((limit for limit in limits if limit is not None), default=None))


def _token_counts(tokenizer: "PreTrainedTokenizerFast", rows: Sequence[tuple[str, ...]]) -> NDArray[np.int64]:
    backend = tokenizer.backend_tokenizer
    backend.no_truncation()
    backend.no_padding()
    texts = [row[0] if len(row) == 1 else row for row in rows]
    return np.sort(np.fromiter(map(len, backend.encode_batch_fast(texts)), dtype=np.int64, count=len(texts)))
