"""One classifier, asked in several ways: torch eager and compiled, ONNX Runtime in fp32 and int8, in alternation.

- ``torch eager`` and ``torch compiled``: what one would serve without an export.
- ``reference``: fp32 as torch's own exporter writes it with its defaults.
- ``fp32``, ``int8``, ``int8 static``: what the stage ``export`` makes.
- With ``--optimizations``: fp32 with ONNX Runtime's graph optimizations at each level, and through its BERT fusion tool.

The model is a BERT with random weights: what it says does not matter, how large it is does. Rows are as long as MRPC's pairs under
BERT's tokenizer; each batch is drawn anew, padded to its longest row, and given to every way in turn. Run in the root of the
project: ``python -m benchmarks.inference``; nothing else should run beside it.
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
import onnxruntime
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from transformers import AutoConfig, AutoModelForSequenceClassification, PreTrainedModel
from transformers.utils.logging import disable_progress_bar

from stages.export.graph import to_onnx
from stages.export.model_files import save_model
from stages.export.precisions import to_dynamic_int8, to_static_int8
from tuneline.batches import Batch
from tuneline.onnx.session import OnnxClassifier, session_options, threads

MRPC_LENGTHS = (19, 33, 35, 38, 41, 43, 45, 47, 49, 51, 53, 55, 57, 59, 61, 62, 65, 67, 70, 74, 104)
"""Quantiles, in steps of 5 %, of the lengths of MRPC's test pairs under bert-base-uncased, special tokens included."""
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
VOCABULARY = 30_522
ROUNDS = {1: 300, 8: 80, 32: 30}
WARM_UP = 3
Way = Callable[[Batch], NDArray[np.float32]]


@dataclass
class Contender:
    """One way to ask the model, the size of its file in MB where it has one, and how long each batch took, in seconds."""

    name: str
    ask: Way
    size: float | None = None

    def __post_init__(self) -> None:
        """Starts without times."""
        self.seconds: dict[int, list[float]] = {}


def bert(layers: int, hidden: int) -> PreTrainedModel:
    """A BERT with random weights."""
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
    """Padded batches with MRPC's lengths."""
    generator = np.random.default_rng(seed)
    for _ in range(count):
        lengths = np.interp(generator.random(rows), np.linspace(0, 1, len(MRPC_LENGTHS)), MRPC_LENGTHS).round().astype(int)
        mask = (np.arange(lengths.max()) < lengths[:, None]).astype(np.int64)
        segments = (np.arange(lengths.max()) > lengths[:, None] // 2).astype(np.int64) * mask
        yield dict(zip(INPUTS, (generator.integers(1000, VOCABULARY, mask.shape) * mask, mask, segments), strict=True))


def asked_in_torch(model: Any) -> Way:
    """The model in torch."""

    def ask(batch: Batch) -> NDArray[np.float32]:
        with torch.inference_mode():
            logits: NDArray[np.float32] = model(**{name: torch.from_numpy(values) for name, values in batch.items()}).logits.numpy()
        return logits

    return ask


def torch_ways(model: PreTrainedModel) -> Iterator[Contender]:
    """Eager, and compiled where there is a C++ compiler."""
    yield Contender("torch eager", asked_in_torch(model))
    compiled = asked_in_torch(torch.compile(model, dynamic=True))
    try:
        for rows in ROUNDS:
            compiled(next(batches(rows, 1)))
    except Exception as error:
        print(f"torch compiled: left out ({str(error).splitlines()[0]})")
        return
    yield Contender("torch compiled", compiled)


def onnx_ways(model: PreTrainedModel, folder: Path) -> Iterator[Contender]:
    """What torch's exporter writes, and what the stage ``export`` makes."""
    reference = folder / "reference.onnx"
    example = {name: torch.from_numpy(values) for name, values in next(batches(2, 1)).items()}
    shape = {0: torch.export.Dim("batch"), 1: torch.export.Dim("sequence")}
    options = {"dynamo": True, "dynamic_shapes": dict.fromkeys(example, shape), "external_data": False, "verbose": False}
    torch.onnx.export(model, (), str(reference), kwargs=example, output_names=["logits"], **options)
    yield loaded("reference", reference)
    model.set_attn_implementation("eager")
    fp32 = to_onnx(model, INPUTS, 20)
    made = {
        "fp32": fp32,
        "int8": to_dynamic_int8(fp32, reduce_range=True),
        "int8 static": to_static_int8(fp32, True, batches(16, 16, seed=1)),
    }
    for name, one in made.items():
        yield loaded(name, save_model(one, folder / f"{name}.onnx")[0])


def loaded(name: str, path: Path) -> Contender:
    """A model by ONNX Runtime."""
    return Contender(name, OnnxClassifier(path).logits, path.stat().st_size / 2**20)


def asked_of(session: onnxruntime.InferenceSession) -> Way:
    """A session as it is."""

    def ask(batch: Batch) -> NDArray[np.float32]:
        logits: NDArray[np.float32] = session.run(["logits"], batch)[0]
        return logits

    return ask


def optimization_ways(folder: Path) -> Iterator[Contender]:
    """fp32 with each level of graph optimizations, and through the BERT fusion tool."""
    from onnxruntime.transformers.optimizer import optimize_model

    level = onnxruntime.GraphOptimizationLevel
    for name in ("ORT_DISABLE_ALL", "ORT_ENABLE_BASIC", "ORT_ENABLE_EXTENDED", "ORT_ENABLE_ALL"):
        options = session_options()
        options.graph_optimization_level = getattr(level, name)
        session = onnxruntime.InferenceSession(str(folder / "fp32.onnx"), options, providers=["CPUExecutionProvider"])
        yield Contender(name.removeprefix("ORT_").lower().replace("_", " "), asked_of(session))
    optimize_model(str(folder / "fp32.onnx"), "bert", opt_level=0).save_model_to_file(str(folder / "fused.onnx"))
    yield loaded("BERT fusions", folder / "fused.onnx")


def measure(contenders: list[Contender], rounds: Mapping[int, int], clock: Callable[[], float]) -> None:
    """Gives the same batches to everyone, in turn, starting with another one each time."""
    for rows, count in rounds.items():
        for turn, batch in enumerate(batches(rows, WARM_UP + count)):
            for place in range(len(contenders)):
                contender = contenders[(place + turn) % len(contenders)]
                started = clock()
                contender.ask(batch)
                if turn >= WARM_UP:
                    contender.seconds.setdefault(rows, []).append(clock() - started)


def largest_difference(contenders: list[Contender]) -> dict[str, float]:
    """How far each one's logits are from the first one's: a fast way that says something else is no way."""
    batch = next(batches(32, 1, seed=2))
    first = contenders[0].ask(batch)
    return {contender.name: float(np.abs(contender.ask(batch) - first).max()) for contender in contenders}


def report(contenders: list[Contender], rounds: Mapping[int, int], console: Console) -> None:
    """Prints one table per batch size."""
    differences = largest_difference(contenders)
    for rows in rounds:
        table = Table(title=f"batch {rows}: {rounds[rows]} batches, {threads()} threads", title_justify="left")
        for title in ("way", "p50 ms", "p95 ms", "p99 ms", "rows/s", "x eager", "MB", "largest difference"):
            table.add_column(title, justify="left" if title == "way" else "right")
        eager = np.median(contenders[0].seconds[rows])
        for contender in contenders:
            seconds = np.array(contender.seconds[rows])
            latencies = [f"{1000 * value:.2f}" for value in np.quantile(seconds, [0.5, 0.95, 0.99])]
            size = "" if contender.size is None else f"{contender.size:.1f}"
            speed = [f"{rows * len(seconds) / seconds.sum():,.0f}", f"{eager / np.median(seconds):.2f}"]
            table.add_row(contender.name, *latencies, *speed, size, f"{differences[contender.name]:.1e}")
        console.print(table)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the rounds (0.1: a quick look)")
    parser.add_argument("--optimizations", action="store_true", help="also try ONNX Runtime's graph optimizations one by one")
    parser.add_argument("--cpu-time", action="store_true", help="count the process's own time, for a busy machine; with OMP_NUM_THREADS=1")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of exporters, about themselves
    logging.disable(logging.WARNING)
    disable_progress_bar()
    torch.set_num_threads(threads())
    rounds = {rows: max(round(count * options.scale), 2) for rows, count in ROUNDS.items()}
    with tempfile.TemporaryDirectory() as place:
        model = bert(options.layers, options.hidden)
        ways = list(onnx_ways(bert(options.layers, options.hidden), Path(place)))
        contenders = [*torch_ways(model), *ways, *(optimization_ways(Path(place)) if options.optimizations else [])]
        measure(contenders, rounds, time.process_time if options.cpu_time else time.perf_counter)
        report(contenders, rounds, Console(width=120))


if __name__ == "__main__":
    main()
