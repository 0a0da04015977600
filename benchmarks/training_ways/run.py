"""One measured run in its own process: prints its measurements as JSON in the last line."""

import argparse
import json
import os
from pathlib import Path

os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"

import torch

from benchmarks.training_ways.data import write_splits
from benchmarks.training_ways.measuring import new_model, peak_mb
from benchmarks.training_ways.ours import ours
from benchmarks.training_ways.trainer import trainer

WAYS = {"grouped": trainer, "ours": ours}


def parse() -> argparse.Namespace:
    """Parse the options that ``benchmarks.training`` passes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("way", choices=WAYS)
    for name in ("layers", "hidden", "batch", "epochs", "steps", "rows", "seed", "bf16", "profile"):
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--learning-rate", type=float)
    parser.add_argument("--checkpoint")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--clock", default="wall")
    parser.add_argument("--folder", type=Path)
    return parser.parse_args()


def main() -> None:
    """Train once and print the measurements."""
    options = parse()
    write_splits(options.folder, options.rows)
    parameters = sum(
        weight.numel() for name, weight in new_model(options).named_parameters() if "embeddings" not in name
    )
    before = peak_mb()
    measurements = WAYS[options.way](options)
    measurements["peak_mb"] = (
        torch.cuda.max_memory_allocated() / 2**20 if options.device == "cuda" else peak_mb()
    )
    measurements |= {"imported_mb": before, "parameters": parameters}
    measurements["end_to_end_samples_per_second"] = (
        measurements["steps"] * options.batch / measurements["seconds"]
    )
    print(json.dumps(measurements))


if __name__ == "__main__":
    main()
