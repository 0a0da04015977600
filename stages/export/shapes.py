"""What an exporter knows of the shapes inside a graph, before that knowledge is cleaned away; and who reads which value."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import numpy_helper

BATCH, SEQUENCE = "batch", "sequence"
Dims = list[int | str]


@dataclass(frozen=True)
class Traced:
    """A graph with the shapes of its values.

    Attributes:
        graph: The graph.
        shapes: Dimensions by the name of a value: numbers, and names for those that are free.
        constants: The weights and other constants, by name.
    """

    graph: onnx.GraphProto
    shapes: dict[str, Dims]
    constants: dict[str, onnx.TensorProto]

    @classmethod
    def of(cls, graph: onnx.GraphProto) -> "Traced":
        """Reads what the graph says of its values."""
        described = [*graph.input, *graph.value_info, *graph.output]
        shapes: dict[str, Dims] = {
            one.name: [dim.dim_param or dim.dim_value for dim in one.type.tensor_type.shape.dim] for one in described
        }
        constants = {tensor.name: tensor for tensor in graph.initializer}
        return cls(graph, shapes | {name: list(tensor.dims) for name, tensor in constants.items()}, constants)

    def uses(self) -> dict[str, list[tuple[int, int]]]:
        """For each value, where it is read: position of the node, position among its inputs. Outputs of the graph stand at -1."""
        found: dict[str, list[tuple[int, int]]] = {given.name: [(-1, 0)] for given in self.graph.output}
        for place, node in enumerate(self.graph.node):
            for position, name in enumerate(node.input):
                found.setdefault(name, []).append((place, position))
        return found

    def is_per_token(self, name: str) -> bool:
        """Whether a value has a vector for each token: shape ``[batch, sequence, number]``. A single number is no vector but a mask."""
        dims = self.shapes.get(name, [])
        return len(dims) == 3 and dims[:2] == [BATCH, SEQUENCE] and isinstance(dims[2], int) and dims[2] > 1

    def add_constant(self, name: str, value: int | Sequence[int]) -> str:
        """Puts an int64 constant into the graph, unless there is one of that name, and gives its name back."""
        if name not in self.constants:
            self.constants[name] = numpy_helper.from_array(np.array(value, dtype=np.int64), name)
            self.graph.initializer.append(self.constants[name])
        return name


def attribute(node: onnx.NodeProto, name: str, default: int) -> int:
    """An integer attribute of a node."""
    return next((int(one.i) for one in node.attribute if one.name == name), default)
