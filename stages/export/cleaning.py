"""What an exporter leaves in a graph besides the graph: paths of the machine, traces of the source, dead inputs."""

import onnx

PRODUCER = "tuneline"


def clean(model: onnx.ModelProto) -> onnx.ModelProto:
    """Strips what says where and how the graph was made, in place, and returns it.

    Goes: documentation strings, metadata of nodes and values (the exporter notes file names and stack traces there),
    inferred shapes of inner values (the quantizer trips over them), inputs whose values no node reads.
    """
    del model.metadata_props[:]
    model.doc_string = ""
    model.domain = ""
    model.producer_name, model.producer_version = PRODUCER, ""
    _clean_graph(model.graph)
    for function in model.functions:
        _clean_parts(function, function.node)
    _drop_dead_inputs(model.graph)
    return model


def _drop_dead_inputs(graph: onnx.GraphProto) -> None:
    """All inputs are of shape [batch, sequence], and the exporter asks any of them for it; the first can answer as well."""
    nodes = _nodes(graph)
    read = {name for node in nodes if node.op_type != "Shape" for name in node.input}
    first, *others = graph.input
    for dead in [given for given in others if given.name not in read]:
        for node in nodes:
            node.input[:] = [first.name if name == dead.name else name for name in node.input]
        graph.input.remove(dead)


def _clean_graph(graph: onnx.GraphProto) -> None:
    del graph.value_info[:]
    graph.name = PRODUCER
    _clean_parts(graph, [*graph.node, *graph.initializer, *graph.input, *graph.output])
    for inner in _subgraphs(graph):
        _clean_graph(inner)


def _clean_parts(whole: onnx.GraphProto | onnx.FunctionProto, parts: list[onnx.NodeProto]) -> None:
    for part in [whole, *parts]:
        del part.metadata_props[:]
        part.doc_string = ""


def _nodes(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    return [*graph.node, *(node for inner in _subgraphs(graph) for node in _nodes(inner))]


def _subgraphs(graph: onnx.GraphProto) -> list[onnx.GraphProto]:
    """The graphs inside control flow: ``If``, ``Loop``, ``Scan``."""
    return [inner for node in graph.node for attribute in node.attribute for inner in [*attribute.graphs, *_own(attribute)]]


def _own(attribute: onnx.AttributeProto) -> list[onnx.GraphProto]:
    return [attribute.g] if attribute.type == onnx.AttributeProto.GRAPH else []
