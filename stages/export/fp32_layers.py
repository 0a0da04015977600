"""Linear layers of an int8 model that stay in fp32: which ones lose most by rounding, and the mixed graph.

The quantizer keeps the names of the values between layers. So the nodes of a layer in the int8 graph and its
node in the fp32 graph can be exchanged, and no layer is quantized again.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
import onnx
from onnx import helper

from stages.export.graph import LINEAR_OPERATORS, all_nodes, input_names
from stages.export.int8 import FROZEN_HEAD, session_of
from tuneline.model.batches import Batch


def linear_layers(model: onnx.ModelProto) -> dict[str, int]:
    """Return the number of weights of each linear layer that is quantized, by the name of its node."""
    weights = {}
    for tensor in model.graph.initializer:
        weights[tensor.name] = int(np.prod(tensor.dims))

    layers = {}
    for node in model.graph.node:
        constants = [name for name in node.input[:2] if name in weights]
        if node.op_type in LINEAR_OPERATORS and constants and FROZEN_HEAD not in constants:
            layers[node.name] = weights[constants[0]]
    return layers


def with_fp32_layers(
    quantized: onnx.ModelProto, fp32: onnx.ModelProto, names: Collection[str]
) -> onnx.ModelProto:
    """Return a copy of an int8 graph in which some linear layers compute as in the graph it was made from.

    Args:
        quantized: The int8 graph.
        fp32: The graph that it was quantized from.
        names: Names of the nodes of the layers, in ``fp32``.
    """
    layers = {}
    for node in fp32.graph.node:
        if node.name in names:
            layers[node.output[0]] = node

    mixed = onnx.ModelProto()
    mixed.CopyFrom(quantized)
    nodes = [layers.get(node.output[0], node) for node in quantized.graph.node]
    del mixed.graph.node[:]
    mixed.graph.node.extend(_needed_nodes(nodes, {value.name for value in quantized.graph.output}))
    _set_weights(mixed.graph, [*quantized.graph.initializer, *fp32.graph.initializer])
    return mixed


def layer_errors(
    quantized: onnx.ModelProto, fp32: onnx.ModelProto, names: Sequence[str], batches: Iterable[Batch]
) -> dict[str, float]:
    """Return how far the rounding of each layer moves its output, where all before it is computed in fp32.

    One graph has all layers twice, so that a single pass over the rows measures all of them.

    Args:
        quantized: An int8 graph.
        fp32: The graph that it was quantized from.
        names: Names of the nodes of the layers, in ``fp32``.
        batches: Padded rows.

    Returns:
        Squared error of the output of each layer, divided by the sum of its squares.
    """
    outputs = {node.name: node.output[0] for node in fp32.graph.node if node.name in names}
    session = session_of(_with_both(quantized, fp32, outputs))
    inputs = input_names(fp32)

    results = [f"{name}.error" for name in names] + [f"{name}.square" for name in names]
    totals = np.zeros(len(results))
    for batch in batches:
        totals += session.run(results, {name: batch[name] for name in inputs})
    errors, squares = np.split(totals, 2)
    return dict(zip(names, errors / np.maximum(squares, np.finfo(np.float32).tiny), strict=True))


def _with_both(
    quantized: onnx.ModelProto, fp32: onnx.ModelProto, outputs: Mapping[str, str]
) -> onnx.ModelProto:
    """Return the fp32 graph that computes each layer in int8, too, and what both differ by.

    ``outputs`` has the output of each layer by its name. The graph has two more for a layer NAME:
    ``NAME.error``, the sum of the squared differences, and ``NAME.square``, the sum of the squares of fp32.
    """
    both = onnx.ModelProto()
    both.CopyFrom(fp32)
    known = {value.name for value in fp32.graph.input}
    known.update(tensor.name for tensor in fp32.graph.initializer)
    for node in fp32.graph.node:
        known.update(node.output)

    added: dict[str, onnx.NodeProto] = {}
    for name, output in outputs.items():
        # the nodes of the layer in int8, whose last one has the output of the fp32 layer
        *inner, last = _needed_nodes(quantized.graph.node, {output}, known)
        for node in inner:
            added[node.output[0]] = node
        rounded = onnx.NodeProto()
        rounded.CopyFrom(last)
        rounded.output[0] = f"{name}.int8"
        added[rounded.output[0]] = rounded

        difference = f"{name}.difference"
        added[difference] = helper.make_node("Sub", [output, rounded.output[0]], [difference])
        for result, value in ((f"{name}.error", difference), (f"{name}.square", output)):
            added[result] = helper.make_node("ReduceSumSquare", [value], [result], keepdims=0)
            both.graph.output.append(onnx.ValueInfoProto(name=result))

    both.graph.node.extend(added.values())
    _set_weights(both.graph, [*fp32.graph.initializer, *quantized.graph.initializer])
    return both


def _needed_nodes(
    nodes: Iterable[onnx.NodeProto], values: Collection[str], known: Collection[str] = ()
) -> list[onnx.NodeProto]:
    """Return the nodes that compute ``values`` from ``known`` ones, or from the inputs of the graph."""
    needed = set(values)
    reversed_nodes = []
    for node in reversed(list(nodes)):
        if needed.isdisjoint(node.output):
            continue
        reversed_nodes.append(node)
        needed.update(_read_values([node]).difference(known))
    return reversed_nodes[::-1]


def _read_values(nodes: Iterable[onnx.NodeProto]) -> set[str]:
    """Return the names of the values that nodes read, and the graphs inside them."""
    values: set[str] = set()
    for node in all_nodes(onnx.GraphProto(node=nodes)):
        values.update(node.input)
    return values


def _set_weights(graph: onnx.GraphProto, tensors: Iterable[onnx.TensorProto]) -> None:
    """Replace the weights of a graph by those that its nodes read, the first of each name."""
    needed = _read_values(graph.node)
    weights = onnx.GraphProto()
    for tensor in tensors:
        if tensor.name in needed:
            weights.initializer.append(tensor)
            needed.remove(tensor.name)
    del graph.initializer[:]
    graph.initializer.extend(weights.initializer)
