"""Conversion of the trained model to an ONNX graph with dynamic batch size and sequence length.

The graph is traced by torch's exporter, then rewritten to compute less. A rewriting is used only if the
logits on a few rows stay those of the trained model; the stage ``compare`` later checks the whole reported
split.
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

from tuneline.core.atomic_files import temporary_directory
from tuneline.core.errors import StageError
from tuneline.model.batches import Batch
from tuneline.onnx.session import OnnxClassifier

if TYPE_CHECKING:
    import torch

    from tuneline.model.frozen_classifier import TrainedModel

PRODUCER = "tuneline"
LINEAR_OPERATORS = ("MatMul", "Gemm")
SCOPES = "pkg.torch.onnx.name_scopes"
"""Metadata that the exporter writes for each node: the list of modules around it, and its own name at the end."""
ONE_FILE = 2**31 - 2**20
"""Maximal bytes of weights in the model's own file: protobuf's limit is 2 GB, and the graph needs some of it."""


def weight_bytes(model: onnx.ModelProto) -> int:
    """Return the size of the weights in bytes."""
    return sum(len(initializer.raw_data) for initializer in model.graph.initializer)


def save_model(model: onnx.ModelProto, path: Path, one_file: int = ONE_FILE) -> list[Path]:
    """Write a model, which does not change, and return the files written, the model first.

    The same model gives the same bytes.

    Weights of more than ``one_file`` bytes go to ``path`` with ``.data`` added, which must stay beside it.
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
    model.producer_name, model.producer_version = PRODUCER, ""
    _clean_graph(model.graph)
    for function in model.functions:
        _clear_metadata([function, *function.node])
    _drop_unread_inputs(model.graph)
    return model


def _clean_graph(graph: onnx.GraphProto) -> None:
    del graph.value_info[:]
    graph.name = PRODUCER
    _clear_metadata([graph, *graph.node, *graph.initializer, *graph.input, *graph.output])
    for subgraph in _subgraphs(graph):
        _clean_graph(subgraph)


def _clear_metadata(parts: list[onnx.GraphProto | onnx.FunctionProto | onnx.NodeProto]) -> None:
    for part in parts:
        del part.metadata_props[:]
        part.doc_string = ""


def _drop_unread_inputs(graph: onnx.GraphProto) -> None:
    """Remove inputs of which only the shape is read.

    All inputs have shape ``(batch, sequence)``, so the first one provides it.
    """
    nodes = _all_nodes(graph)
    read = {name for node in nodes if node.op_type != "Shape" for name in node.input}
    first, *others = graph.input
    for unread in [value for value in others if value.name not in read]:
        for node in nodes:
            node.input[:] = [first.name if name == unread.name else name for name in node.input]
        graph.input.remove(unread)


def _all_nodes(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    return [*graph.node, *(node for subgraph in _subgraphs(graph) for node in _all_nodes(subgraph))]


def _subgraphs(graph: onnx.GraphProto) -> list[onnx.GraphProto]:
    """Return the bodies of control flow operators: ``If``, ``Loop``, ``Scan``."""
    attributes = [attribute for node in graph.node for attribute in node.attribute]
    single = [attribute.g for attribute in attributes if attribute.type == onnx.AttributeProto.GRAPH]
    return [*single, *(subgraph for attribute in attributes for subgraph in attribute.graphs)]


BATCH, SEQUENCE = "batch", "sequence"
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
        values = [*graph.input, *graph.value_info, *graph.output]
        shapes: dict[str, Dims] = {
            value.name: [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]
            for value in values
        }
        constants = {tensor.name: tensor for tensor in graph.initializer}
        return cls(graph, shapes | {name: list(tensor.dims) for name, tensor in constants.items()}, constants)

    def consumers(self) -> dict[str, list[tuple[int, int]]]:
        """Return for each value the nodes that read it, as (index of the node, index of its input).

        The graph's output is node -1.
        """
        consumers: dict[str, list[tuple[int, int]]] = {output.name: [(-1, 0)] for output in self.graph.output}
        for node_index, node in enumerate(self.graph.node):
            for input_index, name in enumerate(node.input):
                consumers.setdefault(name, []).append((node_index, input_index))
        return consumers

    def is_per_token(self, name: str) -> bool:
        """Return True if a value has one vector per token: shape ``(batch, sequence, n)`` with n > 1.

        With n = 1 it is a mask.
        """
        dims = self.shapes.get(name, [])
        return len(dims) == 3 and dims[:2] == [BATCH, SEQUENCE] and isinstance(dims[2], int) and dims[2] > 1

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
    """Return an integer attribute of a node."""
    return next((int(attribute.i) for attribute in node.attribute if attribute.name == name), default)


ELEMENTWISE = frozenset(
    (
        "Add", "And", "Cast", "Div", "Erf", "Gelu", "Identity", "Mul", "Neg", "Not", "Or", "Pow", "Relu", "Sigmoid", "Sqrt", "Sub",
        "Tanh", "Where",
    )
)  # fmt: skip
InputAxes = dict[int, int]
"""By index of a node's input: the axis along which its first entry suffices."""


def keep_first_token(shaped: ShapedGraph) -> None:
    """Narrow a graph and its shapes in place.

    The graph does not change if more than the first token is read.
    """
    (values, inputs), slices = plan_narrowing(shaped), _Slices(shaped)
    nodes: list[onnx.NodeProto] = []
    for node_index, node in enumerate(shaped.graph.node):
        for input_index, name in enumerate(node.input):
            axis = inputs.get((node_index, input_index))
            if axis is not None and name not in values:
                nodes += slices.before(node, input_index, axis)
        if node.op_type == "Reshape" and node.output[0] in values:
            axis = values[
                node.output[0]
            ]  # the target shape is 1 along it, and 0 (keep the dimension) before it
            target = [0] * axis + [1] + [int(dim) for dim in shaped.shapes[node.output[0]][axis + 1 :]]
            node.input[1] = shaped.add_constant(f"{node.output[0]}_shape", target)
            del node.attribute[:]
        nodes.append(node)
    for name, axis in values.items():
        shaped.shapes[name][axis] = 1
    shaped.replace_nodes(nodes)


def plan_narrowing(shaped: ShapedGraph) -> tuple[dict[str, int], dict[tuple[int, int], int]]:
    """Find the values to narrow, from the graph's end to its start.

    A value is narrowed if all nodes that read it need only its first entry along the same axis, and the node
    that computes it can work on narrowed inputs. Return the axis by name of the value; and by (index of a
    node, index of its input), for inputs of which the first entry suffices.
    """
    values: dict[str, int] = {}
    inputs: dict[tuple[int, int], int] = {}
    consumers, selections = shaped.consumers(), []
    for node_index in reversed(range(len(shaped.graph.node))):
        node = shaped.graph.node[node_index]
        if _selects_first_token(node, shaped):
            selections.append(node_index)
            inputs[node_index, 0] = 1
            continue
        axes = {inputs.get(consumer) for name in node.output for consumer in consumers.get(name, [])}
        if len(axes) != 1 or (axis := axes.pop()) is None:
            continue
        if (input_axes := _input_axes(node, axis, shaped)) is not None:
            values |= dict.fromkeys(node.output, axis)
            inputs |= {
                (node_index, input_index): input_axis for input_index, input_axis in input_axes.items()
            }
    for node_index in selections:
        if (
            shaped.graph.node[node_index].input[0] not in values
        ):  # the value stays whole, so no slice is needed
            del inputs[node_index, 0]
    return values, inputs


def _selects_first_token(node: onnx.NodeProto, shaped: ShapedGraph) -> bool:
    if (
        node.op_type != "Gather"
        or int_attribute(node, "axis", 0) != 1
        or not shaped.is_per_token(node.input[0])
    ):
        return False
    index = shaped.constants.get(node.input[1])
    return index is not None and not index.dims and int(numpy_helper.to_array(index)) == 0


def _input_axes(node: onnx.NodeProto, axis: int, shaped: ShapedGraph) -> InputAxes | None:
    """Return the inputs whose first entries suffice for the first entry of the output; ``None`` if not possible or unknown."""
    rule = _RULES.get(node.op_type, _elementwise if node.op_type in ELEMENTWISE else None)
    shapes = [shaped.shapes.get(name) for name in (node.output[0], *node.input)]
    known = [dims for dims in shapes if dims is not None]
    return rule(node, axis, known) if rule and len(known) == len(shapes) else None


def _elementwise(_: onnx.NodeProto, axis: int, shapes: list[Dims]) -> InputAxes:
    """Inputs are aligned at their last axes. An input that is broadcast along the axis does not change."""
    axes = {input_index: axis - len(shapes[0]) + len(dims) for input_index, dims in enumerate(shapes[1:])}
    return {
        input_index: input_axis
        for input_index, input_axis in axes.items()
        if input_axis >= 0 and shapes[1 + input_index][input_axis] != 1
    }


def _over_last_axis(node: onnx.NodeProto, axis: int, shapes: list[Dims]) -> InputAxes | None:
    last = len(shapes[0]) - 1
    return {0: axis} if int_attribute(node, "axis", -1) % (last + 1) == last and axis < last else None


def _reshape(_: onnx.NodeProto, axis: int, shapes: list[Dims]) -> InputAxes | None:
    """Possible if only axes after the token axis change, as when attention heads are split or joined."""
    output, given = shapes[:2]
    static = all(isinstance(dim, int) and dim > 0 for dim in output[axis + 1 :])
    return {0: axis} if static and output[: axis + 1] == given[: axis + 1] else None


_RULES: dict[str, Callable[[onnx.NodeProto, int, list[Dims]], InputAxes | None]] = {
    "LayerNormalization": _over_last_axis,
    "MatMul": lambda _, axis, shapes: (
        {0: len(shapes[1]) - 2} if axis == len(shapes[0]) - 2 and len(shapes[1]) >= 2 else None
    ),
    "Reshape": _reshape,
    "Softmax": _over_last_axis,
    "Split": lambda node, axis, shapes: (
        {0: axis} if int_attribute(node, "axis", 0) % len(shapes[0]) != axis else None
    ),
    "Transpose": lambda node, axis, _: {
        0: next(list(one.ints) for one in node.attribute if one.name == "perm")[axis]
    },
}


class _Slices:
    """Nodes that take the first entry of a value that other nodes need whole; one for each value and axis."""

    def __init__(self, shaped: ShapedGraph) -> None:
        self._shaped = shaped
        self._created: set[str] = set()

    def before(self, node: onnx.NodeProto, input_index: int, axis: int) -> list[onnx.NodeProto]:
        """Redirect an input of a node to its first entry, and return the nodes to insert before it."""
        whole = node.input[input_index]
        name = node.input[input_index] = f"{whole}_first_{axis}"
        if name in self._created:
            return []
        self._created.add(name)
        bounds = [self._shaped.add_constant(f"first_token_{value}", [value]) for value in (0, 1, axis)]
        return [helper.make_node("Slice", [whole, *bounds], [name], name=f"node_{name}")]


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
REAL_TOKENS, LIST_INDEX = "real_tokens", "places_of_tokens"
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
    """Rewrite a graph in place.

    The graph does not change if it has no mask or no linear layer over tokens.
    """
    per_token = _per_token_nodes(shaped)
    if MASK not in {value.name for value in shaped.graph.input} or not per_token:
        return
    listed = {name for node_index in per_token for name in shaped.graph.node[node_index].output}
    nodes, converted = _index_nodes(shaped), set[str]()
    for node_index, node in enumerate(shaped.graph.node):
        for input_index, name in enumerate(node.input):
            if node_index in per_token and shaped.is_per_token(name) and name not in listed:
                node.input[input_index] = f"{name}_real"
                nodes += [] if name in converted else _gather_nodes(name, shaped)
                converted.add(name)
            elif node_index not in per_token and name in listed:
                node.input[input_index] = f"{name}_placed"
                nodes += (
                    []
                    if name in converted
                    else [_node("Gather", [name, LIST_INDEX], f"{name}_placed", axis=0)]
                )
                converted.add(name)
        if node_index in per_token:
            _adjust_axis(node)
        nodes.append(node)
    shaped.replace_nodes(nodes)


def _per_token_nodes(shaped: ShapedGraph) -> set[int]:
    """Return the indices of the nodes that treat tokens independently, from the first linear layer on."""
    indices: set[int] = set()
    outputs: set[str] = set()
    for node_index, node in enumerate(shaped.graph.node):
        follows = node.op_type == "MatMul" or any(name in outputs for name in node.input)
        if follows and _is_per_token(node, shaped):
            indices.add(node_index)
            outputs.update(node.output)
    return set() if outputs & {value.name for value in shaped.graph.output} else indices


def _is_per_token(node: onnx.NodeProto, shaped: ShapedGraph) -> bool:
    if node.op_type not in PER_TOKEN or not all(shaped.is_per_token(name) for name in node.output):
        return False
    if node.op_type == "MatMul":
        first, second = node.input
        return shaped.is_per_token(first) and second in shaped.constants and len(shaped.shapes[second]) == 2
    vectors = {name for name in node.input if name in shaped.constants and len(shaped.shapes[name]) <= 1}
    return all(shaped.is_per_token(name) or name in vectors for name in node.input)


def _index_nodes(shaped: ShapedGraph) -> list[onnx.NodeProto]:
    """Create the nodes that compute the two index tensors from the mask.

    ``REAL_TOKENS``, shape ``(tokens,)``: positions of the real tokens in the flattened batch. ``LIST_INDEX``,
    shape ``(batch, sequence)``: index in the list of real tokens for each position; at padding, that of the
    last real token before it. The first position of a row counts as real even if it is masked, because the
    classifier reads it.
    """
    for name, value in CONSTANTS.items():
        shaped.add_constant(name, value)
    return [
        _node("Slice", [MASK, "padding_one", "padding_end", "padding_one"], "mask_of_others"),
        _node("Pad", ["mask_of_others", "padding_front", "padding_real"], "mask_of_real"),
        _node("Reshape", ["mask_of_real", "padding_list"], "mask_list"),
        _node("NonZero", ["mask_list"], "real_tokens_row"),
        _node("Reshape", ["real_tokens_row", "padding_list"], REAL_TOKENS),
        _node("CumSum", ["mask_list", "padding_axis"], "tokens_so_far"),
        _node("Sub", ["tokens_so_far", "padding_one"], "token_numbers"),
        _node("Shape", [MASK], "mask_shape"),
        _node("Reshape", ["token_numbers", "mask_shape"], LIST_INDEX),
    ]


def _gather_nodes(name: str, shaped: ShapedGraph) -> list[onnx.NodeProto]:
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
                attribute.i -= 3


LOGITS = "logits"
TEST_LENGTHS = (8, 5, 2)
"""Tokens of the rows that are traced, and on which a rewritten graph is tested.

Dimensions of 0 or 1 would be traced as constants.
"""
TOLERANCE = 1e-4
"""Absolute and relative tolerance of logits: far above rounding errors, far below the effect of reading padding."""
Rewriting = Callable[[ShapedGraph], None]
REWRITINGS: tuple[tuple[Rewriting, ...], ...] = ((keep_first_token, skip_padding), (keep_first_token,))
"""Sets of rewritings, in order of preference. The first one that keeps the logits is used, or none."""


def to_onnx(model: "TrainedModel", columns: Sequence[str], opset: int) -> onnx.ModelProto:
    """Convert a classifier in evaluation mode, on the CPU, to an ONNX graph with the output ``logits`` of shape ``(batch, outputs)``.

    The graph has no traces of this machine, and no inputs that the model ignores (``token_type_ids`` in some
    architectures).

    Raises:
        StageError: ONNX Runtime cannot run the graph that the exporter writes for this model and opset.
    """
    names = [name for name in inspect.signature(model.forward).parameters if name in columns]
    traced = trace(model, names, opset)
    for rewritings in REWRITINGS:
        if same_logits(graph := rewrite(traced, rewritings), model, names):
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
    """Give the nodes of linear layers the names of the modules that they were traced from, such as ``encoder.layer.0.output.dense``.

    A module that is used several times names the first of its nodes.
    """
    taken = {node.name for node in graph.node}
    for node in graph.node:
        if node.op_type in LINEAR_OPERATORS:
            scopes = [entry.value for entry in node.metadata_props if entry.key == SCOPES]
            module = ast.literal_eval(scopes[0])[-2] if scopes else ""
            if module and module not in taken:
                node.name = module
                taken.add(module)


def rewrite(traced: onnx.ModelProto, rewritings: Sequence[Rewriting]) -> onnx.ModelProto:
    """Return a cleaned copy of a traced graph with some rewritings applied."""
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
        save_model(graph, path := folder / "model.onnx")
        try:
            return OnnxClassifier(path).logits(batch)
        except Exception:  # ONNX Runtime's errors have no common base class
            return None


def random_batch(model: "TrainedModel") -> Batch:
    """Return random rows of ``TEST_LENGTHS`` tokens, padded on the right."""
    mask = (np.arange(max(TEST_LENGTHS)) < np.array(TEST_LENGTHS)[:, None]).astype(np.int64)
    padding = model.config.pad_token_id or 0
    ids = np.random.default_rng(0).integers(0, model.config.vocab_size, mask.shape)
    return {
        "input_ids": np.where(mask == 1, ids, padding),
        "attention_mask": mask,
        "token_type_ids": np.zeros_like(mask),
    }


def tensors(model: "TrainedModel", names: Sequence[str]) -> "dict[str, torch.Tensor]":
    """Return some inputs of ``random_batch``, each a tensor of its own: the tracer would merge inputs that share one."""
    import torch

    batch = random_batch(model)
    return {name: torch.from_numpy(batch[name]) for name in names}


@contextmanager
def quiet() -> Iterator[None]:
    """Hide what exporter, converter and quantizer say of themselves: missing torchvision, rounded weights, advice that fails here."""
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logging.disable(logging.NOTSET)
