"""Measure weights in 7 and in 8 bits, by every quantization method: agreement with fp32, and speed.

Run in the root of a project in which the pipeline has run: ``python -m benchmarks.int8``, on an otherwise
idle machine. The models are kept in ``--folder``, so that another processor can run the same ones: on a
machine of that kind, or, for the agreement alone, emulated (``--no-speed --rows 200`` under ``qemu-x86_64
-cpu Haswell``). ``plain`` is a session with ONNX Runtime's defaults; ``exact`` multiplies 8-bit weights
without clipping where the processor would clip (``session.x64quantprecision``).
"""

import argparse
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from tuneline.core.machine import threads
from tuneline.core.tables import SplitReader
from tuneline.model.batches import Batch, length_sorted_batches
from tuneline.model.tokenized_splits import TokenizedSplit
from tuneline.onnx.session import open_session, processor_saturates, session_options
from tuneline.params.loading import load_params
from tuneline.paths import TOKENIZED

ROUNDS = 3
METHODS = ("dynamic", "smoothed", "static")
MODELS = ("fp32", *(f"{method} {bits}" for method in METHODS for bits in (7, 8)), "published")
"""fp32; every method with weights of 7 and of 8 bits; and the model that ``method: best`` makes."""


def write_models(folder: Path, names: Sequence[str]) -> None:
    """Quantize ``models/classifier`` by the methods named, unless the files exist."""
    if all((folder / f"{name}.onnx").exists() for name in names):
        return
    from stages.export.__main__ import load_for_tracing
    from stages.export.graph import save_model, to_onnx
    from stages.export.int8_search import QuantizationRows, quantized, to_int8
    from tuneline.paths import CLASSIFIER
    from tuneline.tasks import trained_task
    from tuneline.tasks.schemas import read_task

    folder.mkdir(parents=True, exist_ok=True)
    params = load_params()
    train, validation = (SplitReader.open(TOKENIZED, name, "tokenize") for name in ("train", "validation"))
    task = trained_task(read_task(train.schema), CLASSIFIER)
    rows = QuantizationRows(train, validation, task, 0, params.seed, params.compare.close_rmse)
    columns = [
        "input_ids",
        "attention_mask",
        *(["token_type_ids"] if "token_type_ids" in split("train").values else []),
    ]
    fp32 = to_onnx(load_for_tracing(CLASSIFIER), columns, params.export.opset)
    save_model(fp32, folder / "fp32.onnx")
    for name in names:
        if name in {"fp32", "published"}:
            continue
        method, bits = name.split()
        options = params.export.int8.model_copy(update={"reduce_range": bits == "7"})
        save_model(quantized(method, fp32, options, rows), folder / f"{name}.onnx")
    if "published" in names:
        published, record = to_int8(fp32, params, rows)
        save_model(published, folder / "published.onnx")
        print(record)


def split(name: str) -> TokenizedSplit:
    """Return a tokenized split."""
    return TokenizedSplit.read(SplitReader.open(TOKENIZED, name, "tokenize"))


def batches(rows: TokenizedSplit) -> Iterator[tuple[NDArray[np.int64], Batch]]:
    """Yield row numbers and the padded batch."""
    for numbers in length_sorted_batches(rows.lengths, 32):
        yield numbers, rows.pad(numbers, 0)


def run(path: Path, exact: bool, rows: TokenizedSplit) -> tuple[NDArray[np.float32], float]:
    """Return the logits, and the seconds in ONNX Runtime."""
    session = open_session(path, session_options(exact_products=exact))
    names = [given.name for given in session.get_inputs()]
    logits, seconds = np.empty((len(rows), rows.task.outputs), np.float32), 0.0
    for numbers, batch in batches(rows):
        started = time.perf_counter()
        (logits[numbers],) = session.run(["logits"], {name: batch[name] for name in names})
        seconds += time.perf_counter() - started
    return logits, seconds


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=Path("reports/benchmark-int8"))
    parser.add_argument("--rows", type=int, help="of the reported split; all unless given")
    parser.add_argument(
        "--models",
        nargs="+",
        choices=MODELS,
        default=MODELS,
        help="all unless given; fp32 is always one of them",
    )
    parser.add_argument("--no-speed", action="store_true", help="one round: agreement alone")
    options = parser.parse_args()
    models = ["fp32", *(name for name in options.models if name != "fp32")]
    write_models(options.folder, models)
    rows = split(load_params().evaluate.split)
    rows = rows.take(np.arange(min(options.rows or len(rows), len(rows))))
    ways = [(name, exact) for name in models for exact in (False, True) if not exact or name.endswith("8")]
    seconds: dict[tuple[str, bool], list[float]] = {way: [] for way in ways}
    logits = {}
    for _ in range(1 if options.no_speed else ROUNDS):
        for way in ways:
            logits[way], spent = run(options.folder / f"{way[0]}.onnx", way[1], rows)
            seconds[way].append(spent)
    reference = logits["fp32", False]
    table = Table(
        title=(
            f"{len(rows)} rows, {threads()} threads, processor clips 8-bit products: {processor_saturates()}"
        ),
        title_justify="left",
    )
    for title in (
        "model",
        "session",
        "agreement with fp32",
        "accuracy",
        "mean difference of logits",
        "x fp32",
    ):
        table.add_column(title)
    base = np.median(seconds["fp32", False])
    for way in ways:
        found = logits[way].argmax(axis=1)
        table.add_row(
            way[0],
            "exact" if way[1] else "plain",
            f"{np.mean(found == reference.argmax(axis=1)):.4f}",
            f"{np.mean(found == rows.labels):.4f}",
            f"{np.abs(logits[way] - reference).mean():.4f}",
            "" if options.no_speed else f"{base / np.median(seconds[way]):.2f}",
        )
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
