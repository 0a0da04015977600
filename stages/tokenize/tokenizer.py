"""The tokenizer: trained on the train split, checked against the parameters, and saved."""

import json
import string
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from tuneline.errors import DataError, ParamsError

PAD, UNK, CLS, SEP, MASK = SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
ALPHABET_LIMIT = 1000
TRAINING_ROWS = 1_000_000
"""Rows that the tokenizer is trained on at most. The trainer keeps about 1 KB for each distinct word of them."""
MIN_FREQUENCY = 2
"""Pairs of pieces that occur less often are not merged."""
_ISOLATED = frozenset(string.punctuation) | {chr(point) for point in range(0x4E00, 0xA000)}
"""Characters that the BERT pre-tokenizer always separates: ASCII punctuation and Chinese characters."""

Texts = Callable[[], Iterator[Sequence[str]]]
"""Returns an iterator over batches of texts. It is called once per pass over the data."""

MACHINE_KEYS = frozenset({"name_or_path", "is_local", "local_files_only", "tokenizer_file", "vocab_file", "merges_file", "_commit_hash"})
"""Keys of a tokenizer configuration that describe the machine it was saved on."""
CALL_KEYS = frozenset({"max_length", "stride", "truncation_strategy", "pad_to_multiple_of"})
"""Keys left in a tokenizer configuration by an earlier call. ``model_max_length`` sets the length here."""


def train_wordpiece(texts: Texts, vocab_size: int) -> PreTrainedTokenizerFast:
    """Train a tokenizer that normalizes text as ``bert-base-uncased`` does (lower case, no accents).

    Args:
        texts: The texts of the train split.
        vocab_size: Maximal number of vocabulary entries.

    Raises:
        DataError: The texts are empty or blank.
    """
    characters = alphabet(texts, min(ALPHABET_LIMIT, (vocab_size - len(SPECIAL_TOKENS)) // 2))
    if not characters:
        raise DataError(
            "The texts of the train split are empty, so no tokenizer can be trained on them.",
            "Check data.text_columns and data.splits.train.",
        )
    vocabulary = learn_vocabulary(texts, vocab_size, characters)
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=assemble(models.WordPiece(vocab=vocabulary, unk_token=UNK)),
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        pad_token=PAD,
        unk_token=UNK,
        cls_token=CLS,
        sep_token=SEP,
        mask_token=MASK,
        clean_up_tokenization_spaces=False,
    )


def alphabet(texts: Texts, limit: int) -> list[str]:
    """Return the most frequent characters of the normalized texts, sorted by code point; at most ``limit``."""
    normalizer = normalizers.BertNormalizer(lowercase=True)
    counts = np.zeros(0x110000, dtype=np.int64)
    for batch in texts():
        points = np.frombuffer("".join(map(normalizer.normalize_str, batch)).encode("utf-32-le"), dtype=np.uint32)
        batch_counts = np.bincount(points)
        counts[: len(batch_counts)] += batch_counts
    order = np.argsort(-counts, kind="stable")
    characters = [chr(point) for point in order[counts[order] > 0]]
    return sorted([character for character in characters if not character.isspace()][:limit])


def learn_vocabulary(texts: Texts, vocab_size: int, characters: Sequence[str]) -> dict[str, int]:
    """Train and return the ids of the pieces.

    The trainer numbers continuation pieces ("##a") in the order of a hash table, which differs between processes, and breaks
    ties by these numbers. Passing them as special tokens fixes their numbers.
    """
    inner = [f"##{character}" for character in characters if character not in _ISOLATED]
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size,
        min_frequency=MIN_FREQUENCY,
        initial_alphabet=list(characters),
        limit_alphabet=len(characters),
        special_tokens=[*SPECIAL_TOKENS, *inner],
        show_progress=False,
    )
    tokenizer = assemble(models.WordPiece(unk_token=UNK), post_process=False)
    tokenizer.train_from_iterator(texts(), trainer)
    vocabulary: dict[str, int] = tokenizer.get_vocab()
    return vocabulary


def assemble(model: models.WordPiece, post_process: bool = True) -> Tokenizer:
    """Add BERT's normalizer, pre-tokenizer and template to a model."""
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    if post_process:
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{CLS} $A {SEP}",
            pair=f"{CLS} $A {SEP} $B:1 {SEP}:1",
            special_tokens=[(CLS, SPECIAL_TOKENS.index(CLS)), (SEP, SPECIAL_TOKENS.index(SEP))],
        )
    return tokenizer


def check_length(max_length: int, limit: int | None, special_tokens: int, texts: int) -> None:
    """Check ``tokenize.max_length``.

    Args:
        max_length: Maximal tokens of a row, special tokens included.
        limit: Tokens that the model takes; ``None`` if unlimited or unknown.
        special_tokens: Special tokens that the tokenizer adds to a row.
        texts: Number of texts in a row.

    Raises:
        ParamsError: The model takes fewer tokens, or a row cannot hold one token of each text.
    """
    if limit is not None and max_length > limit:
        raise ParamsError(
            f"tokenize.max_length: {max_length} is more than the {limit} tokens that the model takes.",
            f"Set it to {limit} or less, or give a model made from scratch more: model.config.max_position_embeddings.",
        )
    if max_length < special_tokens + texts:
        raise ParamsError(
            f"tokenize.max_length: {max_length} is too short: a row has {special_tokens} special tokens and {texts} text(s).",
            f"Set it to {special_tokens + texts} or more.",
        )


def save_tokenizer(tokenizer: PreTrainedTokenizerFast, max_length: int, folder: Path) -> None:
    """Write ``tokenizer.json`` and ``tokenizer_config.json`` for ``AutoTokenizer.from_pretrained``, without paths of this machine.

    Args:
        tokenizer: Its truncation and padding are switched off.
        max_length: Written as ``model_max_length``.
        folder: Created if missing.
    """
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.backend_tokenizer.no_padding()
    tokenizer.save_pretrained(folder)
    path = folder / "tokenizer_config.json"
    values = json.loads(path.read_text(encoding="utf-8"))
    kept = {key: value for key, value in values.items() if key not in MACHINE_KEYS | CALL_KEYS}
    kept["model_max_length"] = max_length
    kept["model_input_names"] = list(tokenizer.model_input_names)
    path.write_text(json.dumps(dict(sorted(kept.items())), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
