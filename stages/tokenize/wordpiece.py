"""A WordPiece tokenizer of the line's own, trained on the train split: the same texts give the same bytes."""

import string
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from tuneline.errors import DataError

PAD, UNK, CLS, SEP, MASK = SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
ALPHABET_LIMIT = 1000
MIN_FREQUENCY = 2
"""A pair of pieces seen once is no reason for a piece of its own."""
_NEVER_INSIDE_A_WORD = frozenset(string.punctuation) | {chr(point) for point in range(0x4E00, 0xA000)}
"""What the BERT pre-tokenizer always cuts off: ASCII punctuation and Chinese characters."""

Texts = Callable[[], Iterator[Sequence[str]]]
"""Gives out the texts in batches; called once for each pass."""


def train_wordpiece(texts: Texts, vocab_size: int) -> PreTrainedTokenizerFast:
    """Trains on ``texts``, lower-cased as ``bert-base-uncased`` does it.

    Args:
        texts: The texts of the train split.
        vocab_size: Most entries of the vocabulary.

    Raises:
        DataError: There is no character to learn from.
    """
    characters = alphabet(texts, min(ALPHABET_LIMIT, (vocab_size - len(SPECIAL_TOKENS)) // 2))
    if not characters:
        raise DataError("The texts of the train split are empty: there is nothing to train a tokenizer on.")
    learned = learn_vocabulary(texts, vocab_size, characters)
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=assemble(models.WordPiece(vocab=learned, unk_token=UNK)),
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        pad_token=PAD,
        unk_token=UNK,
        cls_token=CLS,
        sep_token=SEP,
        mask_token=MASK,
        clean_up_tokenization_spaces=False,
    )


def alphabet(texts: Texts, limit: int) -> list[str]:
    """The characters of the normalised texts, at most ``limit`` of them: the most frequent, then by code point."""
    normalizer = normalizers.BertNormalizer(lowercase=True)
    counts = np.zeros(0x110000, dtype=np.int64)
    for batch in texts():
        points = np.frombuffer("".join(map(normalizer.normalize_str, batch)).encode("utf-32-le"), dtype=np.uint32)
        found = np.bincount(points)
        counts[: len(found)] += found
    order = np.argsort(-counts, kind="stable")
    characters = [chr(point) for point in order[counts[order] > 0]]
    return sorted([character for character in characters if not character.isspace()][:limit])


def learn_vocabulary(texts: Texts, vocab_size: int, characters: Sequence[str]) -> dict[str, int]:
    """Trains, and returns the pieces with their ids.

    The trainer numbers the pieces inside words ("##a") in the order of a hash table, which differs in each process, and
    breaks ties by these numbers. Named up front, as if they were special tokens, their numbers are fixed.
    """
    inner = [f"##{character}" for character in characters if character not in _NEVER_INSIDE_A_WORD]
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
    learned: dict[str, int] = tokenizer.get_vocab()
    return learned


def assemble(model: models.WordPiece, post_process: bool = True) -> Tokenizer:
    """Puts BERT's normaliser, pre-tokenizer and template around a model."""
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
