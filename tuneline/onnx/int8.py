"""Quantization of the fp32 graph to int8.

Products of int8 are fast because all activations of a batch share one scale: a few large ones make it coarse
for the others. So large channels of the activations are divided first, and their weights multiplied
(SmoothQuant, Xiao et al. 2022, https://arxiv.org/abs/2211.10438).

Weights have 7 bits: two products of activations up to 255 and weights up to 64 add up to at most 32,640,
which 16 bits hold, so that processors without VNNI do not saturate them.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

from tuneline.core.runtime.files import temporary_directory
from tuneline.model.tokens.batches import Batch
from tuneline.onnx.graph import clean_graph, input_names, quiet, save_model
from tuneline.onnx.session import open_session, session_options

QUANTIZED_OPERATORS = ["MatMul", "Gemm", "Gather"]
"""Operators whose weights are quantized: linear layers and embeddings.

Products of two activations (attention scores) stay in fp32, because rounding both factors costs more accuracy
than it saves time.
"""
FROZEN_HEAD = "head.weight"
"""Weight of the linear model on a frozen checkpoint, which stays in fp32.

Its features and weights differ by orders of magnitude, so rounding them to int8 changes most predictions.
"""
SMOOTHING = 0.75
"""Share of a channel's range that moves from the activations to the weights, alpha in SmoothQuant.

0.65 and 0.75 are best on the models measured: docs/benchmarks.md.
"""
LEAST_RANGE = 1e-5
"""Smallest range of a channel, so that a channel that is always 0 has a scale."""


def to_int8(model: onnx.ModelProto, calibration: Iterable[Batch]) -> onnx.ModelProto:
    """Return an int8 model that computes what the fp32 graph does, as nearly as 7 bits can.

    Ranges of activations are computed for each batch at run time. So the logits of a row depend slightly on
    the other rows of its batch.

    Args:
        model: The fp32 graph, which does not change.
        calibration: Padded batches of rows of the train split.
    """
    return to_dynamic_int8(smooth(model, calibration))


def to_dynamic_int8(model: onnx.ModelProto) -> onnx.ModelProto:
    """Quantize the weights of a copy of an fp32 graph: on files, because weights in memory would be moved."""
    excluded = []
    for node in model.graph.node:
        if FROZEN_HEAD in node.input:
            excluded += [node.name, f"{node.name}_MatMul"]  # the quantizer renames a Gemm
    with temporary_directory() as folder, quiet():
        source = folder / "fp32.onnx"
        target = folder / "int8.onnx"
        save_model(model, source)
        quantize_dynamic(
            source,
            target,
            op_types_to_quantize=QUANTIZED_OPERATORS,
            nodes_to_exclude=excluded,
            per_channel=True,
            weight_type=QuantType.QInt8,
            reduce_range=True,
        )
        return clean_graph(onnx.load(target))


def smooth(model: onnx.ModelProto, calibration: Iterable[Batch]) -> onnx.ModelProto:
    """Return a copy of the fp32 graph that computes the same with activations of more equal ranges.

    Before a product ``x @ w``, channel ``c`` of x is divided by ``s[c] = max|x[c]|**a / max|w[c]|**(1 - a)``,
    and row c of w multiplied by it, with ``a = SMOOTHING`` (equation 4 of the paper). All products of one x
    share its scales.
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    weights = {tensor.name: tensor for tensor in copy.graph.initializer}
    products = scalable_products(copy.graph)

    # scales of the activations, and the weights multiplied by them
    sizes = {}
    for value, names in products.items():
        sizes[value] = weights[names[0]].dims[0]  # channels: all matrices of a product have as many rows
    for value, ranges in activation_ranges(model, sizes, calibration).items():
        matrices = [numpy_helper.to_array(weights[name]) for name in products[value]]
        weight_ranges = np.abs(np.concatenate(matrices, axis=1)).max(axis=1)
        activation_part = np.maximum(ranges, LEAST_RANGE) ** SMOOTHING
        weight_part = np.maximum(weight_ranges, LEAST_RANGE) ** (1 - SMOOTHING)
        scale = activation_part / weight_part
        for name, matrix in zip(products[value], matrices, strict=True):
            scaled = (matrix * scale[:, np.newaxis]).astype(np.float32)
            weights[name].CopyFrom(numpy_helper.from_array(scaled, name))
        inverse = (1 / scale).astype(np.float32)
        copy.graph.initializer.append(numpy_helper.from_array(inverse, f"{value}.scale"))

    _divide_activations(copy.graph, products)
    return copy


def _divide_activations(graph: onnx.GraphProto, products: Mapping[str, Sequence[str]]) -> None:
    """Divide each value by its scale just before its first product; all its products read the result."""
    nodes: list[onnx.NodeProto] = []
    divided: set[str] = set()
    for node in graph.node:
        if node.op_type == "MatMul" and node.input[1] in products.get(node.input[0], []):
            value = node.input[0]
            smoothed = f"{value}.smoothed"
            if value not in divided:
                nodes.append(
                    helper.make_node("Mul", [value, f"{value}.scale"], [smoothed], f"{value}.smoothing")
                )
                divided.add(value)
            node.input[0] = smoothed
        nodes.append(node)

    # protobuf has no way to insert, and deletes what the list refers to: so the nodes are copied first
    new = onnx.GraphProto()
    new.node.extend(nodes)
    del graph.node[:]
    graph.node.extend(new.node)


def scalable_products(graph: onnx.GraphProto) -> dict[str, list[str]]:
    """Return the names of the weight matrices that each value is multiplied with, if nothing else reads them.

    A weight that several layers share, as in ALBERT, or that is an embedding, too, can't have the scale of
    one of them.
    """
    matrices = set()
    for tensor in graph.initializer:
        if len(tensor.dims) == 2 and tensor.name != FROZEN_HEAD:
            matrices.add(tensor.name)

    # what reads a matrix: a value by its products, or a node
    readers: dict[str, set[str]] = {}
    for node in graph.node:
        for name in node.input:
            if name not in matrices:
                continue
            reader = node.name
            if node.op_type == "MatMul" and node.input[1] == name:
                reader = node.input[0]
            readers.setdefault(name, set()).add(reader)

    products: dict[str, list[str]] = {}
    for node in graph.node:
        if node.op_type != "MatMul":
            continue
        value, matrix = node.input
        if matrix in matrices and len(readers[matrix]) == 1:
            value_matrices = products.setdefault(value, [])
            if matrix not in value_matrices:
                value_matrices.append(matrix)
    return products


def activation_ranges(
    model: onnx.ModelProto, sizes: Mapping[str, int], calibration: Iterable[Batch]
) -> dict[str, NDArray[np.float32]]:
    """Return the largest absolute value of every channel of inner values of a graph, over padded batches.

    ``sizes`` has the number of channels, the last axis, of each value. The graph computes the maxima itself:
    all activations of a batch would take gigabytes of memory.
    """
    observed = onnx.ModelProto()
    observed.CopyFrom(model)
    graph = observed.graph
    first_axis = numpy_helper.from_array(np.array([0], np.int64), "ranges.axis")
    graph.initializer.append(first_axis)

    # for each value, max(abs(value).reshape(-1, size), axis=0)
    outputs = []
    ranges = {}
    for name, size in sizes.items():
        shape = numpy_helper.from_array(np.array([-1, size], np.int64), f"{name}.shape")
        graph.initializer.append(shape)
        graph.node.append(helper.make_node("Abs", [name], [f"{name}.abs"]))
        graph.node.append(helper.make_node("Reshape", [f"{name}.abs", shape.name], [f"{name}.rows"]))
        graph.node.append(
            helper.make_node("ReduceMax", [f"{name}.rows", first_axis.name], [f"{name}.range"], keepdims=0)
        )
        graph.output.append(onnx.ValueInfoProto(name=f"{name}.range"))
        outputs.append(f"{name}.range")
        ranges[name] = np.zeros(size, np.float32)

    # the maxima of all batches
    with temporary_directory() as folder:
        path = folder / "model.onnx"
        save_model(observed, path)  # weights may be of any size
        session = open_session(path, session_options())
    inputs = input_names(model)
    for batch in calibration:
        maxima = session.run(outputs, {name: batch[name] for name in inputs})
        for name, maximum in zip(sizes, maxima, strict=True):
            ranges[name] = np.maximum(ranges[name], maximum)
    return ranges
