"""Measure the inference of one classifier by several backends, in alternation.

- ``torch eager``: the model without an export.
- ``reference``: fp32 as torch's exporter writes it with its defaults.
- ``fp32``, ``int8``: what the stage ``export`` writes.

The model is a BERT with random weights, or that of ``--checkpoint``. Rows are random, as long as MRPC's pairs
under BERT's tokenizer, and padded to the longest row of their batch. Backends take turns with the same
``BLOCK`` batches; the first ones of a turn do not count, because threads of the backend before still spin.
Run in the root of the project, on an otherwise idle machine: ``python -m benchmarks.inference``.
"""

import argparse
import logging
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from transformers import AutoConfig, AutoModelForSequenceClassification, PreTrainedModel
from transformers.utils.logging import disable_progress_bar

from tuneline.core.stage.machine import threads
from tuneline.model.tokens.architectures import restrict_last_layer
from tuneline.model.tokens.batches import Batch
from tuneline.onnx.graph import save_model, to_onnx
from tuneline.onnx.int8 import to_dynamic_int8
from tuneline.onnx.session import OnnxClassifier

MRPC_LENGTHS = (19, 33, 35, 38, 41, 43, 45, 47, 49, 51, 53, 55, 57, 59, 61, 62, 65, 67, 70, 74, 104)
"""Quantiles, in steps of 5 %, of the lengths of MRPC's test pairs in tokens of bert-base-uncased.

Special tokens are included.
"""
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
VOCABULARY = 30_522
ROUNDS = {1: 300, 8: 80, 32: 30}
WARM_UP, BLOCK = 5, 10
"""Batches of a turn that are not measured, and that are."""
Backend = Callable[[Batch], NDArray[np.float32]]


@dataclass
class Contender:
    """One backend that runs the model, and the seconds of each batch.

    The size of its file is in MB, ``None`` without a file.
    """

    name: str
    run: Backend
    size: float | None = None

    def __post_init__(self) -> None:
        """Start without measurements."""
        self.seconds: dict[int, list[float]] = {}


def model_of(options: argparse.Namespace) -> PreTrainedModel:
    """Return the classifier to measure."""
    if options.checkpoint is None:
        return bert(options.layers, options.hidden)
    torch.manual_seed(0)
    return AutoModelForSequenceClassification.from_pretrained(options.checkpoint, use_safetensors=True).eval()


def bert(layers: int, hidden: int) -> PreTrainedModel:
    """Return a BERT with random weights."""
    config = AutoConfig.for_model(
        "bert",
        vocab_size=VOCABULARY,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=max(hidden // 64, 1),
        intermediate_size=4 * hidden,
    )
    torch.manual_seed(0)
    return AutoModelForSequenceClassification.from_config(config).eval()


def batches(rows: int, count: int, seed: int = 0) -> Iterator[Batch]:
    """Yield padded batches of random ids, with lengths as in MRPC."""
    generator = np.random.default_rng(seed)
    for _ in range(count):
        lengths = (
            np.interp(generator.random(rows), np.linspace(0, 1, len(MRPC_LENGTHS)), MRPC_LENGTHS)
            .round()
            .astype(int)
        )
        mask = (np.arange(lengths.max()) < lengths[:, None]).astype(np.int64)
        segments = (np.arange(lengths.max()) > lengths[:, None] // 2).astype(np.int64) * mask
        yield dict(
            zip(
                INPUTS, (generator.integers(1000, VOCABULARY, mask.shape) * mask, mask, segments), strict=True
            )
        )


def run_in_torch(model: Any) -> Backend:
    """Return a function that runs the model in torch."""

    def run(batch: Batch) -> NDArray[np.float32]:
        with torch.inference_mode():
            logits: NDArray[np.float32] = model(
                **{name: torch.from_numpy(values) for name, values in batch.items()}
            ).logits.numpy()
        return logits

    return run


def onnx_ways(model: PreTrainedModel, folder: Path) -> Iterator[Contender]:
    """Yield the model of torch's exporter, and those of the stage ``export``."""
    reference = folder / "reference.onnx"
    example = {name: torch.from_numpy(values) for name, values in next(batches(2, 1)).items()}
    shape = {0: torch.export.Dim("batch"), 1: torch.export.Dim("sequence")}
    options = {
        "dynamo": True,
        "dynamic_shapes": dict.fromkeys(example, shape),
        "external_data": False,
        "verbose": False,
    }
    torch.onnx.export(model, (), str(reference), kwargs=example, output_names=["logits"], **options)
    yield loaded("reference", reference)
    model.set_attn_implementation("eager")
    restrict_last_layer(model)
    fp32 = to_onnx(model, INPUTS, 20)
    made = {
        "fp32": fp32,
        "int8": to_dynamic_int8(fp32),
    }
    for name, one in made.items():
        yield loaded(name, save_model(one, folder / f"{name}.onnx")[0])


def loaded(name: str, path: Path) -> Contender:
    """Load a model file into ONNX Runtime."""
    return Contender(name, OnnxClassifier(path).logits, path.stat().st_size / 2**20)


def measure(contenders: list[Contender], rounds: Mapping[int, int], clock: Callable[[], float]) -> None:
    """Let all backends run the same batches, in turns, each time starting with another backend."""
    for rows, count in rounds.items():
        for turn in range(-(-count // BLOCK)):
            block = list(batches(rows, WARM_UP + BLOCK, seed=turn))
            for offset in range(len(contenders)):
                contender = contenders[(offset + turn) % len(contenders)]
                for position, batch in enumerate(block):
                    started = clock()
                    contender.run(batch)
                    if position >= WARM_UP:
                        contender.seconds.setdefault(rows, []).append(clock() - started)


def largest_difference(contenders: list[Contender]) -> dict[str, float]:
    """Return the largest difference between the logits of each backend and those of the first."""
    batch = next(batches(32, 1, seed=2))
    first = contenders[0].run(batch)
    return {contender.name: float(np.abs(contender.run(batch) - first).max()) for contender in contenders}


def report(contenders: list[Contender], rounds: Mapping[int, int], console: Console) -> None:
    """Print one table per batch size."""
    differences = largest_difference(contenders)
    for rows in rounds:
        table = Table(
            title=f"batch {rows}: {len(contenders[0].seconds[rows])} batches, {threads()} threads",
            title_justify="left",
        )
        for title in (
            "backend",
            "p50 ms",
            "p95 ms",
            "p99 ms",
            "rows/s",
            "x eager",
            "MB",
            "largest difference",
        ):
            table.add_column(title, justify="left" if title == "backend" else "right")
        eager = np.median(contenders[0].seconds[rows])
        for contender in contenders:
            seconds = np.array(contender.seconds[rows])
            latencies = [f"{1000 * value:.2f}" for value in np.quantile(seconds, [0.5, 0.95, 0.99])]
            size = "" if contender.size is None else f"{contender.size:.1f}"
            speed = [f"{rows * len(seconds) / seconds.sum():,.0f}", f"{eager / np.median(seconds):.2f}"]
            table.add_row(contender.name, *latencies, *speed, size, f"{differences[contender.name]:.1e}")
        console.print(table)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--checkpoint", default=None, help="folder of a BERT checkpoint, instead of --layers and --hidden"
    )
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument(
        "--scale",
        type=float,
        default=1.0,
        help="fraction of the default number of rounds (0.1: a quick look)",
    )
    parser.add_argument(
        "--cpu-time",
        action="store_true",
        help="measure CPU time instead of wall time, for a busy machine; with OMP_NUM_THREADS=1",
    )
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # exporters warn about their own internals
    logging.disable(logging.WARNING)
    disable_progress_bar()
    torch.set_num_threads(threads())
    rounds = {rows: max(round(count * options.scale), 2) for rows, count in ROUNDS.items()}
    with tempfile.TemporaryDirectory() as folder:
        eager = Contender("torch eager", run_in_torch(model_of(options)))
        contenders = [eager, *onnx_ways(model_of(options), Path(folder))]
        measure(contenders, rounds, time.process_time if options.cpu_time else time.perf_counter)
        report(contenders, rounds, Console(width=120))


if __name__ == "__main__":
    main()
