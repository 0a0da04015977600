"""Names of the files of a tokenizer, as the tokenizers of transformers save them.

Stages copy, hash and read these files, some of them without transformers, which takes seconds to import.
"""

TOKENIZER_JSON = "tokenizer.json"
"""The fast tokenizer, whole: what the library tokenizers loads."""
TOKENIZER_CONFIG = "tokenizer_config.json"
"""Settings for transformers: class, special tokens, length, side of the truncation."""
LONG_TEXT_JSON = "long_text.json"
"""What becomes of texts that are longer than the model; without it, they are truncated.

Tuneline writes and reads it (``tuneline/model/long_text.py``).
"""
FAST_TOKENIZER_FILES = (TOKENIZER_JSON, TOKENIZER_CONFIG)
"""Files of a tokenizer that this pipeline has saved."""
TOKENIZER_FILES = (
    *FAST_TOKENIZER_FILES,
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "bpe.codes",
    "spm.model",
    "spiece.model",
    "sentencepiece.bpe.model",
    "tokenizer.model",
)
"""Files that a tokenizer of a checkpoint may have."""
SETTINGS_FILES = frozenset({TOKENIZER_CONFIG, "special_tokens_map.json", "added_tokens.json"})
"""Files of ``TOKENIZER_FILES`` that are no tokenizer by themselves: the vocabulary is in another one."""
