"""ONNX models as files: one file each, and a second one beside it only where the first would pass 2 GB."""

from pathlib import Path

import onnx

ONE_FILE = 2**31 - 2**20
"""Bytes of weights that still go into the model's own file: protobuf ends at 2 GB, and the graph wants a little of that."""


def weight_bytes(model: onnx.ModelProto) -> int:
    """Bytes of the weights, which is the model's size but for the graph itself."""
    return sum(len(initializer.raw_data) for initializer in model.graph.initializer)


def save(model: onnx.ModelProto, path: Path, one_file: int = ONE_FILE) -> list[Path]:
    """Writes a model: the same model gives the same bytes.

    Args:
        model: It is not changed.
        path: Where to.
        one_file: Above so many bytes of weights, they go to ``path`` with ``.data`` added, which must stay beside it.

    Returns:
        The files written, the model first.
    """
    if weight_bytes(model) <= one_file:
        path.write_bytes(model.SerializeToString(deterministic=True))
        return [path]
    data = path.with_name(f"{path.name}.data")
    copy = onnx.ModelProto()
    copy.CopyFrom(model)  # saving moves the weights out of the object it is given
    onnx.save_model(copy, path, save_as_external_data=True, all_tensors_to_one_file=True, location=data.name)
    return [path, data]


def load(path: Path) -> onnx.ModelProto:
    """Reads a model with its weights, wherever they are."""
    return onnx.load(path, load_external_data=True)
