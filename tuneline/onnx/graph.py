"""Conversion of the trained model to an ONNX graph with dynamic batch size and sequence length.

The graph is traced by torch's exporter, then rewritten to compute nothing for padding. The rewriting is used
only if the logits on a few rows stay as the trained model computes them; the stage ``compare`` later checks
the whole reported split.
"""

import inspect
import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from tuneline.core.runtime.errors import StageError
from tuneline.core.runtime.files import temporary_directory
from tuneline.model.tokens.batches import Batch
from tuneline.onnx.session import OnnxClassifier

if TYPE_CHECKING:
    import torch

    from tuneline.model.linear.pooled_classifier import TrainedModel

PRODUCER = "tuneline"
ONE_FILE = 2**31 - 2**20
"""Maximal bytes of weights in the model's own file: protobuf's limit is 2 GB, and the graph needs a part."""


def input_names(model: onnx.ModelProto) -> list[str]:
    """Return the names of the inputs of a model, in their order."""
    return [value.name for value in model.graph.input]


def weight_bytes(model: onnx.ModelProto) -> int:
    """Return the size of the weights in bytes."""
    return sum(len(initializer.raw_data) for initializer in model.graph.initializer)


def save_model(model: onnx.ModelProto, path: Path, one_file: int = ONE_FILE) -> list[Path]:
    """Write a model, which does not change, and return the files written, the model first.

    The same model gives the same bytes. Weights of more than ``one_file`` bytes go to ``path`` with ``.data``
    added, which must stay beside it.
    """
    if weight_bytes(model) <= one_file:
        path.write_bytes(model.SerializeToString(deterministic=True))
        return [path]
    data = path.with_name(f"{path.name}.data")
    copy = onnx.ModelProto()
    copy.CopyFrom(model)  # onnx.save_model moves the weights out of the model it is given
    onnx.save_model(copy, path, save_as_external_data=True, all_tensors_to_one_file=True, location=data.name)
    return [path, data]


def clean_graph(model: onnx.ModelProto) -> onnx.ModelProto:
    """Remove traces of the exporter from a model, in place, and return it.

    Removed are: documentation strings; metadata of nodes and values, where the exporter stores file names and
    stack traces; inferred shapes of inner values, which break the quantizer.
    """
    graph = model.graph
    del graph.value_info[:]
    graph.name = PRODUCER
    model.domain = ""
    model.producer_name = PRODUCER
    model.producer_version = ""
    parts: list[Any] = [model, graph]
    for group in (graph.node, graph.initializer, graph.input, graph.output, model.functions):
        parts += group
    for function in model.functions:
        parts += function.node
    for part in parts:
        del part.metadata_props[:]
        part.doc_string = ""
    return model


BATCH = "batch"
SEQUENCE = "sequence"
Dims = list[int | str]


@dataclass(frozen=True)
class ShapedGraph:
    """A graph, its constants, and the shapes of its values: numbers, and names of dynamic dimensions."""

    graph: onnx.GraphProto
    shapes: dict[str, Dims]
    constants: dict[str, onnx.TensorProto]

    @classmethod
    def read(cls, graph: onnx.GraphProto) -> "ShapedGraph":
        """Read shapes and constants from a graph as the exporter writes it."""
        shapes: dict[str, Dims] = {}
        for values in (graph.input, graph.value_info, graph.output):
            for value in values:
                dims = value.type.tensor_type.shape.dim
                shapes[value.name] = [dim.dim_param or dim.dim_value for dim in dims]
        constants = {}
        for tensor in graph.initializer:
            constants[tensor.name] = tensor
            shapes[tensor.name] = list(tensor.dims)
        return cls(graph, shapes, constants)

    def is_per_token(self, name: str) -> bool:
        """Return True if a value has one vector per token: shape ``(batch, sequence, n)`` with n > 1.

        With n = 1 it is a mask.
        """
        dims = self.shapes.get(name, [])
        if len(dims) != 3 or dims[:2] != [BATCH, SEQUENCE]:
            return False
        return isinstance(dims[2], int) and dims[2] > 1

    def add_constant(self, name: str, value: int | Sequence[int]) -> str:
        """Add an int64 constant to the graph unless it has one of that name, and return the name."""
        if name not in self.constants:
            self.constants[name] = numpy_helper.from_array(np.array(value, dtype=np.int64), name)
            self.graph.initializer.append(self.constants[name])
        return name

    def replace_nodes(self, nodes: Sequence[onnx.NodeProto]) -> None:
        """Replace all nodes of the graph."""
        del self.graph.node[:]
        self.graph.node.extend(nodes)


def int_attribute(node: onnx.NodeProto, name: str, default: int) -> int:
    """Return an integer attribute of a node, or a default if it has none of this name."""
    for attribute in node.attribute:
        if attribute.name == name:
            return int(attribute.i)
    return default


MASK = "attention_mask"
PER_TOKEN = frozenset(
    (
        "Add",
        "Cast",
        "Div",
        "Erf",
        "Gelu",
        "LayerNormalization",
        "MatMul",
        "Mul",
        "Relu",
        "Sigmoid",
        "Split",
        "Sub",
        "Tanh",
    )
)
"""Operators that may treat tokens independently."""
REAL_TOKENS = "real_tokens"
LIST_INDEX = "places_of_tokens"
"""Names of the two index tensors in the graph, see ``_index_nodes``."""
CONSTANTS: dict[str, int | list[int]] = {
    "padding_axis": 0,
    "padding_end": [2**31],
    "padding_front": [0, 1, 0, 0],
    "padding_list": [-1],
    "padding_one": [1],
    "padding_real": 1,
}


def skip_padding(shaped: ShapedGraph) -> None:
    """Let a graph, in place, compute what treats tokens independently only for real tokens, in one list.

    The graph does not change if it has no mask or no linear layer over tokens.
    """
    per_token = _per_token_nodes(shaped)
    has_mask = any(value.name == MASK for value in shaped.graph.input)
    if not has_mask or not per_token:
        return
    listed: set[str] = set()
    for node_index in per_token:
        listed.update(shaped.graph.node[node_index].output)

    nodes = _index_nodes(shaped)
    converted: set[str] = set()
    for node_index, node in enumerate(shaped.graph.node):
        in_list = node_index in per_token
        for input_index, name in enumerate(node.input):
            if in_list and shaped.is_per_token(name) and name not in listed:
                # from the padded batch to the list
                conversion = _gather_nodes(name, shaped)
                node.input[input_index] = f"{name}_real"
            elif not in_list and name in listed:
                # from the list to the padded batch
                conversion = [_node("Gather", [name, LIST_INDEX], f"{name}_placed", axis=0)]
                node.input[input_index] = f"{name}_placed"
            else:
                continue
            if name not in converted:  # once for all nodes that read it
                nodes += conversion
                converted.add(name)
        if in_list:
            _adjust_axis(node)
        nodes.append(node)
    shaped.replace_nodes(nodes)


def _per_token_nodes(shaped: ShapedGraph) -> set[int]:
    """Return the indices of the nodes that treat tokens independently, from the first linear layer on."""
    indices: set[int] = set()
    outputs: set[str] = set()
    for node_index, node in enumerate(shaped.graph.node):
        follows = node.op_type == "MatMul" or not outputs.isdisjoint(node.input)
        if follows and _is_per_token(node, shaped):
            indices.add(node_index)
            outputs.update(node.output)

    # an output of the graph has to stay a padded batch
    if any(value.name in outputs for value in shaped.graph.output):
        return set()
    return indices


def _is_per_token(node: onnx.NodeProto, shaped: ShapedGraph) -> bool:
    """Return True if a node computes each token's vector from the vector of this token and from weights."""
    if node.op_type not in PER_TOKEN:
        return False
    for name in node.output:
        if not shaped.is_per_token(name):
            return False
    if node.op_type == "MatMul":
        first, second = node.input
        return shaped.is_per_token(first) and second in shaped.constants and len(shaped.shapes[second]) == 2
    for name in node.input:
        is_vector = name in shaped.constants and len(shaped.shapes[name]) <= 1
        if not is_vector and not shaped.is_per_token(name):
            return False
    return True


def _index_nodes(shaped: ShapedGraph) -> list[onnx.NodeProto]:
    """Create the nodes that compute the two index tensors from the mask.

    ``REAL_TOKENS``, shape ``(tokens,)``: positions of the real tokens in the flattened batch. ``LIST_INDEX``,
    shape ``(batch, sequence)``: index in the list of real tokens for each position; at padding, the index of
    the last real token before it. The first position of a row counts as real even if it is masked, because
    the classifier reads it.
    """
    for name, value in CONSTANTS.items():
        shaped.add_constant(name, value)
    return [
        # the flat mask, with 1 in the first position of each row
        _node("Slice", [MASK, "padding_one", "padding_end", "padding_one"], "mask_of_others"),
        _node("Pad", ["mask_of_others", "padding_front", "padding_real"], "mask_of_real"),
        _node("Reshape", ["mask_of_real", "padding_list"], "mask_list"),
        # its positions that are not 0
        _node("NonZero", ["mask_list"], "real_tokens_row"),
        _node("Reshape", ["real_tokens_row", "padding_list"], REAL_TOKENS),
        # the number of real tokens up to each position, less 1
        _node("CumSum", ["mask_list", "padding_axis"], "tokens_so_far"),
        _node("Sub", ["tokens_so_far", "padding_one"], "token_numbers"),
        _node("Shape", [MASK], "mask_shape"),
        _node("Reshape", ["token_numbers", "mask_shape"], LIST_INDEX),
    ]


def _gather_nodes(name: str, shaped: ShapedGraph) -> list[onnx.NodeProto]:
    """Create the nodes that list the vectors of the real tokens of a value, shape ``(tokens, hidden)``."""
    hidden = int(shaped.shapes[name][2])
    target = shaped.add_constant(f"list_of_{hidden}", [-1, hidden])
    return [
        _node("Reshape", [name, target], f"{name}_list"),
        _node("Gather", [f"{name}_list", REAL_TOKENS], f"{name}_real", axis=0),
    ]


def _node(op_type: str, inputs: list[str], output: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op_type, inputs, [output], name=f"node_{output}", **attributes)


def _adjust_axis(node: onnx.NodeProto) -> None:
    """Make the axis of a node count from the end: the list of tokens has one axis less at the start."""
    if node.op_type in {"LayerNormalization", "Split"} and int_attribute(node, "axis", -1) > 0:
        for attribute in node.attribute:
            if attribute.name == "axis":
                attribute.i -= 3  # values per token have three axes


LOGITS = "logits"
TEST_LENGTHS = (8, 5, 2)
"""Tokens of the rows that are traced, and on which a rewritten graph is tested.

Dimensions of 0 or 1 would be traced as constants.
"""
TOLERANCE = 1e-4
"""Absolute and relative tolerance of logits.

It is far above rounding errors, and far below the effect of reading padding.
"""


def to_onnx(model: "TrainedModel", columns: Sequence[str], opset: int) -> onnx.ModelProto:
    """Convert a classifier in evaluation mode, on the CPU, to an ONNX graph.

    The output is ``logits``, shape ``(batch, outputs)``. The graph has no traces of this machine.

    Raises:
        StageError: ONNX Runtime cannot run the graph that the exporter writes for this model and opset.
    """
    # inputs in the order in which the model takes them
    names = []
    for name in inspect.signature(model.forward).parameters:
        if name in columns:
            names.append(name)

    traced = trace(model, names, opset)
    faster = onnx.ModelProto()
    faster.CopyFrom(traced)
    skip_padding(ShapedGraph.read(faster.graph))
    clean_graph(faster)
    if same_logits(faster, model, names):
        return faster

    plain = clean_graph(traced)
    if onnx_logits(plain, random_batch(model)) is None:
        raise StageError(
            f"ONNX Runtime cannot run this model at opset {opset}.",
            "Set export.opset to another version: 20 suits most models.",
        )
    return plain


def trace(model: "TrainedModel", names: Sequence[str], opset: int) -> onnx.ModelProto:
    """Return the graph as the exporter writes it, with the shapes of all values."""
    import torch

    example = tensors(model, names)
    # any number of rows and tokens
    shape = {0: torch.export.Dim(BATCH), 1: torch.export.Dim(SEQUENCE)}
    with torch.no_grad(), quiet():
        program = torch.onnx.export(
            model,
            (),
            kwargs=example,
            dynamo=True,
            opset_version=opset,
            dynamic_shapes=dict.fromkeys(example, shape),
            input_names=list(example),
            output_names=[LOGITS],
            verbose=False,
        )
    if program is None:
        raise RuntimeError("torch.onnx.export returned nothing")
    traced: onnx.ModelProto = program.model_proto
    return traced


def same_logits(graph: onnx.ModelProto, model: "TrainedModel", names: Sequence[str]) -> bool:
    """Return True if graph and model give the same logits on random padded rows."""
    import torch

    with torch.inference_mode():
        expected = model(**tensors(model, names)).logits.numpy()
    logits = onnx_logits(graph, random_batch(model))
    return logits is not None and np.allclose(logits, expected, atol=TOLERANCE, rtol=TOLERANCE)


def onnx_logits(graph: onnx.ModelProto, batch: Batch) -> NDArray[np.float32] | None:
    """Run a graph with ONNX Runtime and return the logits; ``None`` if it cannot run the graph."""
    with temporary_directory() as folder:
        path = folder / "model.onnx"
        save_model(graph, path)
        try:
            return OnnxClassifier(path).logits(batch)
        except Exception:  # ONNX Runtime's errors have no common base class
            return None


def random_batch(model: "TrainedModel") -> Batch:
    """Return random rows of ``TEST_LENGTHS`` tokens, padded on the right."""
    positions = np.arange(max(TEST_LENGTHS))
    lengths = np.array(TEST_LENGTHS)[:, np.newaxis]
    mask = (positions < lengths).astype(np.int64)
    padding = model.config.pad_token_id or 0
    ids = np.random.default_rng(0).integers(0, model.config.vocab_size, mask.shape)
    return {
        "input_ids": np.where(mask == 1, ids, padding),
        "attention_mask": mask,
        "token_type_ids": np.zeros_like(mask),
    }


def tensors(model: "TrainedModel", names: Sequence[str]) -> "dict[str, torch.Tensor]":
    """Return inputs of ``random_batch`` by name."""
    import torch

    # each a tensor of its own: the tracer would merge inputs that share one
    batch = random_batch(model)
    return {name: torch.from_numpy(batch[name]) for name in names}


@contextmanager
def quiet() -> Iterator[None]:
    """Hide the messages of exporter, converter and quantizer.

    They are of a missing torchvision, of rounded weights, and advice that fails here.
    """
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logging.disable(logging.NOTSET)
