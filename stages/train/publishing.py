"""The stage's outs: the model with its tokenizer, the curves, the metrics. They contain nothing about the machine."""

import json
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.utils import logging

from stages.train.progress import Progress
from stages.train.state import TrainState
from tuneline.files import replace_directory

MACHINE_KEYS = ("name_or_path", "_name_or_path", "_commit_hash", "tokenizer_file", "local_files_only")
"""Keys of ``tokenizer_config.json`` that contain paths of the machine or depend on its cache."""


def publish_model(model: PreTrainedModel, weights: dict[str, Tensor], tokenizer: Path, target: Path) -> None:
    """Write a folder in Hugging Face format: safetensors, label names, tokenizer.

    Args:
        model: Plain model; its configuration is saved.
        weights: Trained weights by name.
        tokenizer: Tokenizer folder, copied except for ``MACHINE_KEYS``.
        target: Folder to replace, ``models/classifier``.
    """
    model.config._name_or_path = ""  # transformers 5.23 would save the path of the base model, and has no public setter
    disable_progress_bar: Any = logging.disable_progress_bar
    disable_progress_bar()
    with replace_directory(target) as partial:
        model.save_pretrained(partial, state_dict=weights)
        for path in sorted(tokenizer.iterdir()):
            copy_tokenizer_file(path, partial / path.name)


def copy_tokenizer_file(path: Path, target: Path) -> None:
    """Copy one file; drop ``MACHINE_KEYS`` from the tokenizer's configuration."""
    if path.name != "tokenizer_config.json":
        shutil.copyfile(path, target)
        return
    values = json.loads(path.read_text(encoding="utf-8"))
    kept = {key: value for key, value in values.items() if key not in MACHINE_KEYS}
    target.write_text(json.dumps(kept, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def publish_curves(progress: Progress, metric: str, target: Path) -> None:
    """Write the training and the validation curve as TSV files, for ``dvc plots``."""
    with replace_directory(target) as partial:
        training = [(row.step, row.loss, row.learning_rate, row.gradient_norm) for row in progress.logged]
        _write_curve(partial / "loss.tsv", ("step", "loss", "learning_rate", "gradient_norm"), training)
        validation = [(row.step, row.loss, row.metric) for row in progress.validation_curve]
        _write_curve(partial / "validation.tsv", ("step", "loss", metric), validation)


def _write_curve(path: Path, header: Sequence[str], rows: Iterable[Sequence[float]]) -> None:
    lines = ["\t".join(header), *("\t".join(f"{value:.6g}" if isinstance(value, float) else str(value) for value in row) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def training_metrics(progress: Progress, metric: str) -> dict[str, float]:
    """Return the contents of ``metrics/train.json``; losses and metrics are of the validation split unless named training."""
    last, best = progress.evaluated[-1], progress.best or progress.evaluated[-1]
    return {
        "steps": progress.step,
        "best_step": best.step,
        "final_training_loss": progress.logged[-1].loss,
        "final_loss": last.loss,
        "best_loss": best.loss,
        f"final_{metric}": last.metric,
        f"best_{metric}": best.metric,
    }


def resource_usage(state: TrainState) -> dict[str, float]:
    """Return speed, padding and memory since the process started, for ``reports/timing/train.json``."""
    seconds, throughput = state.logger.seconds, state.logger.throughput
    usage = {
        "training_seconds": round(seconds, 2),
        "samples_per_second": round(throughput.samples / seconds, 2),
        "tokens_per_second": round(throughput.tokens / seconds, 1),
        "padding_share": round(throughput.padding, 4),
        "micro_batch_size": state.micro_batch_size,
        "processes": state.accelerator.num_processes,
    }
    if state.accelerator.device.type == "cuda":
        usage["peak_device_memory_mb"] = round(torch.cuda.max_memory_allocated() / 2**20, 1)
    return usage
