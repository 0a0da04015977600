"""The tokenizer as a folder that any later stage, or a server, loads with ``AutoTokenizer.from_pretrained``."""

import json
from pathlib import Path

from transformers import PreTrainedTokenizerFast

OF_THIS_MACHINE = frozenset({"name_or_path", "is_local", "local_files_only", "tokenizer_file", "vocab_file", "merges_file", "_commit_hash"})
OF_AN_OLD_CALL = frozenset({"max_length", "stride", "truncation_strategy", "pad_to_multiple_of"})
"""Left behind in a configuration by whoever saved the checkpoint; ``model_max_length`` is what counts here."""


def save_tokenizer(tokenizer: PreTrainedTokenizerFast, max_length: int, folder: Path) -> None:
    """Writes ``tokenizer.json`` and its configuration, without a word on the machine it was made on.

    Args:
        tokenizer: Left without truncation and padding.
        max_length: Written as ``model_max_length``.
        folder: Made when it is missing.
    """
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.backend_tokenizer.no_padding()
    tokenizer.save_pretrained(folder)
    path = folder / "tokenizer_config.json"
    values = json.loads(path.read_text(encoding="utf-8"))
    kept = {key: value for key, value in values.items() if key not in OF_THIS_MACHINE | OF_AN_OLD_CALL}
    kept["model_max_length"] = max_length
    kept["model_input_names"] = list(tokenizer.model_input_names)
    path.write_text(json.dumps(dict(sorted(kept.items())), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
