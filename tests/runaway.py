"""A tokenizer whose regular expression takes too many steps for some texts, as that of a stranger's
checkpoint may."""

import json
from pathlib import Path
from typing import Any

from tuneline.core.stage.records import file_hash

TEXT = "x" * 60
"""A text for which it takes more steps than the tokenizers library allows."""


def make_runaway(tokenizer: Path) -> None:
    """Put the expression before the pre-tokenizer of a ``tokenizer.json``, and change what the files beside
    it say of it."""
    values = json.loads(tokenizer.read_text())
    split = {"type": "Split", "pattern": {"Regex": "(x+x+)+y"}, "behavior": "Isolated", "invert": False}
    values["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [split, values["pre_tokenizer"]]}
    tokenizer.write_text(json.dumps(values))

    # A class of its own, such as BertTokenizer, would make its pre-tokenizer itself.
    change(tokenizer.with_name("tokenizer_config.json"), tokenizer_class="PreTrainedTokenizerFast")
    exported = tokenizer.with_name("export.json")
    if exported.exists():
        record = json.loads(exported.read_text())["tokenizer"]
        change(exported, tokenizer={**record, "sha256": file_hash(tokenizer)})


def change(path: Path, **values: Any) -> None:
    """Change values of a JSON file."""
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))
