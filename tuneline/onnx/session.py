"""Sessions of ONNX Runtime: load an exported model and compute logits.

8-bit products saturate on some processors; the session detects them, and multiplies there in another way.
"""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from tuneline.core.machine import threads
from tuneline.model.batches import TokenizedRows, compute_by_length
from tuneline.onnx.usage import exported_file
from tuneline.runtime.errors import StageError

if TYPE_CHECKING:
    import onnx

SAFE_WEIGHT_BITS = 7
"""Bits of int8 weights whose products do not saturate on any processor, see ``stages.compare.saturation``."""


def session_options(
    intra_op_threads: int | None = None, exact_products: bool = False
) -> onnxruntime.SessionOptions:
    """Return the options of a session.

    Args:
        intra_op_threads: Threads for each operator; ``None`` for ``tuneline.core.machine.threads()``.
        exact_products: Multiply 8-bit weights on x86 processors without VNNI as unsigned numbers, which is
            slower but does not saturate.
    """
    options = onnxruntime.SessionOptions()
    if exact_products:
        options.add_session_config_entry("session.x64quantprecision", "1")
    options.intra_op_num_threads = intra_op_threads or threads()
    # Idle threads would otherwise spin for 40 ms after each batch and slow down the tokenizer or another
    # model.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    # A plan of the memory is kept for each shape of a batch, of which there are as many as batches: it grows,
    # and is no faster (docs/benchmarks.md).
    options.enable_mem_pattern = False
    return options


class OnnxClassifier:
    """An ONNX model that computes logits of padded batches.

    ``exact_products`` is True if products of its 8-bit weights would saturate on this processor, so that the
    slower exact ones are used.
    """

    def __init__(self, path: Path, intra_op_threads: int | None = None) -> None:
        """Load a model; a ``StageError`` names a file that ONNX Runtime cannot load."""
        onnxruntime.disable_telemetry_events()
        onnxruntime.set_default_logger_severity(3)  # hide warnings of its graph optimizer
        try:
            # The metadata says whether the weights are 8-bit, and only a session reads it. So the model is
            # loaded a second time where its products would saturate.
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
        """Load a model that ``export`` wrote, from its folder or file.

        ``exported_file`` refuses a damaged one.
        """
        return cls(exported_file(path, precision), threads)

    def logits(self, batch: Mapping[str, NDArray[np.int64]]) -> NDArray[np.float32]:
        """Compute the logits of one padded batch.

        Args:
            batch: Arrays ``(rows, tokens)`` by name; those that are no input of the model are ignored.

        Returns:
            Logits of shape ``(rows, outputs)``.
        """
        inputs = {name: batch[name] for name in self.inputs}
        logits: NDArray[np.float32]
        (logits,) = self._session.run(["logits"], inputs)
        return logits

    @property
    def metadata(self) -> dict[str, str]:
        """The record in the model's metadata, see ``stages.export.__main__``."""
        return dict(self._session.get_modelmeta().custom_metadata_map)


def open_session(model: Path | bytes, options: onnxruntime.SessionOptions) -> onnxruntime.InferenceSession:
    """Load a model, from its file or its bytes, on the CPU."""
    source = str(model) if isinstance(model, Path) else model
    return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


@cache
def processor_saturates() -> bool:
    """Return True if sums of 8-bit products saturate in ONNX Runtime on this processor.

    It computes one product of the largest activations and weights and compares it with the exact value,
    because the instructions that a processor supports do not determine which kernel ONNX Runtime uses.
    """
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    # A graph of one product: weights of 127, the largest 8-bit integer
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

    largest_activations = np.full((1, inputs), 255, np.uint8)
    (sums,) = run_outputs(model, ["sums"], {"activations": largest_activations})
    return bool((sums != 255 * 127 * inputs).any())


def run_outputs(
    model: "onnx.ModelProto", names: Sequence[str], inputs: Mapping[str, NDArray[Any]]
) -> list[NDArray[Any]]:
    """Compute tensors of the graph of a model, including inner ones.

    Args:
        model: A model of at most 2 GB.
        names: Names of the tensors, in the order of the result.
        inputs: Arrays by name; those that are no input of the model are ignored.
    """
    import onnx

    # ONNX Runtime returns the outputs of a graph only, so the inner tensors become outputs of a copy.
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    output_names = {value.name for value in copy.graph.output}
    for name in names:
        if name not in output_names:
            copy.graph.output.append(onnx.ValueInfoProto(name=name))
            output_names.add(name)

    session = open_session(copy.SerializeToString(), session_options())
    input_names = {value.name for value in session.get_inputs()}
    own_inputs = {name: values for name, values in inputs.items() if name in input_names}
    outputs: list[NDArray[Any]] = session.run(list(names), own_inputs)
    return outputs


def logits_of(
    model: OnnxClassifier,
    rows: TokenizedRows,
    outputs: int,
    pad_token_id: int,
    batch_size: int = 64,
    *,
    title: str | None = None,
) -> NDArray[np.float32]:
    """Compute the logits of tokenized rows.

    Args:
        model: The model.
        rows: The rows.
        outputs: Number of logits of a row.
        pad_token_id: Token id that fills the shorter rows of a batch.
        batch_size: Rows of a forward pass at most, or windows of rows; rows of similar length share one. The
            windows of a row are not separated.
        title: Title of a progress bar; ``None`` for no bar.

    Returns:
        Logits of shape ``(rows, outputs)``, in the order of the rows.
    """

    def compute(batch: NDArray[np.int64]) -> NDArray[np.float32]:
        return rows.answers(model.logits(rows.pad(batch, pad_token_id)), batch)

    logits = np.empty((len(rows), outputs), dtype=np.float32)
    return compute_by_length(compute, rows.lengths, batch_size, logits, title, windows=rows.window_counts)
