"""Checkpoints: a folder per run, keyed by what determines the model, and a lock against a second training.

A checkpoint is written under a temporary name, completed by a marker with checksums, brought to the disk and
renamed; older ones are removed only then. It is verified before use.
"""

import contextlib
import json
import os
import secrets
import shutil
import socket
import zlib
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from accelerate import Accelerator
from accelerate.utils import broadcast_object_list, gather_object
from rich.filesize import decimal

from stages.train.data import model_input_files
from stages.train.devices import several_machines, sharding
from stages.train.launch import describe_resume
from stages.train.progress import TrainingProgress
from tuneline.core.hashes import file_hash
from tuneline.core.pipeline_code import stage_code
from tuneline.params import Params
from tuneline.runtime.atomic_files import replace_directory
from tuneline.runtime.errors import DiskError, StageError
from tuneline.runtime.locks import BusyError, locked
from tuneline.runtime.terminal import say

MARKER = "complete.json"


def write_marker(folder: Path) -> None:
    """Write the marker, which completes a checkpoint."""
    files = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            files[str(path.relative_to(folder))] = _size_and_crc(path)
    (folder / MARKER).write_text(json.dumps(files, indent=1), encoding="utf-8")


def find_damage(folder: Path) -> str | None:
    """Return the first problem of a checkpoint, or ``None`` if it is complete."""
    try:
        files: dict[str, Any] = json.loads((folder / MARKER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return f"{MARKER} is missing or unreadable"
    for name, expected in files.items():
        if not (folder / name).is_file():
            return f"{name} is missing"
        if _size_and_crc(folder / name) != expected:
            return f"{name} differs from its checksum"
    return None


def _size_and_crc(path: Path) -> list[int]:
    """Return size in bytes and CRC-32."""
    crc = 0
    size = 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            crc = zlib.crc32(block, crc)
            size += len(block)
    return [size, crc]


LOCK_TIMEOUT = 30.0
"""Seconds. A killed run may leave a child process that is still saving."""
_PROGRESS = "progress.json"
_LIBRARIES = ("torch", "transformers", "accelerate", "peft", "numpy", "safetensors")


def library_versions() -> dict[str, str]:
    """Return the versions of the libraries that compute a model."""
    return {name: version(name) for name in _LIBRARIES}


def run_identity(
    params: Params, accelerator: Accelerator, data: Iterable[Path], functions: Iterable[Path]
) -> dict[str, Any]:
    """Return everything that determines the model, except rounding.

    A run can resume with another layout, as a ``TrainingSegment``: the machines and their kind, the number of
    processes and threads, and the size of micro-batches. Batches stay the same, but their sums are rounded
    differently.
    """
    return {
        **run_inputs(params, data),
        "functions": {str(path): file_hash(path) for path in functions},
        "device": accelerator.device.type,
        "precision": accelerator.mixed_precision,
        "sharding": sharding(accelerator),
    }


def run_inputs(params: Params, data: Iterable[Path]) -> dict[str, Any]:
    """Return the part of a run's identity that is known before its devices.

    It has the parameters, data, code and libraries.
    """
    layout_params = {"launch", "micro_batch_size", "micro_batch_tokens"}
    return {
        "seed": params.training_seed,
        "model": params.model.model_dump(mode="json", include={"config"}),  # the checkpoint is in ``data``
        "train": params.train.model_dump(mode="json", exclude=layout_params),
        "data": {str(path): file_hash(path) for path in data},
        "code": stage_code("train"),
        "libraries": library_versions(),
    }


def common_identity(accelerator: Accelerator, params: Params, functions: Iterable[Path]) -> dict[str, Any]:
    """Return the identity of the run, which every machine computes from its own files.

    Every process calls it. A machine with other code, parameters, libraries, data or devices than the main
    one is refused.
    """
    identities = []
    if accelerator.is_local_main_process:
        identity = run_identity(params, accelerator, model_input_files(), functions)
        identities.append((_machine(accelerator), identity))
    gathered: list[tuple[str, dict[str, Any]]] = gather_object(identities)

    main_machine, expected = gathered[0]
    for machine, identity in gathered[1:]:
        if identity != expected:
            raise StageError(
                f"{machine} and {main_machine} would train different models:"
                f" {_first_difference(expected, identity)}.",
                "Give both the same commit, params.yaml, data (`dvc pull`) and libraries, or let them share"
                " the project's folder.",
            )
    return expected


def check_unchanged(
    accelerator: Accelerator, before: Mapping[str, Any], params: Params, functions: Iterable[Path]
) -> None:
    """Check that no file changed on any machine since the start.

    On one machine there is nothing to do: DVC checks the files of the machine on which it runs.
    """
    if not several_machines():
        return
    now = common_identity(accelerator, params, functions)
    if now != before:
        raise StageError(
            f"A file changed during the training: {_first_difference(before, now)}.",
            "Start again: `dvc repro` trains with the new file.",
        )


def check_shared(accelerator: Accelerator, folder: Path) -> None:
    """Check that every machine sees the folder of the main process."""
    if not several_machines():
        return
    # the main process writes a file; its name is new, because network file systems remember for a while
    # which files do not exist
    name = [f".seen-{secrets.token_hex(8)}"]
    broadcast_object_list(name)
    probe = folder / name[0]
    if accelerator.is_main_process:
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch()
    accelerator.wait_for_everyone()

    # all look for it
    answers: list[tuple[str, bool]] = gather_object([(_machine(accelerator), probe.exists())])
    if accelerator.is_main_process:
        probe.unlink()
    main_machine, _ = answers[0]
    for machine, sees_folder in answers:
        if not sees_folder:
            raise StageError(
                f"{machine} does not see {folder} of {main_machine}: checkpoints are written once, and every"
                " machine resumes from them.",
                "Let the machines share the project's folder (NFS, a shared volume), or mount one folder as"
                " checkpoints/ on each.",
            )


def _machine(accelerator: Accelerator) -> str:
    return f"machine {socket.gethostname()} (rank {accelerator.process_index})"


def _first_difference(expected: Mapping[str, Any], actual: Mapping[str, Any]) -> str:
    """Return the first key whose values differ, with both values."""
    expected_values = dict(_flat(expected))
    actual_values = dict(_flat(actual))
    keys = sorted(expected_values.keys() | actual_values.keys())
    key = next(key for key in keys if actual_values.get(key) != expected_values.get(key))
    return f"{key} is {str(actual_values.get(key))[:40]} instead of {str(expected_values.get(key))[:40]}"


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of a nested mapping with the path of keys to each of them."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}: ")
        else:
            yield f"{prefix}{key}", value


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
    file_of_lock = folder / "lock"
    folder.mkdir(parents=True, exist_ok=True)
    # a stack: only taking the lock may raise BusyError, not the block
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(locked(file_of_lock, LOCK_TIMEOUT))
        except BusyError:
            owner = file_of_lock.read_text(encoding="utf-8") or "(unknown)"
            raise StageError(
                f"Process {owner} is already training this model.",
                "Wait for it, or send it SIGTERM: it saves a checkpoint and stops.",
            ) from None
        os.ftruncate(file, 0)
        os.write(file, str(os.getpid()).encode())
        yield


class Checkpoints:
    """Checkpoints of one run, in ``checkpoints/KEY/``. Every process calls every public method.

    The last ``keep`` checkpoints stay, and for each of them the checkpoint of its best step: whichever a run
    resumes from, its best weights exist.
    """

    def __init__(self, accelerator: Accelerator, folder: Path, keep: int) -> None:
        self._accelerator = accelerator
        self.folder = folder
        self._keep = keep
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
            # the marker comes last: it has the checksums of all files, of all processes
            if self._accelerator.is_main_process:
                progress.write(partial / _PROGRESS)
                write_marker(partial)

        # older ones are removed only now that this one is complete
        if self._accelerator.is_main_process:
            self._prune()
        self._accelerator.wait_for_everyone()
        self.current = target

    def load(self, path: Path) -> TrainingProgress:
        """Restore model, optimizer, schedule, gradient scaler and random generators; return the progress."""
        self._accelerator.load_state(str(path))
        self.current = path
        return TrainingProgress.read(path / _PROGRESS)

    def newest(self, needs_best: bool) -> Path | None:
        """Return the newest complete checkpoint. Damaged ones are reported and removed.

        With ``needs_best``, the run ends with its best weights: a checkpoint is then usable only with the
        checkpoint of its best step.
        """
        newest: list[Path | None] = [None]
        if self._accelerator.is_main_process:
            newest = [self._newest(needs_best)]
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

        The main process renames it to ``target``, or removes it after an error. If the disk is full, the hint
        of the error names the checkpoint from which the run resumes.
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
            problem = error.problem
            checkpoints = self._all()
            if checkpoints:
                files = [path for path in checkpoints[-1].rglob("*") if path.is_file()]
                size = sum(file.stat().st_size for file in files)
                problem += f" The last checkpoint takes {decimal(size)}."
            raise DiskError(problem, f"{error.hint} {describe_resume(checkpoints)}") from error

    def _newest(self, needs_best: bool) -> Path | None:
        """Return the newest usable checkpoint; remove what an ended process left, and damaged checkpoints."""
        for leftover in self.folder.glob(".*"):
            shutil.rmtree(leftover, ignore_errors=True)
        for path in reversed(self._all()):
            problem = self._find_problem(path, needs_best)
            if problem is None:
                return path
            say(f"train: removed checkpoint {path}, which cannot be used: {problem}")
            _remove(path)
        return None

    def _find_problem(self, path: Path, needs_best: bool) -> str | None:
        """Return why a run cannot resume from a checkpoint; ``None`` if it can."""
        damage = find_damage(path)
        if damage is not None or not needs_best:
            return damage
        best_step = self._best_step(path)
        if not best_step or self.path(best_step) == path:
            return None
        best = self.path(best_step)
        damage = find_damage(best)
        if damage is not None:
            return f"the checkpoint of its best step, {best}, is damaged: {damage}"
        return None

    def _best_step(self, path: Path) -> int:
        """Return the step of the best evaluation before a checkpoint; 0 if it had none."""
        return TrainingProgress.read(path / _PROGRESS).best_step

    def _all(self) -> list[Path]:
        """Return the checkpoints of the run, the newest last."""
        return sorted(self.folder.glob("step-*"))

    def _prune(self) -> None:
        """Remove all checkpoints but the last ones and the checkpoints of their best steps."""
        last = self._all()[-self._keep :]
        kept = set(last)
        for path in last:
            kept.add(self.path(self._best_step(path)))
        for path in self._all():
            if path not in kept:
                _remove(path)


def _remove(path: Path) -> None:
    """Rename a folder, then remove it: a half-removed folder is never taken for a checkpoint."""
    if path.exists():
        former = path.with_name(f".{path.name}.former")
        shutil.rmtree(former, ignore_errors=True)
        path.replace(former)
        shutil.rmtree(former)
