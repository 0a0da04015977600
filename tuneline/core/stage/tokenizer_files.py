"""Names of the files of a tokenizer, as the tokenizers of transformers save them.

Stages copy, hash and read these files, some of them without transformers, which takes seconds to import.
"""

TOKENIZER_JSON = "tokenizer.json"
"""The fast tokenizer, whole: what the library tokenizers loads."""
TOKENIZER_CONFIG = "tokenizer_config.json"
"""Settings for transformers: class, special tokens, length, side of the truncation."""
SPECIAL_TOKENS_MAP = "special_tokens_map.json"
"""Special tokens, which newer configurations have, too."""
ADDED_TOKENS = "added_tokens.json"
"""Tokens that were added to the vocabulary, with their ids."""
LONG_TEXT_JSON = "long_text.json"
"""What becomes of texts that are longer than the model; without it, they are truncated.

Tuneline writes and reads it (``tuneline/model/tokens/long_text.py``).
"""
VOCAB_TXT = "vocab.txt"
"""Vocabulary of WordPiece, one token per line."""
VOCAB_JSON = "vocab.json"
"""Vocabulary of BPE: ids by token."""
SENTENCEPIECE_FILES = (
    "spm.model",
    "spiece.model",
    "sentencepiece.bpe.model",
    "sentencepiece.model",
    "tokenizer.model",
)
"""Names of a SentencePiece model."""
FAST_TOKENIZER_FILES = (TOKENIZER_JSON, TOKENIZER_CONFIG)
"""Files of a tokenizer that this pipeline has saved."""
TOKENIZER_FILES = (
    *FAST_TOKENIZER_FILES,
    SPECIAL_TOKENS_MAP,
    ADDED_TOKENS,
    VOCAB_TXT,
    VOCAB_JSON,
    "merges.txt",
    "bpe.codes",
    *SENTENCEPIECE_FILES,
)
"""Files that a tokenizer of a checkpoint may have."""
SETTINGS_FILES = frozenset({TOKENIZER_CONFIG, SPECIAL_TOKENS_MAP, ADDED_TOKENS})
"""Files of ``TOKENIZER_FILES`` that are no tokenizer by themselves: the vocabulary is in another one."""
