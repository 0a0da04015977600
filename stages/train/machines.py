"""Training on several machines: they must have the same inputs, and see the same checkpoints.

Each machine reads code, parameters and data of its own folder, which may be shared or a clone. A difference would otherwise show as
gradients of another task, or as processes that wait for each other.
"""

import os
import secrets
import socket
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from accelerate import Accelerator
from accelerate.utils import broadcast_object_list, gather_object

from stages.train.checkpoints import run_identity
from stages.train.data import data_files
from tuneline.errors import StageError
from tuneline.params import Params


def several_machines() -> bool:
    """Return True if processes of this training run on other machines, as torchrun and mpirun count them."""
    everywhere, here = os.environ.get("WORLD_SIZE", "1"), os.environ.get("LOCAL_WORLD_SIZE", "1")
    return int(everywhere) > int(here)


def common_identity(accelerator: Accelerator, params: Params, functions: Iterable[Path]) -> dict[str, Any]:
    """Return the identity of the run, which every machine computes from its own files. Every process calls it.

    Args:
        accelerator: Accelerator of the run.
        params: All parameters.
        functions: Files of the user's loss and metric.

    Raises:
        StageError: A machine has other code, parameters, libraries, data or devices than the main one.
    """
    identity = run_identity(params, accelerator, data_files(), functions) if accelerator.is_local_main_process else None
    gathered: list[tuple[str, dict[str, Any]]] = gather_object([(_machine(accelerator), identity)] if identity else [])
    main, expected = gathered[0]
    for machine, found in gathered[1:]:
        if found != expected:
            raise StageError(
                f"{machine} and {main} would train different models: {_first_difference(expected, found)}.",
                "Give both the same commit, params.yaml, data (`dvc pull`) and libraries, or let them share the project's folder.",
            )
    return expected


def check_unchanged(accelerator: Accelerator, before: Mapping[str, Any], params: Params, functions: Iterable[Path]) -> None:
    """Compare the files of all machines with those at the start: DVC looks only at those of the machine on which it runs.

    Raises:
        StageError: A machine differs from the main one, or from itself at the start.
    """
    if several_machines() and (now := common_identity(accelerator, params, functions)) != before:
        raise StageError(
            f"A file changed during the training: {_first_difference(before, now)}.", "Start again: `dvc repro` trains with the new file."
        )


def check_shared(accelerator: Accelerator, folder: Path) -> None:
    """Check that every machine sees the folder of the main process.

    Raises:
        StageError: One does not.
    """
    if not several_machines():
        return
    name = [f".seen-{secrets.token_hex(8)}"]  # a new name: network file systems remember for a while which files do not exist
    broadcast_object_list(name)
    probe = folder / name[0]
    if accelerator.is_main_process:
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch()
    accelerator.wait_for_everyone()
    seen: list[tuple[str, bool]] = gather_object([(_machine(accelerator), probe.exists())])
    if accelerator.is_main_process:
        probe.unlink()
    for machine, sees in seen:
        if not sees:
            raise StageError(
                f"{machine} does not see {folder} of {seen[0][0]}: checkpoints are written once, and every machine resumes from them.",
                "Let the machines share the project's folder (NFS, a shared volume), or mount one folder as checkpoints/ on each.",
            )


def _machine(accelerator: Accelerator) -> str:
    return f"machine {socket.gethostname()} (rank {accelerator.process_index})"


def _first_difference(expected: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    """Return the first key whose values differ, with both values."""
    ours, theirs = dict(_flat(expected)), dict(_flat(found))
    key = next(key for key in sorted({*ours, *theirs}) if ours.get(key) != theirs.get(key))
    return f"{key} is {str(theirs.get(key))[:40]} instead of {str(ours.get(key))[:40]}"


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}: ")
        else:
            yield f"{prefix}{key}", value
