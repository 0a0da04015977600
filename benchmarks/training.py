"""Measure the training of one model on the same data by two methods.

``grouped``: Hugging Face ``Trainer``, grouping by length. ``ours``: the loop of the train stage, with
checkpoints and evaluation.

Every run has its own process, which measures its own memory. Methods alternate, so a machine that slows down
affects all of them. Without ``--seeds``, speed is measured (one epoch, or ``--steps``); with it, the quality
on the validation split after ``--epochs``, over that number of seeds. ``--checkpoint FOLDER`` fine-tunes its
weights; its tokenizer must be that of bert-base-uncased.

Run in the root of the project: ``python -m benchmarks.training``. Pairs are MRPC's with the tokenizer of
bert-base-uncased if both are next to the checkout; else random rows of the same lengths. On a GPU: ``make
bench-gpu ARGS="--peak-tflops 989"``.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from tuneline.training.launch import ALLOCATOR

WAYS = ("grouped", "ours")
Result = dict[str, float]


def measure(way: str, seed: int, options: argparse.Namespace) -> Result:
    """Run one method in its own process and return its measurements."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = [
            f"--{name.replace('_', '-')}={value}"
            for name, value in vars(options).items()
            if name in RUN and value is not None
        ]
        command = [
            sys.executable,
            "-m",
            "benchmarks.training_ways.run",
            way,
            f"--seed={seed}",
            f"--folder={folder}",
            *arguments,
        ]
        allocator = ALLOCATOR if way == "ours" else {}
        environment = {**os.environ, **allocator, "PYTHONPATH": str(Path.cwd())}
        done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
        if done.returncode:
            sys.exit(f"{way} failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
        result: Result = json.loads(done.stdout.splitlines()[-1])
        return result


RUN = (
    "layers",
    "hidden",
    "batch",
    "epochs",
    "steps",
    "rows",
    "device",
    "bf16",
    "learning_rate",
    "checkpoint",
    "profile",
    "clock",
)
"""Options that are passed to each run."""


def medians(results: Sequence[Result]) -> Result:
    """Return the median of each measurement."""
    return {name: statistics.median(result[name] for result in results) for name in results[0]}


def compare_speed(options: argparse.Namespace, console: Console) -> None:
    """Run all methods in alternation and print the medians."""
    results: dict[str, list[Result]] = {way: [] for way in options.ways}
    for number in range(options.rounds):
        for way in options.ways:
            result = measure(way, seed=number, options=options)
            results[way].append(result)
            console.print(
                f"round {number + 1}: {way} {result['samples_per_second']:.1f} samples/s", style="dim"
            )
    table = Table(
        "method",
        "samples/s in steps",
        "end to end",
        "tokens/s",
        "padding",
        "matmul share",
        "peak MB",
        "after imports, MB",
        "ours / method",
    )
    middle = {way: medians(runs) for way, runs in results.items()}
    ours = middle.get("ours", {}).get("samples_per_second", 0.0)
    for way, result in middle.items():
        numbers = [
            result["samples_per_second"],
            result["end_to_end_samples_per_second"],
            result["tokens_per_second"],
        ]
        shares = [
            f"{result['padding_share']:.1%}",
            f"{result['matmul_share']:.0%}" if options.profile else "-",
        ]
        memory = [f"{result['peak_mb']:.0f}", f"{result['imported_mb']:.0f}"]
        ratio = f"{ours / result['samples_per_second']:.2f} x" if ours else "-"
        table.add_row(way, *(f"{number:,.1f}" for number in numbers), *shares, *memory, ratio)
    console.print(table)
    if options.peak_tflops:
        for way, result in middle.items():
            share = 6 * result["parameters"] * result["tokens_per_second"] / (options.peak_tflops * 1e12)
            console.print(
                f"{way}: {share:.1%} of the device's peak (6 x parameters without embeddings x tokens)"
            )


def compare_quality(options: argparse.Namespace, console: Console) -> None:
    """Print accuracy, F1 and loss on the validation split, and each seed's accuracy.

    Mean and standard deviation are over the seeds.
    """
    results: dict[str, list[Result]] = {way: [] for way in options.ways}
    for seed in range(options.seeds):
        for way in options.ways:
            results[way].append(measure(way, seed, options))
            console.print(f"seed {seed}: {way} {results[way][-1]}", style="dim", highlight=False)
    table = Table("method", "accuracy", "F1", "loss", *(f"seed {seed}" for seed in range(options.seeds)))
    for way, runs in results.items():
        table.add_row(
            way,
            *(spread([run[name] for run in runs]) for name in QUALITY),
            *(f"{run['accuracy']:.4f}" for run in runs),
        )
    console.print(table)


QUALITY = ("accuracy", "f1", "loss")


def spread(values: Sequence[float]) -> str:
    """Return mean and standard deviation."""
    return f"{statistics.mean(values):.4f}" + (
        f" ± {statistics.stdev(values):.4f}" if len(values) > 1 else ""
    )


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add: Any = parser.add_argument
    add("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    add("--checkpoint", default=None, help="folder of a BERT checkpoint, instead of --layers and --hidden")
    add("--layers", type=int, default=4)
    add("--hidden", type=int, default=256)
    add("--batch", type=int, default=16)
    add("--epochs", type=int, default=None, help="default: 1; with --seeds: 3")
    add("--steps", type=int, default=None, help="instead of whole epochs")
    add("--rows", type=int, default=None, help="number of rows; default: all")
    add("--rounds", type=int, default=3)
    add("--seeds", type=int, default=None, help="compare quality over this number of seeds, instead of speed")
    add("--learning-rate", type=float, default=1e-4)
    add("--device", choices=("cpu", "cuda"), default="cpu")
    add("--bf16", type=int, choices=(0, 1), default=0)
    add(
        "--clock",
        choices=("wall", "cpu"),
        default="wall",
        help="cpu: CPU time of all threads, for a busy machine",
    )
    add(
        "--profile",
        type=int,
        choices=(0, 1),
        default=1,
        help="measure the fraction of time in matrix products, after the timed steps",
    )
    add(
        "--peak-tflops",
        type=float,
        default=None,
        help="peak of the device, to print the fraction that is used",
    )
    options = parser.parse_args(arguments)
    if options.epochs is None:
        options.epochs = 1 if options.seeds is None else 3
    if options.seeds is not None:
        options.profile = 0
    return options


def main() -> None:
    """Measure and print."""
    options, console = parse(), Console(width=140)
    if options.device == "cuda" and not torch.cuda.is_available():
        console.print("skipped: torch finds no GPU")
        return
    model = (
        Path(options.checkpoint).name if options.checkpoint else f"BERT {options.layers} x {options.hidden}"
    )
    console.print(f"{model}, batch {options.batch}, {options.steps or f'{options.epochs} epochs of'} steps")
    if options.seeds is None:
        compare_speed(options, console)
    else:
        compare_quality(options, console)


if __name__ == "__main__":
    main()
