"""An exported model, loaded and ready to be asked."""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from tuneline.batches import TokenizedRows, length_sorted_batches
from tuneline.errors import StageError

if TYPE_CHECKING:
    import onnx

SAFE_WEIGHT_BITS = 7
"""Weights that cannot saturate on any processor (``stages.compare.saturation``)."""


def threads() -> int:
    """Cores that this process may use: ``OMP_NUM_THREADS`` where it is set, else those it is allowed to run on."""
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    return int(wanted) if wanted.isdigit() and int(wanted) > 0 else len(os.sched_getaffinity(0))


def session_options(intra_op_threads: int | None = None, exact_products: bool = False) -> onnxruntime.SessionOptions:
    """How a model is run.

    Args:
        intra_op_threads: Threads inside one operator; ``None`` for ``threads()``.
        exact_products: On x86 processors without VNNI, multiply 8-bit weights as unsigned numbers: slower, and never clipped.
    """
    options = onnxruntime.SessionOptions()
    if exact_products:
        options.add_session_config_entry("session.x64quantprecision", "1")
    options.intra_op_num_threads = intra_op_threads or threads()
    # Otherwise they keep a core busy for 40 ms after each batch, which whoever comes next (a tokenizer, another model) pays for.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    return options


class OnnxClassifier:
    """An ONNX model that turns padded batches into logits.

    Attributes:
        inputs: Names of the arrays it reads.
        exact_products: True if its 8-bit weights would saturate on this processor, and the slower exact products are used instead.
    """

    def __init__(self, path: Path, intra_op_threads: int | None = None) -> None:
        """Loads ``path``.

        Args:
            path: The model.
            intra_op_threads: Threads inside one operator; ``None`` for ``threads()``.

        Raises:
            StageError: The file cannot be loaded.
        """
        onnxruntime.disable_telemetry_events()
        onnxruntime.set_default_logger_severity(3)  # its warnings are about its own optimizer
        try:
            self._session = open_session(path, session_options(intra_op_threads))
            self.exact_products = may_saturate(self.metadata) and processor_saturates()
            if self.exact_products:
                self._session = open_session(path, session_options(intra_op_threads, exact_products=True))
        except Exception as error:  # ONNX Runtime's errors have no common base of their own
            raise StageError(f"{path} cannot be loaded by ONNX Runtime: {error}", "Export it again: `dvc repro -f export`.") from None
        self.inputs = tuple(given.name for given in self._session.get_inputs())

    def logits(self, batch: Mapping[str, NDArray[np.int64]]) -> NDArray[np.float32]:
        """Runs one padded batch.

        Args:
            batch: int64 of shape ``[rows, tokens]`` by name; arrays that the model does not read are left out.

        Returns:
            float32 of shape ``[rows, outputs]``.
        """
        fed = {name: batch[name] for name in self.inputs}
        logits: NDArray[np.float32] = self._session.run(["logits"], fed)[0]
        return logits

    @property
    def metadata(self) -> dict[str, str]:
        """What the model says of itself."""
        return dict(self._session.get_modelmeta().custom_metadata_map)


def open_session(model: Path | bytes, options: onnxruntime.SessionOptions) -> onnxruntime.InferenceSession:
    """Load a model, from its file or its bytes, on the CPU."""
    return onnxruntime.InferenceSession(str(model) if isinstance(model, Path) else model, options, providers=["CPUExecutionProvider"])


def may_saturate(metadata: Mapping[str, str]) -> bool:
    """Return True if a model's metadata says int8 and does not say that its weights have 7 bits."""
    quantization = json.loads(metadata.get("quantization", "{}"))
    return metadata.get("precision") == "int8" and quantization.get("weight_bits") != SAFE_WEIGHT_BITS


@cache
def processor_saturates() -> bool:
    """Return True if ONNX Runtime clips sums of 8-bit products on this processor.

    One product of the largest activations and weights is computed and compared with its exact value: the instructions that a
    processor lists do not say which kernel ONNX Runtime takes.
    """
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    inputs, outputs = 64, 16
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["activations", "weights"], ["sums"])],
        "probe",
        [helper.make_tensor_value_info("activations", TensorProto.UINT8, [1, inputs])],
        [helper.make_tensor_value_info("sums", TensorProto.INT32, [1, outputs])],
        [numpy_helper.from_array(np.full((inputs, outputs), 127, np.int8), "weights")],
    )
    model: onnx.ModelProto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    (sums,) = run_outputs(model, ["sums"], {"activations": np.full((1, inputs), 255, np.uint8)})
    return bool((sums != 255 * 127 * inputs).any())


def run_outputs(model: "onnx.ModelProto", names: Sequence[str], inputs: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
    """Return tensors that a model computes, inner ones too.

    Args:
        model: At most 2 GB. It is not changed.
        names: Names of tensors in its graph.
        inputs: Arrays by name; those that it does not read are left out.
    """
    import onnx

    widened = onnx.ModelProto()
    widened.CopyFrom(model)
    known = {value.name for value in widened.graph.output}
    widened.graph.output.extend(onnx.ValueInfoProto(name=name) for name in dict.fromkeys(names) if name not in known)
    session = open_session(widened.SerializeToString(), session_options())
    read = {given.name for given in session.get_inputs()}
    found: list[NDArray[Any]] = session.run(list(names), {name: values for name, values in inputs.items() if name in read})
    return found


def logits_of(
    model: OnnxClassifier, rows: TokenizedRows, pad_token_id: int, batch_size: int = 64, progress: str | None = None
) -> NDArray[np.float32]:
    """Logits of some rows, in their order; rows of like length share a batch.

    Args:
        model: The model.
        rows: At least one.
        pad_token_id: Of the tokenizer.
        batch_size: Rows in a batch.
        progress: A name for a progress bar; ``None`` for no bar.

    Returns:
        float32 of shape ``[rows, outputs]``.
    """
    batches = length_sorted_batches(rows.lengths, batch_size)
    first = model.logits(rows.pad(batches[0], pad_token_id))
    logits = np.empty((len(rows), first.shape[1]), dtype=np.float32)
    logits[batches[0]] = first
    for batch in _shown(batches[1:], progress):
        logits[batch] = model.logits(rows.pad(batch, pad_token_id))
    return logits


def _shown(batches: Sequence[NDArray[np.int64]], progress: str | None) -> Iterable[NDArray[np.int64]]:
    if progress is None:
        return batches
    from tqdm import tqdm

    bar: Iterable[NDArray[np.int64]] = tqdm(batches, desc=progress, unit="batch", disable=None)
    return bar
