"""Rewriting: skip padding in all operators that treat tokens independently.

Linear layers, activations and layer norms compute each token from that token alone. In a batch of rows of different lengths a third
of the tokens can be padding, for which nothing needs to be computed. So before such operators the real tokens of all rows are
gathered into one list of shape ``(tokens, hidden)``, and after them they are scattered back. Attention, which reads all tokens of a
row, sees ``(batch, sequence, hidden)`` as before. Padded positions then hold a copy of a real token, which the mask hides as it hid
the padding.
"""

from typing import Any

import onnx
from onnx import helper

from stages.export.shapes import ShapedGraph, int_attribute

MASK = "attention_mask"
PER_TOKEN = frozenset(
    ("Add", "Cast", "Div", "Erf", "Gelu", "LayerNormalization", "MatMul", "Mul", "Relu", "Sigmoid", "Split", "Sub", "Tanh")
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
    """Rewrite a graph in place. The graph does not change if it has no mask or no linear layer over tokens."""
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
                nodes += [] if name in converted else [_node("Gather", [name, LIST_INDEX], f"{name}_placed", axis=0)]
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

    ``REAL_TOKENS``, shape ``(tokens,)``: positions of the real tokens in the flattened batch. ``LIST_INDEX``, shape ``(batch, sequence)``:
    index in the list of real tokens for each position; at padding, that of the last real token before it. The first position of
    a row counts as real even if it is masked, because the classifier reads it.
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
