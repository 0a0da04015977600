"""Checkpoints: a folder per run, keyed by what determines the model.

A checkpoint is written under a temporary name, brought to the disk and renamed; older ones are removed only
then. So each folder ``step-*`` is complete.
"""

import contextlib
import shutil
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from accelerate import Accelerator
from accelerate.utils import broadcast_object_list

from tuneline.core.params import Params
from tuneline.core.runtime.errors import StageError
from tuneline.core.runtime.files import BusyError, locked, replace_directory
from tuneline.core.stage.code import code_hash
from tuneline.core.stage.records import file_hash
from tuneline.training.data import model_input_files
from tuneline.training.devices import TRAINING_LIBRARIES, sharding
from tuneline.training.progress import TrainingProgress

LOCK_TIMEOUT = 30.0
"""Seconds. A killed run may leave a child process that is still saving."""
_PROGRESS = "progress.json"


def run_identity(params: Params, accelerator: Accelerator, functions: Iterable[Path]) -> dict[str, Any]:
    """Return everything that determines the model, except rounding.

    A run can resume with another layout: kind of machine, number of processes and threads, and size of
    micro-batches. Batches stay the same, but their sums are rounded differently.
    """
    return {
        "seed": params.training_seed,
        "texts": len(params.data.text_columns),
        # the checkpoint is in ``data``
        "model": params.model.model_dump(mode="json", include={"config", "head"}),
        "train": params.train.model_dump(mode="json", exclude={"launch", "micro_batch_size"}),
        "data": {str(path): file_hash(path) for path in model_input_files()},
        "code": code_hash("train", folders=("stages",)),
        "libraries": {name: version(name) for name in TRAINING_LIBRARIES},
        "functions": {str(path): file_hash(path) for path in functions},
        "device": accelerator.device.type,
        "precision": accelerator.mixed_precision,
        "sharding": sharding(accelerator),
    }


@contextlib.contextmanager
def training_lock(accelerator: Accelerator, folder: Path) -> Iterator[None]:
    """Hold the lock of a run, whose checkpoints are in ``folder``, in the main process.

    The system releases it when the process ends, however that happens.

    Raises:
        StageError: If another process does not release it within ``LOCK_TIMEOUT``.
    """
    if not accelerator.is_main_process:
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with locked(folder / "lock", LOCK_TIMEOUT):
            yield
    except BusyError:
        raise StageError(
            "Another process is already training this model.",
            "Wait for it, or send it SIGTERM: it saves a checkpoint and stops.",
        ) from None


class Checkpoints:
    """Checkpoints of one run, in ``checkpoints/KEY/``. Every process calls every public method.

    The last checkpoint stays, and the one of its best step.
    """

    def __init__(self, accelerator: Accelerator, folder: Path) -> None:
        self._accelerator = accelerator
        self.folder = folder
        self.current: Path | None = None

    def path(self, step: int) -> Path:
        """Return the path of the checkpoint of a step."""
        return self.folder / f"step-{step:08d}"

    def save(self, progress: TrainingProgress) -> None:
        """Write the state of the run after ``progress.step`` steps."""
        target = self.path(progress.step)
        if self.current == target:
            return
        with self._replace(target) as partial:
            self._accelerator.save_state(str(partial))
            self._accelerator.wait_for_everyone()
            if self._accelerator.is_main_process:
                progress.write(partial / _PROGRESS)

        # older ones are removed only now that this one is complete
        if self._accelerator.is_main_process:
            for path in self.folder.glob("step-*"):
                if path not in (target, self.path(progress.best_step)):
                    _remove(path)
        self._accelerator.wait_for_everyone()
        self.current = target

    def load(self, path: Path) -> TrainingProgress:
        """Restore model, optimizer, schedule, gradient scaler and random generators; return the progress."""
        self._accelerator.load_state(str(path))
        self.current = path
        return TrainingProgress.read(path / _PROGRESS)

    def newest(self) -> Path | None:
        """Return the newest checkpoint, if there is one; remove what an ended process has left."""
        newest: list[Path | None] = [None]
        if self._accelerator.is_main_process:
            for leftover in self.folder.glob(".*"):
                shutil.rmtree(leftover, ignore_errors=True)
            newest = [max(self.folder.glob("step-*"), default=None)]
        broadcast_object_list(newest)
        return newest[0]

    def remove_all(self) -> None:
        """Remove the run's folder, once its outs are published."""
        self._accelerator.wait_for_everyone()
        if self._accelerator.is_main_process:
            _remove(self.folder)

    @contextlib.contextmanager
    def _replace(self, target: Path) -> Iterator[Path]:
        """Yield the folder that all processes write to.

        The main process renames it to ``target``, or removes it after an error.
        """
        if not self._accelerator.is_main_process:
            folder = [""]
            broadcast_object_list(folder)
            yield Path(folder[0])
            return
        with replace_directory(target) as partial:
            broadcast_object_list([str(partial)])
            yield partial


def _remove(path: Path) -> None:
    """Rename a folder, then remove it: a half-removed folder is never taken for a checkpoint."""
    if path.exists():
        former = path.with_name(f".{path.name}.former")
        shutil.rmtree(former, ignore_errors=True)
        path.replace(former)
        shutil.rmtree(former)
