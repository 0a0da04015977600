"""What determines a run. Checkpoints are kept under its key: the same run goes on, a changed one starts anew."""

import hashlib
import json
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from accelerate import Accelerator

import stages
from tuneline.params import Params

BOOKKEEPING = frozenset(
    {"launch", "checkpoint_every_steps", "checkpoint_every_minutes", "checkpoint_every_epochs", "keep_checkpoints", "trackers"}
)
"""Keys of ``train`` that change nothing in what comes out. They are not among the stage's params in dvc.yaml either."""
_CODE = ("stages/train/**/*.py", "tuneline/batches.py", "tuneline/files/schemas.py", "tuneline/metrics.py")
_LIBRARIES = ("torch", "transformers", "accelerate", "peft", "numpy", "safetensors")


def facts_of(params: Params, accelerator: Accelerator, data: Iterable[Path]) -> dict[str, Any]:
    """Everything that determines the bytes of the model, but for the machine and its number of threads.

    Args:
        params: All parameters; those that matter to this stage are picked.
        accelerator: Knows device, precision and number of processes.
        data: Files that the run reads.
    """
    root = Path(stages.__file__).parents[1]
    code = sorted(path for pattern in _CODE for path in root.glob(pattern))
    return {
        "seed": params.seed,
        "model": params.model.model_dump(mode="json"),
        "train": params.train.model_dump(mode="json", exclude=set(BOOKKEEPING)),
        "data": {str(path): _hash([path]) for path in data},
        "code": _hash(code),
        "libraries": {name: version(name) for name in _LIBRARIES},
        "processes": accelerator.num_processes,
        "distributed": accelerator.distributed_type.value,
        "device": accelerator.device.type,
        "precision": accelerator.mixed_precision,
    }


def key_of(facts: dict[str, Any]) -> str:
    """A short name for the facts: 16 hexadecimal digits."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def _hash(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()
