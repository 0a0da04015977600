"""What the stage hands on: the model with its tokenizer, the curves, the metrics. Nothing in them depends on the machine."""

import json
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from torch import Tensor
from transformers import PreTrainedModel

from stages.outs import replace_directory, replace_file

MACHINE_KEYS = ("name_or_path", "_name_or_path", "_commit_hash", "tokenizer_file", "local_files_only")


def publish_model(model: PreTrainedModel, weights: dict[str, Tensor], tokenizer: Path, target: Path) -> None:
    """Writes a folder in Hugging Face format: safetensors, label names, tokenizer.

    Args:
        model: The model as it was built, for its configuration.
        weights: What it learned.
        tokenizer: Folder of the tokenizer, copied as it is but for what it says of the machine it was made on.
        target: ``models/classifier``.
    """
    model.config._name_or_path = ""
    with replace_directory(target) as partial:
        model.save_pretrained(partial, state_dict=weights)
        for path in sorted(tokenizer.iterdir()):
            copy_tokenizer_file(path, partial / path.name)


def copy_tokenizer_file(path: Path, target: Path) -> None:
    """Copies one file; from the tokenizer's configuration, keys that name a place on this machine are left out."""
    if path.name != "tokenizer_config.json":
        shutil.copyfile(path, target)
        return
    values = json.loads(path.read_text(encoding="utf-8"))
    kept = {key: value for key, value in values.items() if key not in MACHINE_KEYS}
    target.write_text(json.dumps(kept, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def write_curve(path: Path, header: Sequence[str], rows: Iterable[Sequence[float]]) -> None:
    """Writes a TSV for ``dvc plots``, numbers with 6 significant digits."""
    with replace_file(path) as partial, partial.open("w", encoding="utf-8") as file:
        file.write("\t".join(header) + "\n")
        for row in rows:
            file.write("\t".join(f"{value:.6g}" if isinstance(value, float) else str(value) for value in row) + "\n")
