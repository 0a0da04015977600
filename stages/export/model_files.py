"""Files of ONNX models: cleaned of traces of the exporter, saved and loaded with their weights."""

from pathlib import Path

import onnx

PRODUCER = "tuneline"
ONE_FILE = 2**31 - 2**20
"""Maximal bytes of weights in the model's own file: protobuf's limit is 2 GB, and the graph needs some of it."""


def weight_bytes(model: onnx.ModelProto) -> int:
    """Return the size of the weights in bytes."""
    return sum(len(initializer.raw_data) for initializer in model.graph.initializer)


def save_model(model: onnx.ModelProto, path: Path, one_file: int = ONE_FILE) -> list[Path]:
    """Write a model. The same model gives the same bytes.

    Args:
        model: The model; it is not changed.
        path: The file to write.
        one_file: If the weights have more bytes, they are written to ``path`` with ``.data`` added, which must stay beside it.

    Returns:
        The files written, the model first.
    """
    if weight_bytes(model) <= one_file:
        path.write_bytes(model.SerializeToString(deterministic=True))
        return [path]
    data = path.with_name(f"{path.name}.data")
    copy = onnx.ModelProto()
    copy.CopyFrom(model)  # onnx.save_model moves the weights out of the model it is given
    onnx.save_model(copy, path, save_as_external_data=True, all_tensors_to_one_file=True, location=data.name)
    return [path, data]


def load_model(path: Path) -> onnx.ModelProto:
    """Read a model with its weights, from one file or two."""
    return onnx.load(path, load_external_data=True)


def clean(model: onnx.ModelProto) -> onnx.ModelProto:
    """Remove traces of the exporter from a model, in place, and return it.

    Removed are: documentation strings; metadata of nodes and values, where the exporter stores file names and stack traces;
    inferred shapes of inner values, which break the quantizer; inputs whose values no node reads.
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
    """Remove inputs of which only the shape is read. All inputs have shape ``(batch, sequence)``, so the first one provides it."""
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
