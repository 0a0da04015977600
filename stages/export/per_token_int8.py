"""Quantization to int8 with a scale for each token, so that the logits of a row do not depend on its batch.

``quantize_dynamic`` takes one range of activations for a whole batch. Here every token has its own, as in
ZeroQuant (Yao et al. 2022, https://arxiv.org/abs/2206.01861, section 4.1): a token with large activations
makes no other token coarse, and a row gives the same bits beside any other rows of its padded length. Sums of
integers are exact, whatever the size of the batch.

ONNX Runtime has no product that takes a scale for each token. So the graph divides the activations by their
scales, rounds them with a constant scale of 1, and multiplies the product by the scales:

    q = round(x / scale) + ZERO_POINT
    y = ((q - ZERO_POINT) @ w) * scale

It fuses the inner nodes into one integer product. The two divisions and products cost some of the speed.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from stages.export.fp32_layers import linear_layers
from stages.export.graph import clean_graph, int_attribute
from tuneline.onnx.session import SAFE_WEIGHT_BITS

LARGEST_INTEGER = 255
"""Largest unsigned 8-bit integer of an activation."""
ZERO_POINT = 128
"""Integer of an activation of 0: as many integers below as above."""
GELU_ZERO_POINT = 32
"""Integer of 0 after GELU, which is seldom negative: an eighth of the integers is below."""
LEAST_GELU = 0.17
"""GELU is never less than this negative number; its minimum is -0.16997."""
LEAST_ACTIVATION = 1e-9
"""Smallest range of a token, so that a token of zeros has a scale."""
SHARED_CONSTANTS = "per_token"
"""Begin of the names of constants that several layers share."""


def to_per_token_int8(model: onnx.ModelProto, reduce_range: bool) -> onnx.ModelProto:
    """Quantize the linear layers and embeddings of a copy of the fp32 graph to int8.

    Weights have a scale for each output; embeddings, which are only looked up, have one for each entry, and
    always 8 bits. Needs no calibration.

    Args:
        model: The fp32 graph.
        reduce_range: Weights of 7 bits, whose products saturate on no processor.
    """
    quantized = onnx.ModelProto()
    quantized.CopyFrom(model)
    largest_weight = 127
    if reduce_range:
        largest_weight = 2 ** (SAFE_WEIGHT_BITS - 1)
    graph = _QuantizedGraph(model, largest_weight)

    layers = linear_layers(model)
    for node in model.graph.node:
        if node.name in layers and graph.has_weights(node):
            graph.add_layer(node)
        elif graph.is_embedding(node):
            graph.add_embedding(node)
        else:
            graph.nodes.append(node)

    del quantized.graph.node[:]
    quantized.graph.node.extend(graph.nodes)
    del quantized.graph.initializer[:]
    quantized.graph.initializer.extend(graph.read_constants())
    return clean_graph(quantized)


class _QuantizedGraph:
    """The nodes and constants of the int8 graph, while it is made."""

    def __init__(self, model: onnx.ModelProto, largest_weight: int) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self._constants = {tensor.name: tensor for tensor in model.graph.initializer}
        self._largest_weight = largest_weight
        self._zero_points: dict[str, str] = {}
        self._producers = {}
        for node in model.graph.node:
            for output in node.output:
                self._producers[output] = node.op_type

    def has_weights(self, node: onnx.NodeProto) -> bool:
        """Return True if a node multiplies activations by a constant matrix."""
        activations, weights, *_ = node.input
        matrix = self._constants.get(weights)
        return matrix is not None and len(matrix.dims) == 2 and activations not in self._constants

    def is_embedding(self, node: onnx.NodeProto) -> bool:
        """Return True if a node looks up rows of a constant matrix of floats."""
        if node.op_type != "Gather" or int_attribute(node, "axis", 0) != 0:
            return False
        table = self._constants.get(node.input[0])
        return table is not None and len(table.dims) == 2 and table.data_type == TensorProto.FLOAT

    def add_embedding(self, node: onnx.NodeProto) -> None:
        """Add the nodes that look up integers and their scales, and multiply them."""
        table, tokens = node.input
        (output,) = node.output
        if f"{table}.int8" not in self._constants:
            values = numpy_helper.to_array(self._constants[table])
            self._add_integers(table, values, 1, 127)
        self._add("Gather", [f"{table}.int8", tokens], f"{output}.int8", axis=0)
        self._add("Cast", [f"{output}.int8"], f"{output}.integers", to=TensorProto.FLOAT)
        self._add("Gather", [f"{table}.scale", tokens], f"{output}.scale", axis=0)
        self._add("Mul", [f"{output}.integers", f"{output}.scale"], output)

    def add_layer(self, node: onnx.NodeProto) -> None:
        """Add the nodes of a linear layer: a ``MatMul``, or a ``Gemm`` with its bias."""
        activations, weights, *bias = node.input
        (output,) = node.output
        if activations not in self._zero_points:
            self._add_rounding(activations)
        zero_point = self._zero_points[activations]

        # weights of shape (inputs, outputs), once for all layers that share them
        is_transposed = int_attribute(node, "transB", 0) == 1
        name = f"{weights}.transposed" if is_transposed else weights
        if f"{name}.int8" not in self._constants:
            matrix = numpy_helper.to_array(self._constants[weights])
            self._add_integers(name, matrix.T if is_transposed else matrix, 0, self._largest_weight)

        # the product, which ONNX Runtime fuses
        one = self._constant("one", np.array(1, np.float32))
        self._add("DequantizeLinear", [f"{activations}.uint8", one, zero_point], f"{output}.activations")
        self._add(
            "DequantizeLinear", [f"{name}.int8", f"{name}.scale", f"{name}.zero"], f"{output}.weights", axis=1
        )
        self._add("MatMul", [f"{output}.activations", f"{output}.weights"], f"{output}.product")

        # the scales of the tokens, and the bias
        scaled = f"{output}.scaled" if bias else output
        self._add("Mul", [f"{output}.product", f"{activations}.scale"], scaled)
        if bias:
            self._add("Add", [scaled, bias[0]], output)

    def _add_rounding(self, activations: str) -> None:
        """Add the nodes that compute the scale of each token, and round its activations to integers."""
        last_axis = self._constant("last_axis", np.array([-1], np.int64))
        if self._producers.get(activations) == "Gelu":
            zero_point = GELU_ZERO_POINT
            least = LEAST_GELU * (LARGEST_INTEGER - zero_point) / zero_point
            magnitudes = activations
        else:
            zero_point = ZERO_POINT
            least = LEAST_ACTIVATION
            magnitudes = f"{activations}.magnitudes"
            self._add("Abs", [activations], magnitudes)
        largest_integer = LARGEST_INTEGER - zero_point

        # scale = max(largest activation, least) / largest integer
        limit = self._constant(f"least_{zero_point}", np.array(least, np.float32))
        factor = self._constant(f"factor_{zero_point}", np.array(1 / largest_integer, np.float32))
        self._add("ReduceMax", [magnitudes, last_axis], f"{activations}.largest", keepdims=1)
        self._add("Max", [f"{activations}.largest", limit], f"{activations}.range")
        self._add("Mul", [f"{activations}.range", factor], f"{activations}.scale")

        self._add("Div", [activations, f"{activations}.scale"], f"{activations}.scaled")
        one = self._constant("one", np.array(1, np.float32))
        zero = self._constant(f"zero_{zero_point}", np.array(zero_point, np.uint8))
        self._add("QuantizeLinear", [f"{activations}.scaled", one, zero], f"{activations}.uint8")
        self._zero_points[activations] = zero

    def _add_integers(self, name: str, matrix: NDArray[np.float32], axis: int, largest: int) -> None:
        """Add the constants of a rounded matrix, whose scales are of the ranges along an axis.

        They are ``NAME.int8``; for embeddings (axis 1) ``NAME.scale`` of shape ``(entries, 1)``; for weights
        (axis 0) ``NAME.scale`` and ``NAME.zero`` of shape ``(outputs,)``.
        """
        ranges = np.abs(matrix).max(axis=axis, keepdims=True)
        scale = (np.maximum(ranges, LEAST_ACTIVATION) / largest).astype(np.float32)
        integers = np.clip(np.rint(matrix / scale), -largest, largest).astype(np.int8)
        self._set(f"{name}.int8", integers)
        if axis == 1:
            self._set(f"{name}.scale", scale)
            return
        self._set(f"{name}.scale", scale.reshape(-1))
        self._set(f"{name}.zero", np.zeros(scale.size, np.int8))

    def _constant(self, name: str, value: NDArray[np.generic]) -> str:
        """Add a constant that layers share, and return its name in the graph."""
        return self._set(f"{SHARED_CONSTANTS}.{name}", value)

    def _set(self, name: str, value: NDArray[np.generic]) -> str:
        if name not in self._constants:
            self._constants[name] = numpy_helper.from_array(np.ascontiguousarray(value), name)
        return name

    def _add(self, op_type: str, inputs: list[str], output: str, **attributes: Any) -> None:
        self.nodes.append(helper.make_node(op_type, inputs, [output], name=f"node_{output}", **attributes))

    def read_constants(self) -> Iterable[onnx.TensorProto]:
        """Yield the constants that the nodes read."""
        read = set()
        for node in self.nodes:
            read.update(node.input)
        for name, tensor in self._constants.items():
            if name in read:
                yield tensor
