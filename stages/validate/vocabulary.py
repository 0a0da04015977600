"""What a tokenizer says about the rows it makes: its largest id, its special tokens and where they stand.

Read with the tokenizers library alone: transformers would take seconds to import.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from tuneline.stage import require


@dataclass(frozen=True)
class Vocabulary:
    """A tokenizer's ids.

    Attributes:
        largest_id: Ids run from 0 to this one.
        unknown_id: Of the token that stands for what the vocabulary has not; ``None`` when there is none.
        special_ids: Of the special tokens, the unknown one left out.
        template: The special tokens of one row, in order; the texts stand between them.
        first_id: The token each row starts with; ``None`` when that is one of the text.
        last_id: The token each row ends with; ``None`` when that is one of the text.
        largest_type_id: Of ``token_type_ids``.
        has_type_ids: Whether rows have ``token_type_ids``: the tokenizer's ``model_input_names`` say so.
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
        """Reads a tokenizer's folder.

        Args:
            folder: Holds ``tokenizer.json`` and ``tokenizer_config.json``.
            texts: Texts per row: one or two.
        """
        tokenizer = load_tokenizer(folder)
        config = json.loads(require(folder / "tokenizer_config.json", "tokenize").read_text(encoding="utf-8"))
        added = tokenizer.get_added_tokens_decoder()
        unknown = tokenizer.token_to_id(_unknown_token(config) or "")
        row = tokenizer.encode("a", "a") if texts == 2 else tokenizer.encode("a")
        marked = [token for token, special in zip(row.ids, row.special_tokens_mask, strict=True) if special]
        return cls(
            largest_id=max(tokenizer.get_vocab(with_added_tokens=True).values()),
            unknown_id=unknown,
            special_ids=frozenset(token for token, known in added.items() if known.special and token != unknown),
            template=tuple(marked),
            first_id=row.ids[0] if row.special_tokens_mask[0] else None,
            last_id=row.ids[-1] if row.special_tokens_mask[-1] else None,
            largest_type_id=max(row.type_ids),
            has_type_ids="token_type_ids" in config.get("model_input_names", ()),
        )

    def is_special(self) -> NDArray[np.bool_]:
        """Whether an id is special, by id; the entry after the largest id stands for all ids out of the vocabulary."""
        special = np.zeros(self.largest_id + 2, dtype=bool)
        special[list(self.special_ids)] = True
        return special


def load_tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer of a folder, neither cutting nor padding."""
    tokenizer = Tokenizer.from_file(str(require(folder / "tokenizer.json", "tokenize")))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _unknown_token(config: dict[str, Any]) -> str | None:
    token: str | dict[str, str] | None = config.get("unk_token")
    return token["content"] if isinstance(token, dict) else token
