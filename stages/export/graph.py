"""Conversion of the trained model to an ONNX graph with dynamic batch size and sequence length.

The graph is traced by torch's exporter, then rewritten to compute less. A rewriting is used only if the
logits on a few rows stay as the trained model computes them; the stage ``compare`` later checks the whole
reported split.
"""

import ast
import inspect
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from tuneline.model.batches import Batch
from tuneline.onnx.session import OnnxClassifier
from tuneline.runtime.atomic_files import temporary_directory
from tuneline.runtime.errors import StageError

if TYPE_CHECKING:
    import torch

    from tuneline.model.frozen_classifier import TrainedModel

PRODUCER = "tuneline"
LINEAR_OPERATORS = ("MatMul", "Gemm")
SCOPES = "pkg.torch.onnx.name_scopes"
"""Metadata that the exporter writes for each node: the modules around it, and its own name at the end."""
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
    stack traces; inferred shapes of inner values, which break the quantizer; inputs whose values no node
    reads.
    """
    del model.metadata_props[:]
    model.doc_string = ""
    model.domain = ""
    model.producer_name = PRODUCER
    model.producer_version = ""
    _clean_graph(model.graph)
    for function in model.functions:
        _clear_metadata([function, *function.node])
    _drop_unread_inputs(model.graph)
    return model


def _clean_graph(graph: onnx.GraphProto) -> None:
    """Clean a graph and the graphs inside its nodes."""
    del graph.value_info[:]
    graph.name = PRODUCER
    _clear_metadata([graph])
    for parts in (graph.node, graph.initializer, graph.input, graph.output):
        _clear_metadata(list(parts))
    for subgraph in _subgraphs(graph):
        _clean_graph(subgraph)


def _clear_metadata(parts: list[onnx.GraphProto | onnx.FunctionProto | onnx.NodeProto]) -> None:
    for part in parts:
        del part.metadata_props[:]
        part.doc_string = ""


def _drop_unread_inputs(graph: onnx.GraphProto) -> None:
    """Remove inputs whose values no node reads, only their shape.

    All inputs have shape ``(batch, sequence)``, so the first one provides it.
    """
    nodes = all_nodes(graph)
    read: set[str] = set()
    for node in nodes:
        if node.op_type != "Shape":
            read.update(node.input)

    first = graph.input[0].name
    for value in list(graph.input)[1:]:
        if value.name in read:
            continue
        for node in nodes:
            for index, name in enumerate(node.input):
                if name == value.name:
                    node.input[index] = first
        graph.input.remove(value)


def all_nodes(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    """Return the nodes of a graph and of the graphs inside them."""
    nodes = list(graph.node)
    for subgraph in _subgraphs(graph):
        nodes += all_nodes(subgraph)
    return nodes


def _subgraphs(graph: onnx.GraphProto) -> list[onnx.GraphProto]:
    """Return the bodies of control flow operators: ``If``, ``Loop``, ``Scan``."""
    subgraphs: list[onnx.GraphProto] = []
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                subgraphs.append(attribute.g)
            subgraphs += attribute.graphs
    return subgraphs


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

    def consumers(self) -> dict[str, list[tuple[int, int]]]:
        """Return for each value the nodes that read it, as (index of the node, index of its input).

        The graph's output is node -1.
        """
        consumers: dict[str, list[tuple[int, int]]] = {}
        for output in self.graph.output:
            consumers[output.name] = [(-1, 0)]
        for node_index, node in enumerate(self.graph.node):
            for input_index, name in enumerate(node.input):
                consumers.setdefault(name, []).append((node_index, input_index))
        return consumers

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


ELEMENTWISE = frozenset(
    (
        "Add", "And", "Cast", "Div", "Erf", "Gelu", "Identity", "Mul", "Neg", "Not", "Or", "Pow", "Relu",
        "Sigmoid", "Sqrt", "Sub", "Tanh", "Where",
    )
)  # fmt: skip
InputAxes = dict[int, int]
"""By index of a node's input: the axis along which its first entry suffices."""


def keep_first_token(shaped: ShapedGraph) -> None:
    """Narrow a graph and its shapes in place.

    The graph does not change if more than the first token is read.
    """
    values, inputs = plan_narrowing(shaped)
    slices = _Slices(shaped)
    nodes: list[onnx.NodeProto] = []
    for node_index, node in enumerate(shaped.graph.node):
        # inputs that stay whole, because another node reads more of them
        for input_index, name in enumerate(node.input):
            axis = inputs.get((node_index, input_index))
            if axis is not None and name not in values:
                nodes += slices.before(node, input_index, axis)

        # a target shape has the old number of tokens
        output = node.output[0]
        if node.op_type == "Reshape" and output in values:
            axis = values[output]
            dims = [0] * axis  # 0 keeps the dimension
            dims.append(1)
            dims.extend(map(int, shaped.shapes[output][axis + 1 :]))
            node.input[1] = shaped.add_constant(f"{output}_shape", dims)
            del node.attribute[:]
        nodes.append(node)

    for name, axis in values.items():
        shaped.shapes[name][axis] = 1
    shaped.replace_nodes(nodes)


def plan_narrowing(shaped: ShapedGraph) -> tuple[dict[str, int], dict[tuple[int, int], int]]:
    """Find the values to narrow, from the graph's end to its start.

    A value is narrowed if all nodes that read it need only its first entry along the same axis, and the node
    that computes it can work on narrowed inputs. Return the axis by name of the value; and by (index of a
    node, index of its input), for inputs whose first entry suffices.
    """
    values: dict[str, int] = {}
    inputs: dict[tuple[int, int], int] = {}
    selections: list[int] = []
    consumers = shaped.consumers()
    for node_index in reversed(range(len(shaped.graph.node))):
        node = shaped.graph.node[node_index]
        if _selects_first_token(node, shaped):  # here narrowing begins
            selections.append(node_index)
            inputs[node_index, 0] = 1
            continue

        # the axes along which the readers need one entry: None if one of them needs all
        axes: set[int | None] = set()
        for name in node.output:
            for consumer in consumers.get(name, []):
                axes.add(inputs.get(consumer))
        if len(axes) != 1:
            continue
        axis = axes.pop()
        if axis is None:
            continue
        input_axes = _input_axes(node, axis, shaped)
        if input_axes is None:
            continue
        values |= dict.fromkeys(node.output, axis)
        for input_index, input_axis in input_axes.items():
            inputs[node_index, input_index] = input_axis

    # a selection from a value that stays whole needs no slice
    for node_index in selections:
        if shaped.graph.node[node_index].input[0] not in values:
            del inputs[node_index, 0]
    return values, inputs


def _selects_first_token(node: onnx.NodeProto, shaped: ShapedGraph) -> bool:
    """Return True if a node takes the vector of the first token of each row."""
    if node.op_type != "Gather" or int_attribute(node, "axis", 0) != 1:
        return False
    if not shaped.is_per_token(node.input[0]):
        return False
    index = shaped.constants.get(node.input[1])
    return index is not None and not index.dims and int(numpy_helper.to_array(index)) == 0


def _input_axes(node: onnx.NodeProto, axis: int, shaped: ShapedGraph) -> InputAxes | None:
    """Return the inputs whose first entries suffice for the first entry of the output along an axis.

    The result is ``None`` if that is not possible or unknown.
    """
    rule = _RULES.get(node.op_type)
    if rule is None:
        return None
    shapes = []
    for name in (node.output[0], *node.input):
        dims = shaped.shapes.get(name)
        if dims is None:
            return None
        shapes.append(dims)
    return rule(node, axis, shapes)


# The rules: each takes a node, the axis of its output, and the shapes of its output and of its inputs.


def _elementwise(_: onnx.NodeProto, axis: int, shapes: list[Dims]) -> InputAxes:
    """Inputs are aligned at their last axes. An input that is broadcast along the axis does not change."""
    output, *inputs = shapes
    axes = {}
    for input_index, dims in enumerate(inputs):
        input_axis = axis - len(output) + len(dims)
        if input_axis >= 0 and dims[input_axis] != 1:
            axes[input_index] = input_axis
    return axes


def _over_last_axis(node: onnx.NodeProto, axis: int, shapes: list[Dims]) -> InputAxes | None:
    """Possible if the node works along the last axis, and another one is narrowed."""
    dims = len(shapes[0])
    last = dims - 1
    if int_attribute(node, "axis", -1) % dims != last or axis >= last:
        return None
    return {0: axis}


def _reshape(_: onnx.NodeProto, axis: int, shapes: list[Dims]) -> InputAxes | None:
    """Possible if only axes after the token axis change, as when attention heads are split or joined."""
    output, values, _target = shapes
    are_static = all(isinstance(dim, int) and dim > 0 for dim in output[axis + 1 :])
    if not are_static or output[: axis + 1] != values[: axis + 1]:
        return None
    return {0: axis}


def _matrix_product(_: onnx.NodeProto, axis: int, shapes: list[Dims]) -> InputAxes | None:
    """Possible along the rows of the result: each is computed from one row of the first factor."""
    output, first, _second = shapes
    if axis != len(output) - 2 or len(first) < 2:
        return None
    return {0: len(first) - 2}


def _split(node: onnx.NodeProto, axis: int, shapes: list[Dims]) -> InputAxes | None:
    """Possible along all axes but the one that is split."""
    if int_attribute(node, "axis", 0) % len(shapes[0]) == axis:
        return None
    return {0: axis}


def _transpose(node: onnx.NodeProto, axis: int, _: list[Dims]) -> InputAxes:
    """The axis has another number in the input."""
    permutation = next(attribute.ints for attribute in node.attribute if attribute.name == "perm")
    return {0: permutation[axis]}


_RULES: dict[str, Callable[[onnx.NodeProto, int, list[Dims]], InputAxes | None]] = {
    **dict.fromkeys(ELEMENTWISE, _elementwise),
    "LayerNormalization": _over_last_axis,
    "MatMul": _matrix_product,
    "Reshape": _reshape,
    "Softmax": _over_last_axis,
    "Split": _split,
    "Transpose": _transpose,
}


class _Slices:
    """Nodes that take the first entry of a value that other nodes need whole; one for each value and axis."""

    def __init__(self, shaped: ShapedGraph) -> None:
        self._shaped = shaped
        self._created: set[str] = set()

    def before(self, node: onnx.NodeProto, input_index: int, axis: int) -> list[onnx.NodeProto]:
        """Redirect an input of a node to its first entry, and return the nodes to insert before it."""
        whole = node.input[input_index]
        name = f"{whole}_first_{axis}"
        node.input[input_index] = name
        if name in self._created:
            return []
        self._created.add(name)
        start = self._shaped.add_constant("first_token_0", [0])
        end = self._shaped.add_constant("first_token_1", [1])
        slice_axis = self._shaped.add_constant(f"first_token_{axis}", [axis])
        return [helper.make_node("Slice", [whole, start, end, slice_axis], [name], name=f"node_{name}")]


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
Rewriting = Callable[[ShapedGraph], None]
REWRITINGS: tuple[tuple[Rewriting, ...], ...] = ((keep_first_token, skip_padding), (keep_first_token,))
"""Sets of rewritings, in order of preference. The first one that keeps the logits is used, or none."""


def to_onnx(model: "TrainedModel", columns: Sequence[str], opset: int) -> onnx.ModelProto:
    """Convert a classifier in evaluation mode, on the CPU, to an ONNX graph.

    The output is ``logits``, shape ``(batch, outputs)``. The graph has no traces of this machine, and no
    inputs that the model ignores (``token_type_ids`` in some architectures).

    Raises:
        StageError: ONNX Runtime cannot run the graph that the exporter writes for this model and opset.
    """
    # inputs in the order in which the model takes them
    names = []
    for name in inspect.signature(model.forward).parameters:
        if name in columns:
            names.append(name)

    traced = trace(model, names, opset)
    for rewritings in REWRITINGS:
        graph = rewrite(traced, rewritings)
        if same_logits(graph, model, names):
            return graph

    plain = rewrite(traced, ())
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
    name_linear_layers(traced.graph)
    return traced


def name_linear_layers(graph: onnx.GraphProto) -> None:
    """Give the nodes of linear layers the names of the modules that they were traced from.

    A name is ``encoder.layer.0.output.dense``, for example. A module that is used several times names the
    first of its nodes.
    """
    taken = {node.name for node in graph.node}
    for node in graph.node:
        if node.op_type not in LINEAR_OPERATORS:
            continue
        module = _module_of(node)
        if module and module not in taken:
            node.name = module
            taken.add(module)


def _module_of(node: onnx.NodeProto) -> str:
    """Return the name of the innermost module around a node; empty if the exporter wrote none."""
    for entry in node.metadata_props:
        if entry.key == SCOPES:
            *modules, _node_name = ast.literal_eval(entry.value)
            return str(modules[-1])
    return ""


def rewrite(traced: onnx.ModelProto, rewritings: Sequence[Rewriting]) -> onnx.ModelProto:
    """Return a cleaned copy of a traced graph with rewritings applied."""
    copy = onnx.ModelProto()
    copy.CopyFrom(traced)
    shaped = ShapedGraph.read(copy.graph)
    for rewriting in rewritings:
        rewriting(shaped)
    return clean_graph(copy)


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
