"""What made a model: hashes of data, parameters and code, versions of libraries, the metric.

Everything is read from what ``dvc.yaml`` lists for the stage, so it is a function of the stage's inputs: no clock, no
commit (the commit comes later than the model), no path of the machine.
"""

import hashlib
import importlib.metadata
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tuneline.errors import StageError
from tuneline.params.loading import read_yaml

LIBRARIES = ("numpy", "onnx", "onnxruntime", "onnxscript", "tokenizers", "torch", "transformers")
CODE = ("stages", "tuneline")
"""The packages whose files are the line's code."""


def declared(graph: Path, stage: str) -> tuple[list[Path], list[str]]:
    """The code and the parameter keys that ``dvc.yaml`` lists for a stage."""
    block = read_yaml(graph)["stages"][stage]
    code = [Path(dep) for dep in block["deps"] if Path(dep).parts[0] in CODE]
    return code, list(block["params"])


def file_hash(path: Path) -> str:
    """SHA-256 of a file's bytes, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def code_hash(paths: Sequence[Path]) -> str:
    """One SHA-256 over Python files, and over those inside folders: their names and their bytes, in the order of the names.

    Raises:
        StageError: One of the paths is not there.
    """
    for path in paths:
        if not path.exists():
            raise StageError(f"dvc.yaml lists {path} among the code that makes a model, and it is not there.", "Mend deps of export.")
    files = {file for path in paths for file in (path.rglob("*.py") if path.is_dir() else [path])}
    lines = [f"{file_hash(file)}  {file.as_posix()}\n" for file in sorted(files)]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def chosen(values: Mapping[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    """The values of dotted keys in nested parameters."""
    picked = {}
    for key in sorted(keys):
        value: Any = values
        for name in key.split("."):
            value = value[name]
        picked[key] = value
    return picked


def parameters_record(values: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters, and one SHA-256 over them."""
    text = json.dumps(values, sort_keys=True, ensure_ascii=False)
    return {"sha256": hashlib.sha256(text.encode()).hexdigest(), "values": dict(values)}


def data_record(folder: Path, splits: Sequence[str]) -> dict[str, Any]:
    """Where the raw splits came from, and the SHA-256 of each."""
    source = folder / "source.json"
    return {
        "source": json.loads(source.read_text(encoding="utf-8")) if source.exists() else None,
        "sha256": {split: file_hash(folder / f"{split}.parquet") for split in splits},
    }


def library_versions() -> dict[str, str]:
    """Versions of the libraries that made the model. A build's own mark (``+cpu``) is left out."""
    return {name: importlib.metadata.version(name).partition("+")[0] for name in LIBRARIES}
