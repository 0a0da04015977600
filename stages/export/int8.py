"""Quantization of the fp32 graph to int8, with the least difference from it on rows of the project.

Products of int8 are fast because all activations of a batch share one scale: a few large ones make it coarse
for the others. Two things are done about it. ``smoothed`` divides large channels of the activations and
multiplies their weights (SmoothQuant, Xiao et al. 2022, https://arxiv.org/abs/2211.10438). And where
predictions still change, the linear layers whose rounding costs most stay in fp32.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from onnxruntime.quantization import QuantFormat, QuantType, quantize_dynamic, quantize_static

from stages.export.graph import LINEAR_OPERATORS, clean_graph, input_names, quiet, save_model
from tuneline.core.atomic_files import temporary_directory
from tuneline.core.tables import SplitReader
from tuneline.core.terminal import say
from tuneline.model.batches import Batch, TokenizedSplit, length_sorted_batches
from tuneline.onnx.session import SAFE_WEIGHT_BITS, OnnxClassifier, logits_of, open_session, session_options
from tuneline.params.evaluate import Int8Params

QUANTIZED_OPERATORS = [*LINEAR_OPERATORS, "Gather"]
"""Operators whose weights are quantized: linear layers and embeddings.

Products of two activations (attention scores) stay in fp32, because rounding both factors costs more accuracy
than it saves time.
"""
FROZEN_HEAD = "head.weight"
"""Weight of the linear model on a frozen checkpoint, which stays in fp32.

Its features and weights differ by orders of magnitude, so rounding them to int8 changes most predictions.
"""
CALIBRATION_BATCH = 16
"""Rows, or windows of rows, of a batch of the calibration."""
SELECTION_ROWS = 256
"""Maximal number of rows of the validation split on which ``best`` compares quantized models."""
SENSITIVITY_ROWS = 64
"""How many of these rows the pass over the layers reads: it needs the order of the layers, not their cost."""
SMOOTHING = 0.75
"""Share of a channel's range that moves from the activations to the weights, alpha in SmoothQuant.

0.65 and 0.75 are best on the models measured: docs/benchmarks.md.
"""
LEAST_RANGE = 1e-5
"""Smallest range of a channel, so that a channel that is always 0 has a scale."""
GOAL = 0.985
"""Fraction of rows with the same prediction as fp32, from which no more layers stay in fp32."""


@dataclass(frozen=True)
class QuantizationRows:
    """Rows of the train split for calibration, and of the validation split to compare quantized models.

    They are drawn with the seed. The reported split is not used, so that its metrics stay unbiased.
    ``close_rmse`` is the parameter of ``compare``.
    """

    train: SplitReader
    validation: SplitReader
    pad_token_id: int
    seed: int
    close_rmse: float

    def calibration(self, count: int) -> Iterator[Batch]:
        """Yield padded batches of at most ``count`` rows of the train split, of similar length each."""
        split = self._sample(self.train, count)
        for rows in length_sorted_batches(split.lengths, CALIBRATION_BATCH, split.window_counts):
            yield split.pad(rows, self.pad_token_id)

    def selection(self) -> TokenizedSplit:
        """Return the rows on which ``best`` compares quantized models."""
        return self._sample(self.validation, SELECTION_ROWS)

    def _sample(self, rows: SplitReader, count: int) -> TokenizedSplit:
        split = TokenizedSplit.read(rows)
        if len(split) <= count:
            return split
        drawn = np.random.default_rng(self.seed).choice(len(split), count, replace=False)
        return split.take(np.sort(drawn))


@dataclass(frozen=True)
class Method:
    """A way to quantize: the fp32 graph that it starts from, and the quantizer.

    ``quantize`` takes the graph, and the names of the nodes that stay in fp32.
    """

    graph: onnx.ModelProto
    quantize: Callable[[onnx.ModelProto, Sequence[str]], onnx.ModelProto]

    def int8(self, kept: Sequence[str] = ()) -> onnx.ModelProto:
        """Return the int8 graph in which the layers ``kept`` are fp32."""
        return self.quantize(self.graph, kept)


def to_int8(
    model: onnx.ModelProto, params: Int8Params, rows: QuantizationRows
) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """Quantize a model with the method in ``params``; return it and its ``quantization`` for ``export.json``.

    With ``reduce_range``, weights have 7 bits: two products of activations up to 255 and weights up to 64 add
    up to at most 32,640, which 16 bits hold, so processors without VNNI do not saturate them.
    """
    bits = 8
    if params.reduce_range:
        bits = SAFE_WEIGHT_BITS
    record: dict[str, Any] = {"method": params.method, "weight_bits": bits}
    if params.method != "best":
        method = method_named(params.method, model, params, rows)
        return method.int8(), record

    # the method whose logits are closest to the logits of fp32
    reference = Fp32Model.of(model, rows)
    methods = {}
    graphs = {}
    logits = {}
    differences = {}
    for name in ("dynamic", "smoothed", "static"):
        methods[name] = method_named(name, model, params, rows)
        graphs[name] = methods[name].int8()
        logits[name] = reference.run(graphs[name])
        differences[name] = reference.difference(logits[name])
    best = min(differences, key=lambda name: differences[name])  # dynamic in a tie
    record["method"] = best
    record["mean_abs_diff_on_validation"] = {name: round(value, 6) for name, value in differences.items()}

    # the layers that change predictions stay in fp32
    agreement = reference.agreement(logits[best])
    if agreement >= GOAL or params.max_fp32 == 0:
        return graphs[best], record
    graph, layers = keep_layers(methods[best], graphs[best], agreement, reference, params.max_fp32)
    if layers:
        record["fp32_layers"] = layers
    return graph, record


def method_named(name: str, model: onnx.ModelProto, params: Int8Params, rows: QuantizationRows) -> Method:
    """Return the way to quantize ``model`` that has this name in ``export.int8.method``."""

    def dynamic(graph: onnx.ModelProto, kept: Sequence[str]) -> onnx.ModelProto:
        return to_dynamic_int8(graph, params.reduce_range, kept)

    def static(graph: onnx.ModelProto, kept: Sequence[str]) -> onnx.ModelProto:
        return to_static_int8(graph, params.reduce_range, rows.calibration(params.calibration_rows), kept)

    if name == "dynamic":
        return Method(model, dynamic)
    if name == "smoothed":
        smoothed = smooth(model, rows.calibration(params.calibration_rows))
        return Method(smoothed, dynamic)
    return Method(model, static)


@dataclass(frozen=True)
class Fp32Model:
    """Rows of the validation split, and the logits of the fp32 model for them: int8 is compared with these.

    The logits have the shape ``(rows, outputs)``.
    """

    split: TokenizedSplit
    logits: NDArray[np.float32]
    rows: QuantizationRows

    @classmethod
    def of(cls, model: onnx.ModelProto, rows: QuantizationRows) -> "Fp32Model":
        """Compute the logits of the fp32 model."""
        split = rows.selection()
        return cls(split, _logits(model, split, rows.pad_token_id), rows)

    def first(self, count: int) -> "Fp32Model":
        """Return the first rows."""
        rows = np.arange(min(count, len(self.split)))
        return replace(self, split=self.split.take(rows), logits=self.logits[:count])

    def run(self, graph: onnx.ModelProto) -> NDArray[np.float32]:
        """Return the logits of another graph on these rows."""
        return _logits(graph, self.split, self.rows.pad_token_id)

    def difference(self, logits: NDArray[np.float32]) -> float:
        """Return the mean absolute difference of logits; infinity if any of them is NaN or infinite."""
        difference = float(np.abs(logits.astype(np.float64) - self.logits).mean())
        if not np.isfinite(difference):
            return math.inf
        return difference

    def agreement(self, logits: NDArray[np.float32]) -> float:
        """Return the mean agreement of predictions."""
        task = self.split.task
        agreement = task.agreement(self.logits, logits, self.split.labels, self.rows.close_rmse)
        return float(agreement.mean())


def _logits(graph: onnx.ModelProto, split: TokenizedSplit, pad_token_id: int) -> NDArray[np.float32]:
    """Run a graph with ONNX Runtime, and return the logits of a split, shape ``(rows, outputs)``."""
    with temporary_directory() as folder:
        path = folder / "model.onnx"
        save_model(graph, path)
        return logits_of(OnnxClassifier(path), split, split.task.outputs, pad_token_id)


def keep_layers(
    method: Method, quantized: onnx.ModelProto, agreement: float, reference: Fp32Model, max_fp32: float
) -> tuple[onnx.ModelProto, list[str]]:
    """Keep linear layers in fp32, the most sensitive first, until predictions agree on ``GOAL`` of the rows.

    ``quantized`` has no such layer, and its predictions agree on ``agreement``. At most a fraction
    ``max_fp32`` of the weights of linear layers is kept, because each layer costs speed. Returns the graph
    and the names of its layers in fp32.
    """
    rows = len(reference.split)
    say(
        f"export: int8 agrees with fp32 on {agreement:.1%} of {rows} validation rows; measuring which layers"
        " cost most"
    )

    # one layer more at a time, within the allowed number of weights
    layers = linear_layers(method.graph)
    allowed_weights = max_fp32 * sum(layers.values())
    graph = quantized
    kept: list[str] = []
    kept_weights = 0
    for layer in sensitive_layers(method, layers, reference.first(SENSITIVITY_ROWS)):
        kept_weights += layers[layer]
        if agreement >= GOAL or kept_weights > allowed_weights:
            break
        kept.append(layer)
        graph = method.int8(kept)
        agreement = reference.agreement(reference.run(graph))
        say(f"export: int8 with {len(kept)} of {len(layers)} layers in fp32 agrees on {agreement:.1%}")
    return graph, kept


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


def sensitive_layers(method: Method, layers: Mapping[str, int], reference: Fp32Model) -> list[str]:
    """Return the layers of at least average size, first those whose rounding alone changes the logits most.

    A smaller layer, such as a projection of the attention, changes less: its rounding need not be measured,
    which takes two thirds of the time. To keep one would also save little.
    """
    # the rounding of a layer alone: all other layers, and the embeddings, stay in fp32
    average = sum(layers.values()) / len(layers)
    in_fp32 = set(layers).union(embeddings(method.graph))
    costs = {}
    for name, weights in layers.items():
        if weights >= average:
            alone = method.int8(sorted(in_fp32 - {name}))
            costs[name] = reference.difference(reference.run(alone))
    return sorted(costs, key=lambda name: -costs[name])


def embeddings(model: onnx.ModelProto) -> list[str]:
    """Return the names of the nodes that read rows of a weight."""
    weights = set()
    for tensor in model.graph.initializer:
        weights.add(tensor.name)

    names = []
    for node in model.graph.node:
        if node.op_type == "Gather" and node.input[0] in weights:
            names.append(node.name)
    return names


def to_dynamic_int8(model: onnx.ModelProto, reduce_range: bool, kept: Sequence[str] = ()) -> onnx.ModelProto:
    """Quantize the weights of a copy of the fp32 graph to int8; nodes named in ``kept`` stay in fp32.

    Ranges of activations are computed for each batch at run time. So the logits of a row depend slightly on
    the other rows of its batch.
    """
    return _quantize(model, quantize_dynamic, kept, reduce_range=reduce_range)


def to_static_int8(
    model: onnx.ModelProto, reduce_range: bool, calibration: Iterable[Batch], kept: Sequence[str] = ()
) -> onnx.ModelProto:
    """Quantize the weights of a copy of the fp32 graph to int8, and its activations.

    Activations are quantized by their minimum and maximum on padded batches. Nodes named in ``kept`` stay in
    fp32.
    """
    inputs = input_names(model)
    batches = iter(calibration)

    def next_batch() -> Batch | None:
        """Return the next batch, and ``None`` after the last, as a ``CalibrationDataReader`` does it."""
        batch = next(batches, None)
        if batch is None:
            return None
        return {name: batch[name] for name in inputs}

    return _quantize(
        model,
        quantize_static,
        kept,
        calibration_data_reader=SimpleNamespace(get_next=next_batch),
        reduce_range=reduce_range,
        quant_format=QuantFormat.QDQ,
        activation_type=QuantType.QUInt8,
        extra_options={"MatMulConstBOnly": True},
    )


def _quantize(
    model: onnx.ModelProto, quantizer: Callable[..., None], kept: Sequence[str], **options: Any
) -> onnx.ModelProto:
    """Run a quantizer on files, because it would move the weights out of a model in memory."""
    excluded = list(kept)
    for node in model.graph.node:
        if FROZEN_HEAD in node.input:
            excluded.append(node.name)
    excluded += [f"{name}_MatMul" for name in excluded]  # the dynamic quantizer renames a Gemm

    with temporary_directory() as folder, quiet():
        source = folder / "fp32.onnx"
        target = folder / "int8.onnx"
        save_model(model, source)
        quantizer(
            source,
            target,
            op_types_to_quantize=QUANTIZED_OPERATORS,
            nodes_to_exclude=excluded,
            per_channel=True,
            weight_type=QuantType.QInt8,
            **options,
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
    inputs = input_names(model)
    with temporary_directory() as folder:
        path = folder / "model.onnx"
        save_model(observed, path)
        session = open_session(path, session_options())
        for batch in calibration:
            maxima = session.run(outputs, {name: batch[name] for name in inputs})
            for name, maximum in zip(sizes, maxima, strict=True):
                ranges[name] = np.maximum(ranges[name], maximum)
    return ranges
