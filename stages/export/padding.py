"""Padding is left out of all that looks at one token at a time.

Linear layers, activations and layer norms see no other tokens than their own. In a batch of rows of many lengths a third of
the tokens is padding, and what is computed for them is never read. So before such a stretch of the graph the real tokens of
all rows are gathered into one list, ``[tokens, width]``, and after it they are put back where they were. Attention, which
looks across a row, sees ``[batch, sequence, width]`` as before; places of padding hold a copy of some real token, which
the mask hides as it hid the padding.
"""

from typing import Any

import onnx
from onnx import helper

from stages.export.shapes import Traced, attribute

MASK = "attention_mask"
PER_TOKEN = frozenset(
    ("Add", "Cast", "Div", "Erf", "Gelu", "LayerNormalization", "MatMul", "Mul", "Relu", "Sigmoid", "Split", "Sub", "Tanh")
)
REAL, PLACES = "real_tokens", "places_of_tokens"
CONSTANTS: dict[str, int | list[int]] = {
    "padding_axis": 0,
    "padding_end": [2**31],
    "padding_front": [0, 1, 0, 0],
    "padding_list": [-1],
    "padding_one": [1],
    "padding_real": 1,
}


def skip_padding(traced: Traced) -> None:
    """Rewrites a graph in place. Leaves it as it is where there is no mask, or no linear layer over tokens."""
    inside = _stretches(traced)
    if MASK not in {given.name for given in traced.graph.input} or not inside:
        return
    listed = {name for place in inside for name in traced.graph.node[place].output}
    nodes, done = _index_nodes(traced), set[str]()
    for place, node in enumerate(traced.graph.node):
        for position, name in enumerate(node.input):
            if place in inside and traced.is_per_token(name) and name not in listed:
                node.input[position] = f"{name}_real"
                nodes += [] if name in done else _gather(name, traced)
                done.add(name)
            elif place not in inside and name in listed:
                node.input[position] = f"{name}_placed"
                nodes += [] if name in done else [_node("Gather", [name, PLACES], f"{name}_placed", axis=0)]
                done.add(name)
        if place in inside:
            _lower_axis(node)
        nodes.append(node)
    del traced.graph.node[:]
    traced.graph.node.extend(nodes)


def _stretches(traced: Traced) -> set[int]:
    """Nodes that look at one token at a time, from the first linear layer on."""
    inside: set[int] = set()
    made: set[str] = set()
    for place, node in enumerate(traced.graph.node):
        starts = node.op_type == "MatMul" or any(name in made for name in node.input)
        if starts and _looks_at_one_token(node, traced):
            inside.add(place)
            made.update(node.output)
    return set() if made & {given.name for given in traced.graph.output} else inside


def _looks_at_one_token(node: onnx.NodeProto, traced: Traced) -> bool:
    if node.op_type not in PER_TOKEN or not all(traced.is_per_token(name) for name in node.output):
        return False
    if node.op_type == "MatMul":
        first, second = node.input
        return traced.is_per_token(first) and second in traced.constants and len(traced.shapes[second]) == 2
    vectors = {name for name in node.input if name in traced.constants and len(traced.shapes[name]) <= 1}
    return all(traced.is_per_token(name) or name in vectors for name in node.input)


def _index_nodes(traced: Traced) -> list[onnx.NodeProto]:
    """Where tokens stand.

    ``real_tokens``: places of the real tokens, in the batch written as one list. ``places_of_tokens``, ``[batch, sequence]``:
    which of them stands at each place; at padding, the last one before it. The first place of a row counts as real whatever
    the mask says: the classifier reads it.
    """
    for name, value in CONSTANTS.items():
        traced.add_constant(name, value)
    return [
        _node("Slice", [MASK, "padding_one", "padding_end", "padding_one"], "mask_of_others"),
        _node("Pad", ["mask_of_others", "padding_front", "padding_real"], "mask_of_real"),
        _node("Reshape", ["mask_of_real", "padding_list"], "mask_list"),
        _node("NonZero", ["mask_list"], "real_tokens_row"),
        _node("Reshape", ["real_tokens_row", "padding_list"], REAL),
        _node("CumSum", ["mask_list", "padding_axis"], "tokens_so_far"),
        _node("Sub", ["tokens_so_far", "padding_one"], "token_numbers"),
        _node("Shape", [MASK], "mask_shape"),
        _node("Reshape", ["token_numbers", "mask_shape"], PLACES),
    ]


def _gather(name: str, traced: Traced) -> list[onnx.NodeProto]:
    width = int(traced.shapes[name][2])
    target = traced.add_constant(f"list_of_{width}", [-1, width])
    return [_node("Reshape", [name, target], f"{name}_list"), _node("Gather", [f"{name}_list", REAL], f"{name}_real", axis=0)]


def _node(kind: str, inputs: list[str], output: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(kind, inputs, [output], name=f"node_{output}", **attributes)


def _lower_axis(node: onnx.NodeProto) -> None:
    """There is one axis less; counted from the end it is the same."""
    if node.op_type in {"LayerNormalization", "Split"} and attribute(node, "axis", -1) > 0:
        for one in node.attribute:
            if one.name == "axis":
                one.i -= 3
