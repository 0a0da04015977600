"""Checkpoints: a folder per run, keyed by what determines the model, and locked against a second training process.

A checkpoint is written under a temporary name, completed by a marker with checksums, brought to the disk and renamed; older ones are
removed only then. It is verified before use.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

from accelerate import Accelerator
from accelerate.utils import broadcast_object_list
from rich.filesize import decimal

import stages
from stages.train.devices import sharding
from stages.train.launch import describe_resume
from stages.train.marker import find_damage, write_marker
from stages.train.progress import Progress
from tuneline.errors import DiskError, StageError
from tuneline.files import replace_directory
from tuneline.files.hashes import file_hash
from tuneline.params import Params
from tuneline.paths import CHECKPOINTS
from tuneline.terminal import say

LOCK = CHECKPOINTS / ".lock"
LOCK_TIMEOUT = 30.0
"""Seconds. A killed run may leave a child process that is still saving."""
_PROGRESS = "progress.json"
_CODE = (
    "stages/train/**/*.py",
    "tuneline/batches.py",
    "tuneline/custom_metrics.py",
    "tuneline/files/schemas.py",
    "tuneline/files/shards.py",
    "tuneline/files/token_maps.py",
    "tuneline/functions.py",
    "tuneline/metrics.py",
)
_LIBRARIES = ("torch", "transformers", "accelerate", "peft", "numpy", "safetensors")


def run_identity(params: Params, accelerator: Accelerator, data: Iterable[Path], functions: Iterable[Path]) -> dict[str, Any]:
    """Return everything that determines the model, except rounding: a run can resume with another layout.

    The layout is the machines, the number of processes and threads, and the size of micro-batches: batches stay the same, but their
    sums are rounded differently.

    Args:
        params: All parameters; those of this stage are selected.
        accelerator: Source of device, precision and sharding.
        data: Files that the run reads.
        functions: Files of the user's loss and metric.
    """
    root = Path(stages.__file__).parents[1]
    code = sorted(path for pattern in _CODE for path in root.glob(pattern))
    return {
        "seed": params.seed,
        "model": params.model.model_dump(mode="json", include={"config"}),  # the checkpoint is in ``data``
        "train": params.train.model_dump(mode="json", exclude={"launch", "micro_batch_size"}),
        "data": {str(path): _hash_files([path]) for path in data},
        "code": _hash_files(code),
        "functions": {str(path): _hash_files([path]) for path in functions},
        "libraries": {name: version(name) for name in _LIBRARIES},
        "device": accelerator.device.type,
        "precision": accelerator.mixed_precision,
        "sharding": sharding(accelerator),
    }


def run_key(identity: Mapping[str, Any]) -> str:
    """Return a short hash of a run's identity: 16 hexadecimal digits."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]


@contextlib.contextmanager
def training_lock(accelerator: Accelerator) -> Iterator[None]:
    """Hold the training lock of this project. The system releases it when the process ends, however that happens.

    Raises:
        StageError: Another process holds the lock, and does not release it within ``LOCK_TIMEOUT``.
    """
    if not accelerator.is_main_process:
        yield
        return
    LOCK.parent.mkdir(parents=True, exist_ok=True)
    with LOCK.open("a+", encoding="utf-8") as file:
        _acquire(file)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


class Checkpoints:
    """Checkpoints of one run, in ``checkpoints/KEY/``. Every process calls every public method.

    The last ``keep`` checkpoints stay, and for each of them the checkpoint of its best step: whichever a run resumes from,
    its best weights exist.

    Args:
        accelerator: Accelerator that prepared model, optimizer and schedule.
        folder: Folder on a file system that all processes share.
        keep: Number of last checkpoints to keep.
    """

    def __init__(self, accelerator: Accelerator, folder: Path, keep: int) -> None:
        self._accelerator = accelerator
        self.folder = folder
        self._keep = keep
        self.current: Path | None = None

    def path(self, step: int) -> Path:
        """Return the path of the checkpoint of a step."""
        return self.folder / f"step-{step:08d}"

    def save(self, progress: Progress) -> None:
        """Write the state of the run after ``progress.step`` steps."""
        target = self.path(progress.step)
        if self.current == target:
            return
        with self._replace(target) as partial:
            self._accelerator.save_state(str(partial))
            self._accelerator.wait_for_everyone()
            if self._accelerator.is_main_process:
                progress.write(partial / _PROGRESS)
                write_marker(partial)
        if self._accelerator.is_main_process:
            self._prune()
        self._accelerator.wait_for_everyone()
        self.current = target

    def load(self, path: Path) -> Progress:
        """Restore model, optimizer, schedule, gradient scaler and random generators; return the progress."""
        self._accelerator.load_state(str(path))
        self.current = path
        return Progress.read(path / _PROGRESS)

    def newest(self, needs_best: bool) -> Path | None:
        """Return the newest complete checkpoint. Damaged ones are reported and removed.

        Args:
            needs_best: True if the run ends with its best weights: a checkpoint is then usable only together with the
                checkpoint of its best step.
        """
        newest = [self._newest(needs_best) if self._accelerator.is_main_process else None]
        broadcast_object_list(newest)
        return newest[0]

    def remove_all(self) -> None:
        """Remove the run's folder, once its outs are published."""
        self._accelerator.wait_for_everyone()
        if self._accelerator.is_main_process:
            _remove(self.folder)

    @contextlib.contextmanager
    def _replace(self, target: Path) -> Iterator[Path]:
        """Yield the folder that all processes write to. The main process renames it to ``target``, or removes it after an error.

        Raises:
            DiskError: The disk is full. The hint names the checkpoint from which the run goes on.
        """
        if not self._accelerator.is_main_process:
            folder = [""]
            broadcast_object_list(folder)
            yield Path(folder[0])
            return
        try:
            with replace_directory(target) as partial:
                broadcast_object_list([str(partial)])
                yield partial
        except DiskError as error:
            steps = self._all()
            size = sum(file.stat().st_size for file in steps[-1].rglob("*") if file.is_file()) if steps else 0
            problem = f"{error.problem} The last checkpoint takes {decimal(size)}." if size else error.problem
            raise DiskError(problem, f"{error.hint} {describe_resume(steps)}") from error

    def _newest(self, needs_best: bool) -> Path | None:
        for leftover in self.folder.glob(".*"):
            shutil.rmtree(leftover, ignore_errors=True)
        for path in reversed(self._all()):
            damage = find_damage(path) or (self._damage_of_best(path) if needs_best else None)
            if damage is None:
                return path
            say(f"train: removed checkpoint {path}, which cannot be used: {damage}")
            _remove(path)
        return None

    def _all(self) -> list[Path]:
        return sorted(self.folder.glob("step-*"))

    def _damage_of_best(self, path: Path) -> str | None:
        best = Progress.read(path / _PROGRESS).best_step
        if best == 0 or self.path(best) == path:
            return None
        damage = find_damage(self.path(best))
        return damage and f"the checkpoint of its best step, {self.path(best)}, is damaged: {damage}"

    def _prune(self) -> None:
        last = self._all()[-self._keep :]
        kept = {*last, *(self.path(Progress.read(path / _PROGRESS).best_step) for path in last)}
        for path in self._all():
            if path not in kept:
                _remove(path)


def _hash_files(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(bytes.fromhex(file_hash(path)))
    return digest.hexdigest()


def _remove(path: Path) -> None:
    """Rename a folder, then remove it: a half-removed folder is never taken for a checkpoint."""
    if path.exists():
        former = path.with_name(f".{path.name}.former")
        shutil.rmtree(former, ignore_errors=True)
        path.replace(former)
        shutil.rmtree(former)


def _acquire(file: IO[str]) -> None:
    deadline = time.monotonic() + LOCK_TIMEOUT
    while True:
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise StageError(
                    f"Process {LOCK.read_text(encoding='utf-8') or '(unknown)'} is already training in this folder.",
                    "Wait for it, or send it SIGTERM: it saves a checkpoint and stops.",
                ) from None
            time.sleep(0.2)
        else:
            return
