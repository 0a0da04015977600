"""Measure what it costs that the logits of an int8 model do not depend on the other rows of the batch.

Run in the root of a project in which the stage ``train`` has run: ``python -m benchmarks.int8_invariance``.
For each way of quantization: rows whose logits have the same bits in batches of 1, 2, 7 and 32 random
neighbours (padded to the same length, and as their batch is padded), agreement with fp32 with its 95 %
interval, and the speed in batches of 32, all models in turn. ``blocks`` is ONNX Runtime's ``MatMulNBits``: 8
bits, a scale for each 32 activations and weights.
"""

import argparse
import time
from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from rich.console import Console
from rich.table import Table
from scipy.stats import binomtest

from stages.export.__main__ import load_for_tracing
from stages.export.fp32_layers import linear_layers
from stages.export.graph import int_attribute, to_onnx
from stages.export.int8 import session_of
from stages.export.int8_search import QuantizationRows, quantized
from tuneline.core.machine import threads
from tuneline.core.tables import SplitReader, input_columns
from tuneline.model.batches import Batch, length_sorted_batches
from tuneline.model.tokenized_splits import TokenizedSplit
from tuneline.params.loading import load_params
from tuneline.paths import CLASSIFIER, TOKENIZED
from tuneline.tasks import trained_task
from tuneline.tasks.schemas import read_task

MODELS = ("fp32", "dynamic", "smoothed", "static", "per_token", "blocks")
SIZES = (1, 2, 7, 32)
BATCH = 32
BLOCK = 32


def model_of(name: str, fp32: onnx.ModelProto, rows: QuantizationRows) -> onnx.ModelProto:
    """Return the graph quantized in one way."""
    if name == "fp32":
        return fp32
    if name == "blocks":
        return with_blocks(fp32)
    return quantized(name, fp32, load_params().export.int8, rows)


def with_blocks(fp32: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy of a graph whose linear layers are ``MatMulNBits``; embeddings stay in fp32."""
    copy = onnx.ModelProto()
    copy.CopyFrom(fp32)
    tensors = {tensor.name: tensor for tensor in fp32.graph.initializer}
    layers = linear_layers(fp32)
    nodes = []
    for node in fp32.graph.node:
        if node.name not in layers:
            nodes.append(node)
            continue
        activations, weights, *bias = node.input
        matrix = numpy_helper.to_array(tensors[weights])
        if int_attribute(node, "transB", 0) == 0:
            matrix = matrix.T
        outputs, inputs = matrix.shape
        blocks = np.zeros((outputs, -(-inputs // BLOCK) * BLOCK), np.float32)
        blocks[:, :inputs] = matrix
        blocks = blocks.reshape(outputs, -1, BLOCK)
        scales = np.maximum(np.abs(blocks).max(axis=2, keepdims=True) / 127, 1e-12).astype(np.float32)
        integers = (np.rint(blocks / scales) + 128).astype(np.uint8)
        names = [f"{node.output[0]}.blocks", f"{node.output[0]}.scales"]
        for name, values in zip(names, (integers, scales[:, :, 0]), strict=True):
            copy.graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        product = helper.make_node(
            "MatMulNBits",
            [activations, *names, *(["", "", bias[0]] if bias else [])],
            [node.output[0]],
            domain="com.microsoft",
            K=inputs,
            N=outputs,
            bits=8,
            block_size=BLOCK,
            accuracy_level=4,
        )
        nodes.append(product)
    del copy.graph.node[:]
    copy.graph.node.extend(nodes)
    copy.opset_import.append(helper.make_opsetid("com.microsoft", 1))

    # fp32 weights that no node reads any more
    read = {name for node in nodes for name in node.input}
    kept = [tensor for tensor in copy.graph.initializer if tensor.name in read]
    weights_only = onnx.GraphProto(initializer=kept)
    del copy.graph.initializer[:]
    copy.graph.initializer.extend(weights_only.initializer)
    return copy


def run(session: onnxruntime.InferenceSession, batch: Mapping[str, NDArray[np.int64]]) -> NDArray[np.float32]:
    """Return the logits of a padded batch."""
    logits: NDArray[np.float32]
    (logits,) = session.run(["logits"], {value.name: batch[value.name] for value in session.get_inputs()})
    return logits


def padded(split: TokenizedSplit, rows: Sequence[int], length: int) -> Batch:
    """Return a batch of rows that is padded to a length at least."""
    batch = {}
    for name, values in split.pad(np.asarray(rows), 0).items():
        missing = max(0, length - values.shape[1])
        batch[name] = np.pad(values, ((0, 0), (0, missing)))
    return batch


def equal_bits(
    session: onnxruntime.InferenceSession, split: TokenizedSplit, trials: int, same_length: bool
) -> tuple[int, float]:
    """Return how often the logits of a row have the bits that they have alone, and the largest difference."""
    generator = np.random.default_rng(0)
    equal = 0
    largest = 0.0
    for _ in range(trials):
        row = int(generator.integers(len(split)))
        length = int(split.lengths[row]) + 8
        candidates = np.arange(len(split))
        if same_length:
            candidates = np.flatnonzero(split.lengths <= length)
        alone = run(session, padded(split, [row], length))[0]
        for size in SIZES:
            position = int(generator.integers(size))
            rows = np.insert(generator.choice(candidates, size - 1), position, row)
            logits = run(session, padded(split, rows, length if same_length else 0))[position]
            equal += logits.tobytes() == alone.tobytes()
            largest = max(largest, float(np.abs(logits - alone).max()))
    return equal, largest


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS, help="fp32 is always measured")
    parser.add_argument("--trials", type=int, default=25, help="rows; each in four batches, twice")
    parser.add_argument("--rows", type=int, help="of the reported split; all unless given")
    parser.add_argument("--rounds", type=int, default=5, help="of the measurement of the speed")
    options = parser.parse_args()

    # models
    params = load_params()
    train, validation, test = (
        SplitReader.open(TOKENIZED, name, "tokenize")
        for name in ("train", "validation", params.evaluate.split)
    )
    task = trained_task(read_task(train.schema), CLASSIFIER)
    rows = QuantizationRows(train, validation, task, 0, params.seed, params.compare.close_rmse)
    fp32 = to_onnx(load_for_tracing(CLASSIFIER), input_columns(train.schema), params.export.opset)
    sizes = {}
    sessions = {}
    for name in dict.fromkeys(["fp32", *options.models]):
        model = model_of(name, fp32, rows)
        sizes[name] = model.ByteSize() / 2**20
        sessions[name] = session_of(model)

    # logits of all rows
    split = TokenizedSplit.read(test)
    split = split.take(np.arange(min(options.rows or len(split), len(split))))
    batches = list(length_sorted_batches(split.lengths, BATCH))
    predictions = {name: np.empty(len(split), np.int64) for name in sessions}
    for numbers in batches:
        batch = split.pad(numbers, 0)
        for name, session in sessions.items():
            predictions[name][numbers] = run(session, batch).argmax(axis=1)

    # speed: eight full batches, all models in turn
    full = [
        split.pad(numbers, 0) for numbers in batches[:: max(1, len(batches) // 8)] if len(numbers) == BATCH
    ]
    seconds: dict[str, list[float]] = {name: [] for name in sessions}
    for _ in range(options.rounds):
        for name, session in sessions.items():
            started = time.perf_counter()
            for batch in full:
                run(session, batch)
            seconds[name].append(time.perf_counter() - started)

    table = Table(title=f"{len(split)} rows, {threads()} threads", title_justify="left")
    for title in ("model", "same length", "other lengths", "agreement", "95 %", "x fp32", "MiB"):
        table.add_column(title)
    for name, session in sessions.items():
        cells = [name]
        for same_length in (True, False):
            equal, largest = equal_bits(session, split, options.trials, same_length)
            cells.append(f"{equal} of {options.trials * len(SIZES)}, {largest:.0e}")
        same = int((predictions[name] == predictions["fp32"]).sum())
        interval = binomtest(same, len(split)).proportion_ci(method="wilson")
        ratio = np.median(np.array(seconds["fp32"]) / np.array(seconds[name]))
        cells += [f"{same / len(split):.4f}", f"{interval.low:.3f} to {interval.high:.3f}"]
        cells += [f"{ratio:.2f}", f"{sizes[name]:.1f}"]
        table.add_row(*cells)
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
