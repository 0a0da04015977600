"""Measure ``tuneline predict`` and its start-up time, beside a bare ONNX Runtime loop on the same batches.

The bare loop gets padded batches in memory and discards the logits; the command also reads, tokenizes, sorts
and writes. The model is a BERT with random weights, and the texts are as long as MRPC's. Run in the root of
the project, on an otherwise idle machine: ``python -m benchmarks.predict``.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.inference import MRPC_LENGTHS, bert
from tests.records import export_record
from tuneline.core.stage.records import file_hash, write_record
from tuneline.model.tokens.architectures import restrict_last_layer
from tuneline.model.tokens.batches import Batch, length_sorted_batches
from tuneline.model.tokens.tokenizer import save_tokenizer
from tuneline.model.tokens.wordpiece import train_wordpiece
from tuneline.onnx.candidates import embed, tokenizer_record
from tuneline.onnx.graph import save_model, to_onnx
from tuneline.onnx.int8 import to_dynamic_int8
from tuneline.onnx.usage import EXPORT_RECORD
from tuneline.rows.reading.formats import JSONL
from tuneline.rows.reading.rows import STOP
from tuneline.rows.reading.tables import open_table
from tuneline.serve.columns import InputColumns, OutputColumns, Row
from tuneline.serve.program_rows import windows
from tuneline.serve.streaming import StreamOptions, predict_rows
from tuneline.serve.text_classifier import TextClassifier
from tuneline.serve.writing import PredictionOutput, open_writer

WORDS = [
    f"{stem}{ending}"
    for stem in ("parcel", "invoice", "refund", "order", "carrier", "login")
    for ending in ("", "s", "ed", "ing")
]
BATCH, WINDOW = 32, 4096
Clock = Callable[[], float]


def write_model(folder: Path, layers: int, hidden: int) -> None:
    """Write a model in fp32 and int8 as ``export`` does, with a tokenizer that has each word of the texts."""
    tokenizer = train_wordpiece(lambda: iter([WORDS] * 3), 2000)
    save_tokenizer(tokenizer, 128, folder)
    model = bert(layers, hidden)
    model.set_attn_implementation("eager")
    restrict_last_layer(model)
    fp32 = to_onnx(model, ("input_ids", "attention_mask", "token_type_ids"), 20)
    record = export_record(
        labels=["no", "yes"], text_columns=["first", "second"], tokenizer=tokenizer_record(folder)
    )
    models = {}
    for name, one in {"fp32": fp32, "int8": to_dynamic_int8(fp32)}.items():
        embed(one, record)
        models[name] = {
            "file": f"{name}.onnx",
            "sha256": {file.name: file_hash(file) for file in save_model(one, folder / f"{name}.onnx")},
        }
    write_record(folder / EXPORT_RECORD, record.model_copy(update={"models": export_record(models).models}))


def write_rows(path: Path, rows: int) -> None:
    """Write pairs of texts as JSON Lines."""
    generator = np.random.default_rng(0)
    lengths = (
        np.interp(generator.random(rows), np.linspace(0, 1, len(MRPC_LENGTHS)), MRPC_LENGTHS)
        .round()
        .astype(int)
        - 3
    )
    with path.open("w", encoding="utf-8") as file:
        for length in lengths:
            words = generator.choice(WORDS, length)
            file.write(
                json.dumps(
                    {"first": " ".join(words[: length // 2]), "second": " ".join(words[length // 2 :])}
                )
                + "\n"
            )


def verification(model: Path) -> float:
    """Return the seconds in which the command compares the files of a model with their hashes."""
    code = "import sys, time; from tuneline.onnx.usage import exported_file; started = time.perf_counter(); "
    code += "exported_file(__import__('pathlib').Path(sys.argv[1])); print(time.perf_counter() - started)"
    return float(
        subprocess.run(
            [sys.executable, "-c", code, str(model)], capture_output=True, text=True, check=True
        ).stdout
    )


def same_batches(model: TextClassifier, path: Path) -> Iterator[Batch]:
    """Yield the batches that the command makes from a file."""
    rows = [
        Row(1, (line["first"], line["second"]), ()) for line in map(json.loads, path.open(encoding="utf-8"))
    ]
    for window in windows(iter(rows), BATCH, WINDOW, lambda row: row.characters):
        encoded = model.encode([row.texts for row in window])
        for batch in length_sorted_batches(encoded.lengths, BATCH):
            yield encoded.pad(batch, model.pad_token_id)


def bare_loop(model: TextClassifier, batches: list[Batch], clock: Clock) -> float:
    """Return the seconds of the model alone."""
    started = clock()
    for batch in batches:
        model.classifier.logits(batch)
    return clock() - started


def command(model: TextClassifier, path: Path, clock: Clock) -> float:
    """Return the seconds of the whole command, without its start-up."""
    started = clock()
    source = JSONL.usual(path)
    output, columns = PredictionOutput(path.with_suffix(".out"), "jsonl"), OutputColumns(model.task, ())
    with open_table(source) as table, open_writer(output, columns) as writer:
        options = StreamOptions(BATCH, STOP, model.rule)
        predict_rows(model, table, InputColumns(model.text_columns), writer, options)
    return clock() - started


def start(model: Path, path: Path) -> float:
    """Return the seconds from the start of the command to its first prediction."""
    code = f"from tuneline.cli import app; app(['predict', '--model', {str(model)!r}])"
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    started = time.perf_counter()
    with (
        path.open("rb") as rows,
        subprocess.Popen([sys.executable, "-c", code], stdin=rows, **pipes) as running,
    ):
        running.stdout.readline()
        seconds = time.perf_counter() - started
        running.terminate()
    return seconds


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--cpu-time",
        action="store_true",
        help="measure CPU time instead of wall time, for a busy machine; with OMP_NUM_THREADS=1",
    )
    options = parser.parse_args()
    clock = time.process_time if options.cpu_time else time.perf_counter
    table = Table(
        title=f"{options.rows:,} rows, BERT {options.layers} x {options.hidden}, medians of {options.rounds}",
        title_justify="left",
    )
    for head in (
        "model",
        "bare loop rows/s",
        "tuneline predict rows/s",
        "relative speed",
        "first prediction s",
        "of it hashes s",
    ):
        table.add_column(head, justify="left" if head == "model" else "right")
    with tempfile.TemporaryDirectory() as temporary:
        folder, path = Path(temporary), Path(temporary, "rows.jsonl")
        write_model(folder, options.layers, options.hidden)
        write_rows(path, options.rows)
        for precision in ("fp32", "int8"):
            model = TextClassifier.load(folder / f"{precision}.onnx")
            batches = list(same_batches(model, path))
            pairs = [
                (bare_loop(model, batches, clock), command(model, path, clock)) for _ in range(options.rounds)
            ]
            bare, whole = (statistics.median(column) for column in zip(*pairs, strict=True))
            first, hashes = (
                statistics.median(seconds(folder / f"{precision}.onnx") for _ in range(options.rounds))
                for seconds in (lambda model: start(model, path), verification)
            )
            speeds = f"{options.rows / bare:,.0f}", f"{options.rows / whole:,.0f}", f"{bare / whole:.3f}"
            table.add_row(precision, *speeds, f"{first:.2f}", f"{hashes:.3f}")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
