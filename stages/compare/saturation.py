"""Saturation of int8 models: a sum of two products exceeds the 16 bits of processors without VNNI."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray

from tuneline.model.batches import Batch, length_sorted_batches
from tuneline.model.tokenized_splits import TokenizedSplit
from tuneline.onnx.comparison_records import Saturation
from tuneline.onnx.session import run_outputs
from tuneline.onnx.usage import UsageRecord
from tuneline.paths import CANDIDATES

LARGEST_SUM = 32_767
LARGEST_ACTIVATION = 255
COLUMNS_AT_A_TIME = 4096
SATURATION_ROWS = 64
"""Largest number of rows of the reported split on which saturated products are counted."""
SATURATION_BATCH = 16


@dataclass(frozen=True)
class IntegerProduct:
    """A matrix product of activations and constant weights.

    Attributes:
        activations: Name of the uint8 tensor, of shape ``(..., inputs)``.
        weights: int8 weights of shape ``(inputs, outputs)``.
    """

    activations: str
    weights: NDArray[np.int8]


def exported_saturation(record: UsageRecord, split: TokenizedSplit) -> dict[str, Saturation]:
    """Check the int8 model, if it was exported, for saturated products; return the result by precision."""
    if "int8" not in record.models:
        return {}
    rows = split.take(np.arange(min(SATURATION_ROWS, len(split))))
    batches = (
        rows.pad(batch, record.pad_token_id)
        for batch in length_sorted_batches(rows.lengths, SATURATION_BATCH, rows.window_counts)
    )
    return {"int8": check_saturation(CANDIDATES / record.models["int8"].file, batches)}


def check_saturation(path: Path, batches: Iterable[Batch]) -> Saturation:
    """Bound the sums of two products of a quantized model.

    Where the bound does not exclude saturation, count it on padded batches of model inputs.
    """
    model = onnx.load(path)
    products = integer_products(model.graph)
    largest = max((largest_pair_sum(product.weights) for product in products), default=0)
    if largest <= LARGEST_SUM:
        return Saturation(possible=False, largest_sum=largest, sums=0, saturated=0)

    names = [product.activations for product in products]
    sums = saturated = 0
    for batch in batches:
        activations = run_outputs(model, names, batch)
        for product, values in zip(products, activations, strict=True):
            inputs, outputs = product.weights.shape
            rows = values.reshape(-1, values.shape[-1])
            pairs = (inputs + 1) // 2
            sums += len(rows) * pairs * outputs
            saturated += count_saturated(rows, product.weights)
    return Saturation(possible=True, largest_sum=largest, sums=sums, saturated=saturated)


def violation_of(saturation: Saturation) -> str:
    """Return the message for a model that may not saturate."""
    return (
        f"two of its products add up to {saturation.largest_sum:,}, more than 16 bits hold ({LARGEST_SUM:,}):"
        f" on a processor without VNNI its predictions can be wrong (here {saturation.saturated:,} of"
        f" {saturation.sums:,} sums would be clipped); set export.int8.reduce_range: true, or accept it with"
        " compare.int8.allow_saturation: true"
    )


def largest_pair_sum(weights: NDArray[np.int8]) -> int:
    """Return the largest magnitude of ``a * v + b * w`` for weights of one output and ``0 <= a, b <= 255``.

    Which weights are neighbours depends on how the kernel packs them, so any two count.
    """
    ordered = np.sort(weights.astype(np.int64), axis=0)
    highest = np.maximum(ordered[-2:], 0).sum(axis=0).max()
    lowest = np.minimum(ordered[:2], 0).sum(axis=0).min()
    return int(LARGEST_ACTIVATION * max(highest, -lowest))


def count_saturated(activations: NDArray[np.uint8], weights: NDArray[np.int8]) -> int:
    """Count the sums of two neighbouring products that exceed 16 bits.

    Args:
        activations: Of shape ``(rows, inputs)``.
        weights: Of shape ``(inputs, outputs)``.
    """
    if len(weights) % 2:  # an odd input has no neighbour: its product is added to 0
        activations = np.pad(activations, ((0, 0), (0, 1)))
        weights = np.pad(weights, ((0, 1), (0, 0)))
    first = weights[0::2].astype(np.int32)
    second = weights[1::2].astype(np.int32)

    # Most pairs of weights are too small to saturate with any activations: only the others are multiplied.
    highest = np.maximum(first, 0) + np.maximum(second, 0)
    lowest = np.minimum(first, 0) + np.minimum(second, 0)
    pairs, outputs = np.nonzero(LARGEST_ACTIVATION * np.maximum(highest, -lowest) > LARGEST_SUM)

    left = activations[:, 0::2].astype(np.int32)
    right = activations[:, 1::2].astype(np.int32)
    count = 0
    for start in range(0, len(pairs), COLUMNS_AT_A_TIME):  # bounds the memory
        pair = pairs[start : start + COLUMNS_AT_A_TIME]
        output = outputs[start : start + COLUMNS_AT_A_TIME]
        sums = left[:, pair] * first[pair, output] + right[:, pair] * second[pair, output]
        count += int(np.count_nonzero((sums > LARGEST_SUM) | (sums < -LARGEST_SUM - 1)))
    return count


def integer_products(graph: onnx.GraphProto) -> list[IntegerProduct]:
    """Find the matrix products that ONNX Runtime computes in 8 bits.

    These are ``MatMulInteger`` (dynamic quantization), and ``MatMul`` and ``Gemm`` of two
    ``DequantizeLinear`` nodes (static quantization), which ONNX Runtime fuses when it loads the model.

    Raises:
        ValueError: A product has a form that the stage ``export`` does not write.
    """
    constants = {tensor.name: tensor for tensor in graph.initializer}
    quantized = {node.output[0]: node.input[0] for node in graph.node if node.op_type == "DequantizeLinear"}
    products = []
    for node in graph.node:
        if node.op_type == "MatMulInteger":
            activations, weights = node.input[0], node.input[1]
        elif node.op_type in {"MatMul", "Gemm"} and node.input[0] in quantized and node.input[1] in quantized:
            activations, weights = quantized[node.input[0]], quantized[node.input[1]]
        elif node.op_type in {"QLinearMatMul", "QGemm", "DynamicQuantizeMatMul", "MatMulIntegerToFloat"}:
            raise ValueError(f"{node.op_type} {node.name!r} is not a product that the stage export writes")
        else:
            continue
        if weights not in constants:
            # two activations: kernels for two unsigned factors widen them to 16 bits before they multiply
            continue
        values = onnx.numpy_helper.to_array(constants[weights])
        if values.dtype != np.int8:
            raise ValueError(f"{node.op_type} {node.name!r}: weights are {values.dtype}, not int8")
        if any(attribute.name == "transB" and attribute.i for attribute in node.attribute):
            values = values.T
        products.append(IntegerProduct(activations, values))
    return products
