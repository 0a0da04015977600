"""Sessions of ONNX Runtime: load an exported model, compute logits, detect processors on which int8 products saturate."""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from tuneline.core.errors import StageError
from tuneline.core.machine import threads
from tuneline.model.batches import TokenizedRows, length_sorted_batches
from tuneline.onnx.records import exported_file

if TYPE_CHECKING:
    import onnx

SAFE_WEIGHT_BITS = 7
"""Bits of int8 weights whose products do not saturate on any processor, see ``stages.compare.saturation``."""


def session_options(
    intra_op_threads: int | None = None, exact_products: bool = False
) -> onnxruntime.SessionOptions:
    """Return the options of a session, by default with ``tuneline.core.machine.threads()`` for each operator.

    ``exact_products`` multiplies 8-bit weights on x86 processors without VNNI as unsigned numbers, which is
    slower but does not saturate.
    """
    options = onnxruntime.SessionOptions()
    if exact_products:
        options.add_session_config_entry("session.x64quantprecision", "1")
    options.intra_op_num_threads = intra_op_threads or threads()
    # Idle threads would otherwise spin for 40 ms after each batch and slow down the tokenizer or another
    # model.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    return options


class OnnxClassifier:
    """An ONNX model that computes logits of padded batches.

    ``exact_products`` is True if products of its 8-bit weights would saturate on this processor, so that the
    slower exact ones are used.
    """

    def __init__(self, path: Path, intra_op_threads: int | None = None) -> None:
        """Load a model."""
        onnxruntime.disable_telemetry_events()
        onnxruntime.set_default_logger_severity(3)  # hide warnings of its graph optimizer
        try:
            self._session = open_session(path, session_options(intra_op_threads))
            is_int8 = self.metadata.get("precision") == "int8"
            bits = json.loads(self.metadata.get("quantization", "{}")).get("weight_bits")
            self.exact_products = is_int8 and bits != SAFE_WEIGHT_BITS and processor_saturates()
            if self.exact_products:
                self._session = open_session(path, session_options(intra_op_threads, exact_products=True))
        except Exception as error:  # ONNX Runtime's errors have no common base class
            raise StageError(
                f"{path} cannot be loaded by ONNX Runtime: {error}", "Export it again: `dvc repro -f export`."
            ) from None
        self.inputs = tuple(value.name for value in self._session.get_inputs())

    @classmethod
    def exported(cls, path: Path, precision: str | None = None, threads: int | None = None) -> Self:
        """Load a model that ``export`` wrote, from its folder or file; see ``exported_file``, which refuses a damaged one."""
        return cls(exported_file(path, precision), threads)

    def logits(self, batch: Mapping[str, NDArray[np.int64]]) -> NDArray[np.float32]:
        """Compute the logits ``(rows, outputs)`` of one padded batch; inputs that the model does not have are ignored."""
        logits: NDArray[np.float32] = self._session.run(
            ["logits"], {name: batch[name] for name in self.inputs}
        )[0]
        return logits

    @property
    def metadata(self) -> dict[str, str]:
        """The record in the model's metadata, see ``stages.export.__main__``."""
        return dict(self._session.get_modelmeta().custom_metadata_map)


def open_session(model: Path | bytes, options: onnxruntime.SessionOptions) -> onnxruntime.InferenceSession:
    """Load a model, from its file or its bytes, on the CPU."""
    return onnxruntime.InferenceSession(
        str(model) if isinstance(model, Path) else model, options, providers=["CPUExecutionProvider"]
    )


@cache
def processor_saturates() -> bool:
    """Return True if sums of 8-bit products saturate in ONNX Runtime on this processor.

    It computes one product of the largest activations and weights and compares it with the exact value,
    because the instructions that a processor supports do not determine which kernel ONNX Runtime uses.
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
    model: onnx.ModelProto = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10
    )
    (sums,) = run_outputs(model, ["sums"], {"activations": np.full((1, inputs), 255, np.uint8)})
    return bool((sums != 255 * 127 * inputs).any())


def run_outputs(
    model: "onnx.ModelProto", names: Sequence[str], inputs: Mapping[str, NDArray[Any]]
) -> list[NDArray[Any]]:
    """Compute tensors of the graph of a model of at most 2 GB, including inner ones; inputs that it does not have are ignored."""
    import onnx

    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    known = {value.name for value in copy.graph.output}
    copy.graph.output.extend(
        onnx.ValueInfoProto(name=name) for name in dict.fromkeys(names) if name not in known
    )
    session = open_session(copy.SerializeToString(), session_options())
    read = {value.name for value in session.get_inputs()}
    outputs: list[NDArray[Any]] = session.run(
        list(names), {name: values for name, values in inputs.items() if name in read}
    )
    return outputs


def logits_of(
    model: OnnxClassifier,
    rows: TokenizedRows,
    pad_token_id: int,
    batch_size: int = 64,
    progress: str | None = None,
) -> NDArray[np.float32]:
    """Compute the logits ``(rows, outputs)`` of at least one row, in their order.

    Rows of similar length share a batch.
    """
    from tqdm import tqdm

    batches = length_sorted_batches(rows.lengths, batch_size)
    first = model.logits(rows.pad(batches[0], pad_token_id))
    logits = np.empty((len(rows), first.shape[1]), dtype=np.float32)
    logits[batches[0]] = first
    for batch in tqdm(batches[1:], desc=progress, unit="batch", disable=None if progress else True):
        logits[batch] = model.logits(rows.pad(batch, pad_token_id))
    return logits
