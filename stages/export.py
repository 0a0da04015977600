"""Turns the trained classifier into ONNX models.

Reads ``models/classifier``. Writes ``models/candidates/``: one model per precision, ``export.json``, and the
tokenizer, so that the folder serves on its own. They are candidates until the stage ``compare`` has found that
they predict what the trained model does; it publishes those that pass to ``models/onnx/``.
"""

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx
import pyarrow.parquet as pq

from stages.entry import require, run_stage
from stages.exporting.graph import to_onnx
from stages.exporting.quantization import to_dynamic_int8
from stages.outs import replace_directory, write_json
from stages.params import ExportParams
from stages.params.loading import load_params
from stages.paths import CANDIDATES, CLASSIFIER, TOKENIZED, split_file
from stages.tables import LABELS

FILES = {"fp32": "model.onnx", "fp16": "model.fp16.onnx", "int8": "model.int8.onnx"}
BESIDE = ("config.json", "tokenizer.json", "tokenizer_config.json")
"""Copied beside the models, so that the folder serves on its own."""


def export(params: ExportParams, classifier: Path, columns: Sequence[str]) -> dict[str, onnx.ModelProto]:
    """Makes the models.

    Args:
        params: Opset and precisions.
        classifier: Folder of the trained model.
        columns: The model inputs that the tokenized splits have.

    Returns:
        A model by precision.
    """
    from transformers import AutoModelForSequenceClassification

    model = AutoModelForSequenceClassification.from_pretrained(classifier, dtype="float32").eval()
    models = {"fp32": to_onnx(model, columns, params.opset)}
    if "int8" in params.precisions:
        models["int8"] = to_dynamic_int8(models["fp32"])
    return models


def write(models: Mapping[str, onnx.ModelProto], classifier: Path, folder: Path) -> None:
    """Fills a folder with the models, what is known of them, and the tokenizer."""
    for name in BESIDE:
        shutil.copyfile(require(classifier / name, "train"), folder / name)
    record: dict[str, Any] = {"models": {}}
    config = json.loads((classifier / "config.json").read_text(encoding="utf-8"))
    record["pad_token_id"] = config["pad_token_id"]
    record["labels"] = [config["id2label"][key] for key in sorted(config["id2label"], key=int)]
    for precision, model in models.items():
        path = folder / FILES[precision]
        path.write_bytes(model.SerializeToString(deterministic=True))
        record["models"][precision] = {"file": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    write_json(folder / "export.json", record)


def main() -> dict[str, float]:
    """Reads parameters and the trained model, exports, writes."""
    params = load_params()
    require(CLASSIFIER / "config.json", "train")
    columns = [name for name in pq.read_schema(require(split_file(TOKENIZED, "train"), "tokenize")).names if name != LABELS]
    models = export(params.export, CLASSIFIER, columns)
    with replace_directory(CANDIDATES) as folder:
        write(models, CLASSIFIER, folder)
    return {f"{precision}_mb": round(model.ByteSize() / 2**20, 2) for precision, model in models.items()}


if __name__ == "__main__":
    run_stage("export", main)
