"""The record of a model: how to use it, and its provenance. It is written to ``export.json`` and into each model's metadata.

Provenance is read from what ``dvc.yaml`` lists for the stage, so it is a function of the stage's inputs. It contains no time, no
path of the machine and no commit, because the commit is created after the model.
"""

import hashlib
import importlib.metadata
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx

from tuneline.errors import DataError, StageError
from tuneline.params import Params
from tuneline.params.loading import read_yaml
from tuneline.paths import METRICS, RAW, SPLITS, split_file
from tuneline.stage import require

FORMAT = 1
"""Version of the record. It increases when a key is removed or changes its meaning."""
PIPELINE = Path("dvc.yaml")
LIBRARIES = ("numpy", "onnx", "onnxruntime", "onnxscript", "tokenizers", "torch", "transformers")
CODE = ("stages", "tuneline")
"""Packages that contain the code of the pipeline."""


def usage_record(classifier: Path, text_columns: Sequence[str], max_length: int) -> dict[str, Any]:
    """Return what a program needs to use the model: task, label names, text columns, tokenizer, maximal length.

    Args:
        classifier: Folder of the trained model.
        text_columns: Names of the text columns, in their order.
        max_length: Maximal tokens of a row, special tokens included.
    """
    config = _read_json(classifier / "config.json")
    tokenizer = _read_json(classifier / "tokenizer_config.json")
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


def label_names(config: Mapping[str, Any]) -> list[str]:
    """Return the class names in the order of their ids."""
    names = config.get("id2label")
    if not names:
        raise DataError("models/classifier/config.json has no id2label.", "Train again: `dvc repro -f train`.")
    return [names[key] for key in sorted(names, key=int)]


def provenance_record(params: Params) -> dict[str, Any]:
    """Return the provenance of the model: data, parameters, code, library versions, and metrics of the reported split."""
    code, keys = listed_inputs(PIPELINE, "export")
    return {
        "data": data_record(RAW, SPLITS),
        "parameters": parameters_record(select(params.model_dump(mode="json", by_alias=True), keys)),
        "code": {"sha256": code_hash(code)},
        "libraries": library_versions(),
        "metrics": {"split": params.evaluate.split, **_read_json(require(METRICS / "evaluate.json", "evaluate"))},
    }


def listed_inputs(pipeline: Path, stage: str) -> tuple[list[Path], list[str]]:
    """Return the paths of code and the parameter keys that ``dvc.yaml`` lists for a stage."""
    block = read_yaml(pipeline)["stages"][stage]
    code = [Path(dep) for dep in block["deps"] if Path(dep).parts[0] in CODE]
    return code, list(block["params"])


def data_record(folder: Path, splits: Sequence[str]) -> dict[str, Any]:
    """Return the source of the raw splits and the SHA-256 of each."""
    source = folder / "source.json"
    return {
        "source": _read_json(source) if source.exists() else None,
        "sha256": {split: file_hash(split_file(folder, split)) for split in splits},
    }


def select(values: Mapping[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    """Return the values of dotted keys in nested parameters, sorted by key."""
    selected = {}
    for key in sorted(keys):
        value: Any = values
        for name in key.split("."):
            value = value[name]
        selected[key] = value
    return selected


def parameters_record(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters with one SHA-256 over all of them."""
    text = json.dumps(values, sort_keys=True, ensure_ascii=False)
    return {"sha256": hashlib.sha256(text.encode()).hexdigest(), "values": dict(values)}


def code_hash(paths: Sequence[Path]) -> str:
    """Return one SHA-256 over the names and bytes of Python files, also those inside folders, in the order of their names.

    Raises:
        StageError: A path does not exist.
    """
    for path in paths:
        if not path.exists():
            raise StageError(f"dvc.yaml lists {path} in deps of export, but it does not exist.", "Correct the path, or remove it.")
    files = {file for path in paths for file in (path.rglob("*.py") if path.is_dir() else [path])}
    lines = [f"{file_hash(file)}  {file.as_posix()}\n" for file in sorted(files)]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def library_versions() -> dict[str, str]:
    """Return the versions of the libraries that the model depends on, without build tags such as ``+cpu``."""
    return {name: importlib.metadata.version(name).partition("+")[0] for name in LIBRARIES}


def embed(model: onnx.ModelProto, record: Mapping[str, Any]) -> None:
    """Write a record into the model's metadata: strings unchanged, all other values as JSON."""
    del model.metadata_props[:]
    for key, value in record.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
        model.metadata_props.add(key=key, value=text)


def _read_json(path: Path) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return values
