"""WordPiece training on the train split. The same texts give the same bytes."""

import string
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from tuneline.errors import DataError

PAD, UNK, CLS, SEP, MASK = SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
ALPHABET_LIMIT = 1000
MIN_FREQUENCY = 2
"""Pairs of pieces that occur less often are not merged."""
_ISOLATED = frozenset(string.punctuation) | {chr(point) for point in range(0x4E00, 0xA000)}
"""Characters that the BERT pre-tokenizer always separates: ASCII punctuation and Chinese characters."""

Texts = Callable[[], Iterator[Sequence[str]]]
"""Returns an iterator over batches of texts. It is called once per pass over the data."""


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
