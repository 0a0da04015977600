"""A traced graph with the shapes that the exporter inferred, for the rewritings in ``first_token`` and ``padding``."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import numpy_helper

BATCH, SEQUENCE = "batch", "sequence"
Dims = list[int | str]


@dataclass(frozen=True)
class ShapedGraph:
    """A graph with the shapes of its values.

    Attributes:
        graph: The graph.
        shapes: Dimensions by name of a value: numbers, and names of dynamic dimensions.
        constants: Weights and other constants by name.
    """

    graph: onnx.GraphProto
    shapes: dict[str, Dims]
    constants: dict[str, onnx.TensorProto]

    @classmethod
    def read(cls, graph: onnx.GraphProto) -> "ShapedGraph":
        """Read shapes and constants from a graph as the exporter writes it."""
        values = [*graph.input, *graph.value_info, *graph.output]
        shapes: dict[str, Dims] = {
            value.name: [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim] for value in values
        }
        constants = {tensor.name: tensor for tensor in graph.initializer}
        return cls(graph, shapes | {name: list(tensor.dims) for name, tensor in constants.items()}, constants)

    def consumers(self) -> dict[str, list[tuple[int, int]]]:
        """Return for each value the nodes that read it, as (index of the node, index of its input). The graph's output is node -1."""
        consumers: dict[str, list[tuple[int, int]]] = {output.name: [(-1, 0)] for output in self.graph.output}
        for node_index, node in enumerate(self.graph.node):
            for input_index, name in enumerate(node.input):
                consumers.setdefault(name, []).append((node_index, input_index))
        return consumers

    def is_per_token(self, name: str) -> bool:
        """Return True if a value has one vector per token: shape ``(batch, sequence, n)`` with n > 1. With n = 1 it is a mask."""
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
