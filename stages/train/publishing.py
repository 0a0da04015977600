"""What the stage hands on: the model with its tokenizer, the curves, the metrics. Nothing in them depends on the machine."""

import json
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.utils import logging

from stages.train.loop import Run
from stages.train.progress import Progress
from tuneline.files import replace_directory

MACHINE_KEYS = ("name_or_path", "_name_or_path", "_commit_hash", "tokenizer_file", "local_files_only")


def publish_model(model: PreTrainedModel, weights: dict[str, Tensor], tokenizer: Path, target: Path) -> None:
    """Writes a folder in Hugging Face format: safetensors, label names, tokenizer.

    Args:
        model: The model as it was built, for its configuration.
        weights: What it learned.
        tokenizer: Folder of the tokenizer, copied as it is but for what it says of the machine it was made on.
        target: ``models/classifier``.
    """
    model.config._name_or_path = ""
    silence: Any = logging.disable_progress_bar
    silence()
    with replace_directory(target) as partial:
        model.save_pretrained(partial, state_dict=weights)
        for path in sorted(tokenizer.iterdir()):
            copy_tokenizer_file(path, partial / path.name)


def copy_tokenizer_file(path: Path, target: Path) -> None:
    """Copies one file; from the tokenizer's configuration, keys that name a place on this machine are left out."""
    if path.name != "tokenizer_config.json":
        shutil.copyfile(path, target)
        return
    values = json.loads(path.read_text(encoding="utf-8"))
    kept = {key: value for key, value in values.items() if key not in MACHINE_KEYS}
    target.write_text(json.dumps(kept, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def publish_curves(progress: Progress, metric: str, target: Path) -> None:
    """Writes the training and the validation curve as TSV, for ``dvc plots``."""
    with replace_directory(target) as partial:
        training = [(row.step, row.loss, row.learning_rate, row.gradient_norm) for row in progress.logged]
        _write_curve(partial / "loss.tsv", ("step", "loss", "learning_rate", "gradient_norm"), training)
        validation = [(row.step, row.loss, row.metric) for row in progress.evaluated]
        _write_curve(partial / "validation.tsv", ("step", "loss", metric), validation)


def _write_curve(path: Path, header: Sequence[str], rows: Iterable[Sequence[float]]) -> None:
    lines = ["\t".join(header), *("\t".join(f"{value:.6g}" if isinstance(value, float) else str(value) for value in row) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def metrics_of_run(progress: Progress, metric: str) -> dict[str, float]:
    """What ``metrics/train.json`` says: losses and metric are those of the validation split, unless they say otherwise."""
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


def figures_of(run: Run) -> dict[str, float]:
    """What the run cost since its process began: speed, padding, memory."""
    seconds, seen = run.watch.seconds, run.watch.throughput
    figures = {
        "training_seconds": round(seconds, 2),
        "samples_per_second": round(seen.samples / seconds, 2),
        "tokens_per_second": round(seen.tokens / seconds, 1),
        "padding_share": round(seen.padding, 4),
        "micro_batch_size": run.micro_batch_size,
        "processes": run.accelerator.num_processes,
    }
    if run.accelerator.device.type == "cuda":
        figures["peak_device_memory_mb"] = round(torch.cuda.max_memory_allocated() / 2**20, 1)
    return figures
