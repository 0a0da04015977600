"""Checkpoints of one run: complete states, written aside and renamed, checked before they are trusted."""

import json
import shutil
import zlib
from pathlib import Path
from typing import Any

from accelerate import Accelerator
from accelerate.utils import broadcast_object_list

from stages.train.progress import Progress

MARKER = "complete.json"
"""Written last: names every file of the checkpoint with its size and CRC-32."""
_PROGRESS = "progress.json"


class Checkpoints:
    """The folder ``checkpoints/KEY/`` of one run. Every method is called in every process.

    Kept are the last ``keep`` checkpoints, and the best one of each of them: whichever of them a run goes on from, its best
    weights are there.

    Args:
        accelerator: Of the run; model, optimizer and schedule are prepared by it.
        folder: On a file system that all processes share.
        keep: How many of the last ones stay.
    """

    def __init__(self, accelerator: Accelerator, folder: Path, keep: int) -> None:
        self._accelerator = accelerator
        self.folder = folder
        self._keep = keep
        self.saved: Path | None = None

    def path(self, step: int) -> Path:
        """The checkpoint of a step."""
        return self.folder / f"step-{step:08d}"

    def save(self, progress: Progress) -> None:
        """Writes the state of the run after ``progress.step`` steps."""
        target = self.path(progress.step)
        if self.saved == target:
            return
        partial = target.with_name(f".{target.name}.partial")
        if self._accelerator.is_main_process:
            self.folder.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(partial, ignore_errors=True)
        self._accelerator.wait_for_everyone()
        self._accelerator.save_state(str(partial))
        self._accelerator.wait_for_everyone()
        if self._accelerator.is_main_process:
            progress.write(partial / _PROGRESS)
            seal(partial)
            _remove(target)
            partial.replace(target)
            self._prune()
        self._accelerator.wait_for_everyone()
        self.saved = target

    def load(self, path: Path) -> Progress:
        """Puts model, optimizer, schedule, scaler and random generators back as they were."""
        self._accelerator.load_state(str(path))
        self.saved = path
        return Progress.read(path / _PROGRESS)

    def newest(self, best_wanted: bool) -> Path | None:
        """The newest checkpoint that is whole. Damaged ones are reported and removed.

        Args:
            best_wanted: The run will end with its best weights, so that a checkpoint is of use only together with the
                checkpoint of its best step.
        """
        found = [self._newest(best_wanted) if self._accelerator.is_main_process else None]
        broadcast_object_list(found)
        return found[0]

    def remove_all(self) -> None:
        """Removes the run's folder: its outs are published."""
        self._accelerator.wait_for_everyone()
        if self._accelerator.is_main_process:
            _remove(self.folder)

    def _newest(self, best_wanted: bool) -> Path | None:
        for leftover in self.folder.glob(".*"):
            shutil.rmtree(leftover, ignore_errors=True)
        for path in reversed(self._all()):
            fault = fault_of(path) or (self._fault_of_best(path) if best_wanted else None)
            if fault is None:
                return path
            print(f"train: checkpoint {path} is of no use and was removed: {fault}", flush=True)
            _remove(path)
        return None

    def _all(self) -> list[Path]:
        return sorted(self.folder.glob("step-*"))

    def _fault_of_best(self, path: Path) -> str | None:
        best = Progress.read(path / _PROGRESS).best_step
        if best == 0 or self.path(best) == path:
            return None
        fault = fault_of(self.path(best))
        return fault and f"its best weights, {self.path(best)}, cannot be used: {fault}"

    def _prune(self) -> None:
        last = self._all()[-self._keep :]
        wanted = {*last, *(self.path(Progress.read(path / _PROGRESS).best_step) for path in last)}
        for path in self._all():
            if path not in wanted:
                _remove(path)


def seal(folder: Path) -> None:
    """Writes the marker."""
    files = {str(path.relative_to(folder)): _print_of(path) for path in sorted(folder.rglob("*")) if path.is_file()}
    (folder / MARKER).write_text(json.dumps(files, indent=1), encoding="utf-8")


def fault_of(folder: Path) -> str | None:
    """What is wrong with a checkpoint, or ``None``."""
    try:
        files: dict[str, Any] = json.loads((folder / MARKER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return f"no readable {MARKER} in it"
    for name, expected in files.items():
        if not (folder / name).is_file():
            return f"{name} is missing"
        if _print_of(folder / name) != expected:
            return f"{name} is not what was written"
    return None


def _print_of(path: Path) -> list[int]:
    """Size and CRC-32: against damage, not against forgery."""
    crc = size = 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            crc, size = zlib.crc32(block, crc), size + len(block)
    return [size, crc]


def _remove(path: Path) -> None:
    """Renames first, so that a folder killed half-way through its removal is never taken for a checkpoint."""
    if path.exists():
        former = path.with_name(f".{path.name}.former")
        shutil.rmtree(former, ignore_errors=True)
        path.replace(former)
        shutil.rmtree(former)
