"""What a model's user must know of it: in ``export.json`` for people and programs, and inside each model for when it travels alone."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx

from stages.export.provenance import file_hash
from tuneline.errors import DataError

FORMAT = 1
"""Raised when a key changes its meaning or goes."""


def use_record(classifier: Path, text_columns: Sequence[str], max_length: int) -> dict[str, Any]:
    """How the model is used: task, label names, columns, tokenizer, length.

    Args:
        classifier: Folder of the trained model.
        text_columns: The columns that are its text, in their order.
        max_length: Tokens it reads of a row, special ones included.
    """
    config = _read(classifier / "config.json")
    tokenizer = _read(classifier / "tokenizer_config.json")
    regression = config.get("problem_type") == "regression"
    return {
        "format": FORMAT,
        "task": "regression" if regression else "classification",
        "labels": None if regression else label_names(config),
        "text_columns": list(text_columns),
        "max_length": max_length,
        "pad_token_id": config.get("pad_token_id") or 0,
        "tokenizer": {
            "file": "tokenizer.json",
            "sha256": file_hash(classifier / "tokenizer.json"),
            "truncation_side": tokenizer.get("truncation_side", "right"),
        },
        "architecture": config["model_type"],
    }


def _read(path: Path) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return values


def label_names(config: Mapping[str, Any]) -> list[str]:
    """Class names in the order of their ids."""
    names = config.get("id2label")
    if not names:
        raise DataError("models/classifier/config.json has no id2label.", "Train again: `dvc repro -f train`.")
    return [names[key] for key in sorted(names, key=int)]


def embed(model: onnx.ModelProto, record: Mapping[str, Any]) -> None:
    """Writes a record into the model's own metadata: text as it is, everything else as JSON."""
    del model.metadata_props[:]
    for key, value in record.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
        model.metadata_props.add(key=key, value=text)
