"""Models of the same labels whose answers tell them apart: the logits of each are another multiple."""

import hashlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from tuneline.onnx.usage import EXPORT_RECORD
from tuneline.serve.text_classifier import TextClassifier


@dataclass(frozen=True)
class ModelVersion:
    """A version that is put into the folder.

    Attributes:
        folder: Its files.
        name: What answers name as their version.
        scores: Its scores of each row, each computed alone, ``(rows, classes)``.
    """

    folder: Path
    name: str
    scores: NDArray[np.float64]


def write_versions(
    source: Path, target: Path, rows: Sequence[tuple[str, ...]], count: int
) -> list[ModelVersion]:
    """Write so many versions of the fp32 model of ``source`` below ``target``, and predict rows with each."""
    versions = []
    for number in range(count):
        folder = target / str(number)
        write_version(source, folder, 1 + number / count)
        model = TextClassifier.load(folder)
        predictions = [model.predict_one(row) for row in rows]
        scores = np.array([list(prediction.scores.values()) for prediction in predictions])
        versions.append(ModelVersion(folder, model.version, scores))
    return versions


def write_version(source: Path, folder: Path, factor: float) -> None:
    """Write a copy of exported models, with only fp32 whose logits are multiplied."""
    shutil.copytree(source, folder)
    record = json.loads((folder / EXPORT_RECORD).read_text(encoding="utf-8"))
    fp32 = record["models"]["fp32"]
    file = folder / fp32["file"]

    # a last product
    model = onnx.load(file)
    (output,) = model.graph.output
    for node in model.graph.node:
        node.output[:] = ["plain_logits" if name == output.name else name for name in node.output]
    model.graph.initializer.append(numpy_helper.from_array(np.float32(factor), "factor"))
    model.graph.node.append(helper.make_node("Mul", ["plain_logits", "factor"], [output.name]))
    onnx.save(model, file)

    # the record of it
    content = file.read_bytes()
    fp32["bytes"] = len(content)
    fp32["sha256"] = {file.name: hashlib.sha256(content).hexdigest()}
    if "probe_outputs" in fp32:
        fp32["probe_outputs"] = (np.array(fp32["probe_outputs"]) * factor).round(6).tolist()
    record["models"] = {"fp32": fp32}
    (folder / EXPORT_RECORD).write_text(json.dumps(record, indent=2), encoding="utf-8")
