"""Rewriting: compute the last layer for the first token only, if the classifier reads no other.

BERT-like classifiers read the first token of the last layer and drop the others. So the last layer's queries, its feed-forward
part (two thirds of its arithmetic) and its output are needed for one token of each row; keys and values for all tokens. The logits
do not change.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import onnx
from onnx import helper, numpy_helper

from stages.export.shapes import Dims, ShapedGraph, int_attribute

ELEMENTWISE = frozenset(
    (
        "Add", "And", "Cast", "Div", "Erf", "Gelu", "Identity", "Mul", "Neg", "Not", "Or", "Pow", "Relu", "Sigmoid", "Sqrt", "Sub",
        "Tanh", "Where",
    )
)  # fmt: skip
InputAxes = dict[int, int]
"""By index of a node's input: the axis along which its first entry suffices."""


@dataclass
class Narrowing:
    """Values that are reduced to their first entry along an axis.

    Attributes:
        values: Axis by name of the value.
        inputs: Axis by (index of a node, index of its input), for inputs of which the first entry suffices.
    """

    values: dict[str, int] = field(default_factory=dict)
    inputs: dict[tuple[int, int], int] = field(default_factory=dict)


def keep_first_token(shaped: ShapedGraph) -> None:
    """Narrow a graph and its shapes in place. The graph does not change if more than the first token is read."""
    narrowing, slices = plan_narrowing(shaped), _Slices(shaped)
    nodes: list[onnx.NodeProto] = []
    for node_index, node in enumerate(shaped.graph.node):
        for input_index, name in enumerate(node.input):
            axis = narrowing.inputs.get((node_index, input_index))
            if axis is not None and name not in narrowing.values:
                nodes += slices.before(node, input_index, axis)
        if node.op_type == "Reshape" and node.output[0] in narrowing.values:
            _set_reshape_target(node, narrowing.values[node.output[0]], shaped)
        nodes.append(node)
    for name, axis in narrowing.values.items():
        shaped.shapes[name][axis] = 1
    shaped.replace_nodes(nodes)


def plan_narrowing(shaped: ShapedGraph) -> Narrowing:
    """Find the values to narrow, from the graph's end to its start.

    A value is narrowed if all nodes that read it need only its first entry along the same axis, and the node that computes it can
    work on narrowed inputs.
    """
    narrowing, consumers = Narrowing(), shaped.consumers()
    selections = []
    for node_index in reversed(range(len(shaped.graph.node))):
        node = shaped.graph.node[node_index]
        if _selects_first_token(node, shaped):
            selections.append(node_index)
            narrowing.inputs[node_index, 0] = 1
            continue
        axes = {narrowing.inputs.get(consumer) for name in node.output for consumer in consumers.get(name, [])}
        if len(axes) != 1 or (axis := axes.pop()) is None:
            continue
        if (input_axes := _input_axes(node, axis, shaped)) is not None:
            narrowing.values |= dict.fromkeys(node.output, axis)
            narrowing.inputs |= {(node_index, input_index): input_axis for input_index, input_axis in input_axes.items()}
    for node_index in selections:
        if shaped.graph.node[node_index].input[0] not in narrowing.values:  # the value stays whole, so no slice is needed
            del narrowing.inputs[node_index, 0]
    return narrowing


def _selects_first_token(node: onnx.NodeProto, shaped: ShapedGraph) -> bool:
    if node.op_type != "Gather" or int_attribute(node, "axis", 0) != 1 or not shaped.is_per_token(node.input[0]):
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
        input_index: input_axis for input_index, input_axis in axes.items() if input_axis >= 0 and shapes[1 + input_index][input_axis] != 1
    }


def _over_last_axis(node: onnx.NodeProto, axis: int, shapes: list[Dims]) -> InputAxes | None:
    last = len(shapes[0]) - 1
    return {0: axis} if int_attribute(node, "axis", -1) % (last + 1) == last and axis < last else None


def _split(node: onnx.NodeProto, axis: int, shapes: list[Dims]) -> InputAxes | None:
    return {0: axis} if int_attribute(node, "axis", 0) % len(shapes[0]) != axis else None


def _matmul(_: onnx.NodeProto, axis: int, shapes: list[Dims]) -> InputAxes | None:
    return {0: len(shapes[1]) - 2} if axis == len(shapes[0]) - 2 and len(shapes[1]) >= 2 else None


def _transpose(node: onnx.NodeProto, axis: int, _: list[Dims]) -> InputAxes:
    return {0: next(list(attribute.ints) for attribute in node.attribute if attribute.name == "perm")[axis]}


def _reshape(_: onnx.NodeProto, axis: int, shapes: list[Dims]) -> InputAxes | None:
    """Possible if only axes after the token axis change, as when attention heads are split or joined."""
    output, given = shapes[:2]
    static = all(isinstance(dim, int) and dim > 0 for dim in output[axis + 1 :])
    return {0: axis} if static and output[: axis + 1] == given[: axis + 1] else None


_RULES: dict[str, Callable[[onnx.NodeProto, int, list[Dims]], InputAxes | None]] = {
    "LayerNormalization": _over_last_axis,
    "MatMul": _matmul,
    "Reshape": _reshape,
    "Softmax": _over_last_axis,
    "Split": _split,
    "Transpose": _transpose,
}


def _set_reshape_target(node: onnx.NodeProto, axis: int, shaped: ShapedGraph) -> None:
    """Set the target shape of a Reshape: 1 along ``axis``, 0 (keep the dimension) before it."""
    target = [0] * axis + [1] + [int(dim) for dim in shaped.shapes[node.output[0]][axis + 1 :]]
    node.input[1] = shaped.add_constant(f"{node.output[0]}_shape", target)
    del node.attribute[:]


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
