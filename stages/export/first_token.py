"""Where only the first token's vector is read, only the first token's vector is computed.

Classifiers of BERT's kind read the first token of the last layer and drop the others. So the last layer's queries, its
feed-forward part (two thirds of its arithmetic) and its output are needed for one token of each row; keys and values for
all. The logits stay the same.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import onnx
from onnx import helper, numpy_helper

from stages.export.shapes import Dims, Traced, attribute

ELEMENTWISE = frozenset(
    (
        "Add",
        "And",
        "Cast",
        "Div",
        "Erf",
        "Gelu",
        "Identity",
        "Mul",
        "Neg",
        "Not",
        "Or",
        "Pow",
        "Relu",
        "Sigmoid",
        "Sqrt",
        "Sub",
        "Tanh",
        "Where",
    )
)
Needs = dict[int, int]
"""By position among a node's inputs: the axis along which the first entry is enough."""


@dataclass
class Narrowed:
    """What shrinks to its first entry.

    Attributes:
        values: By the name of a value, along which axis.
        asked: By node and position among its inputs, along which axis the first entry is enough.
    """

    values: dict[str, int] = field(default_factory=dict)
    asked: dict[tuple[int, int], int] = field(default_factory=dict)


def keep_first_token(traced: Traced) -> None:
    """Narrows a graph in place, and the shapes with it. Leaves it as it is where more than the first token is read."""
    narrowed, cuts = narrow(traced), _Cuts(traced)
    nodes: list[onnx.NodeProto] = []
    for place, node in enumerate(traced.graph.node):
        for position, name in enumerate(node.input):
            axis = narrowed.asked.get((place, position))
            if axis is not None and name not in narrowed.values:
                nodes += cuts.before(node, position, axis)
        if node.op_type == "Reshape" and node.output[0] in narrowed.values:
            _aim(node, narrowed.values[node.output[0]], traced)
        nodes.append(node)
    for name, axis in narrowed.values.items():
        traced.shapes[name][axis] = 1
    del traced.graph.node[:]
    traced.graph.node.extend(nodes)


def narrow(traced: Traced) -> Narrowed:
    """Goes up from the end: a value shrinks when all who read it want only its first entry, and its node can do with less."""
    found, uses = Narrowed(), traced.uses()
    heads = []
    for place in reversed(range(len(traced.graph.node))):
        node = traced.graph.node[place]
        if _takes_first_token(node, traced):
            heads.append(place)
            found.asked[place, 0] = 1
            continue
        wanted = {found.asked.get(use) for name in node.output for use in uses.get(name, [])}
        if len(wanted) != 1 or (axis := wanted.pop()) is None:
            continue
        if (needs := _needs(node, axis, traced)) is not None:
            found.values |= dict.fromkeys(node.output, axis)
            found.asked |= {(place, position): of for position, of in needs.items()}
    for place in heads:
        if traced.graph.node[place].input[0] not in found.values:  # it takes one token of a value that stays whole, as before
            del found.asked[place, 0]
    return found


def _takes_first_token(node: onnx.NodeProto, traced: Traced) -> bool:
    if node.op_type != "Gather" or attribute(node, "axis", 0) != 1 or not traced.is_per_token(node.input[0]):
        return False
    index = traced.constants.get(node.input[1])
    return index is not None and not index.dims and int(numpy_helper.to_array(index)) == 0


def _needs(node: onnx.NodeProto, axis: int, traced: Traced) -> Needs | None:
    """The inputs of which the first entry is enough for the first entry of the output; ``None`` where all is needed, or nobody knows."""
    rule = _RULES.get(node.op_type, _elementwise if node.op_type in ELEMENTWISE else None)
    shapes = [traced.shapes.get(name) for name in (node.output[0], *node.input)]
    known = [dims for dims in shapes if dims is not None]
    return rule(node, axis, known) if rule and len(known) == len(shapes) else None


def _elementwise(_: onnx.NodeProto, axis: int, shapes: list[Dims]) -> Needs:
    """Inputs are aligned at their last axes; one that is spread along the axis stays as it is."""
    places = {position: axis - len(shapes[0]) + len(dims) for position, dims in enumerate(shapes[1:])}
    return {position: place for position, place in places.items() if place >= 0 and shapes[1 + position][place] != 1}


def _over_last_axis(node: onnx.NodeProto, axis: int, shapes: list[Dims]) -> Needs | None:
    last = len(shapes[0]) - 1
    return {0: axis} if attribute(node, "axis", -1) % (last + 1) == last and axis < last else None


def _split(node: onnx.NodeProto, axis: int, shapes: list[Dims]) -> Needs | None:
    return {0: axis} if attribute(node, "axis", 0) % len(shapes[0]) != axis else None


def _matmul(_: onnx.NodeProto, axis: int, shapes: list[Dims]) -> Needs | None:
    return {0: len(shapes[1]) - 2} if axis == len(shapes[0]) - 2 and len(shapes[1]) >= 2 else None


def _transpose(node: onnx.NodeProto, axis: int, _: list[Dims]) -> Needs:
    return {0: next(list(one.ints) for one in node.attribute if one.name == "perm")[axis]}


def _reshape(_: onnx.NodeProto, axis: int, shapes: list[Dims]) -> Needs | None:
    """Heads are split off and joined behind the axis of the tokens; what stands before it stays."""
    made, given = shapes[:2]
    behind = all(isinstance(dim, int) and dim > 0 for dim in made[axis + 1 :])
    return {0: axis} if behind and made[: axis + 1] == given[: axis + 1] else None


_RULES: dict[str, Callable[[onnx.NodeProto, int, list[Dims]], Needs | None]] = {
    "LayerNormalization": _over_last_axis,
    "MatMul": _matmul,
    "Reshape": _reshape,
    "Softmax": _over_last_axis,
    "Split": _split,
    "Transpose": _transpose,
}


def _aim(node: onnx.NodeProto, axis: int, traced: Traced) -> None:
    """Gives a Reshape a target of its own: 0 keeps a dimension, and along ``axis`` there is one entry."""
    target = [0] * axis + [1] + [int(dim) for dim in traced.shapes[node.output[0]][axis + 1 :]]
    node.input[1] = traced.add_constant(f"{node.output[0]}_shape", target)
    del node.attribute[:]


class _Cuts:
    """Nodes that take the first entry of a value that others need whole; one for each value and axis."""

    def __init__(self, traced: Traced) -> None:
        self._traced = traced
        self._made: set[str] = set()

    def before(self, node: onnx.NodeProto, position: int, axis: int) -> list[onnx.NodeProto]:
        """Redirects an input of a node to its first entry; gives back the nodes that make it, if they are new."""
        whole = node.input[position]
        name = node.input[position] = f"{whole}_first_{axis}"
        if name in self._made:
            return []
        self._made.add(name)
        bounds = [self._traced.add_constant(f"first_token_{value}", [value]) for value in (0, 1, axis)]
        return [helper.make_node("Slice", [whole, *bounds], [name], name=f"node_{name}")]
