"""``tuneline doctor``: check this machine and this checkout, and name the fix for each problem.

Libraries that only the checks need are imported in them: every ``tuneline`` command imports this module.
"""

import contextlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.metadata import distributions
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer
from rich.filesize import decimal
from rich.text import Text

from tuneline.cli.console import Console
from tuneline.core.base_source import BaseSource
from tuneline.core.errors import DataError, ParamsError, StageError
from tuneline.core.paths import BASE, BASE_RECORD, BASE_SOURCE, CORRECTIONS, ONNX, PARAMS, SOURCE
from tuneline.onnx.records import EXPORT_RECORD, UsageRecord
from tuneline.params import Params, TrainParams
from tuneline.params.loading import load_params
from tuneline.params.model import is_folder
from tuneline.project import git_hook
from tuneline.project.branches import parted, rewritten
from tuneline.project.drop_folder import labelled_files
from tuneline.project.registry import Version
from tuneline.project.repo import (
    COMMIT,
    REMOTE_TIMEOUT,
    git,
    registries,
    require_own_repository,
    uncommitted,
    unversioned,
    why_no_gate,
    why_not_in_cache,
    why_not_in_dvc_remote,
)
from tuneline.project.source_versions import OtherVersion, other_versions
from tuneline.readers.files import is_url, not_a_file, refuse_address, shown
from tuneline.settings import load_settings

if TYPE_CHECKING:
    from tuneline.core.launch import Devices

Level = Literal["ok", "warning", "error"]
COLOURS: Final = {"ok": "green", "warning": "yellow", "error": "bold red"}


@dataclass(frozen=True)
class DoctorResult:
    """Result of one check.

    Attributes:
        level: ``error``: the pipeline cannot run. ``warning``: it runs, but slowly or with a limit.
        hint: How to fix it; ``None`` if nothing is wrong.
    """

    level: Level
    message: str
    hint: str | None = None


ok = partial(DoctorResult, "ok")
warning, error = partial(DoctorResult, "warning"), partial(DoctorResult, "error")


def command(
    data: Annotated[
        bool, typer.Option("--data", help="Read DVC's cache of what dvc.lock names, to find damage")
    ] = False,
) -> None:
    """Check this machine and this checkout, and say how to fix what is wrong.

    Exit code 1 if there is an error.
    """
    console, errors = Console(), 0
    for check in (check_machine, check_checkout, check_registry, *[check_cache] * data):
        for result in check(Path()):
            errors += result.level == "error"
            console.print(
                Text(f"{result.level:>8}", COLOURS[result.level]), Text(result.message), soft_wrap=True
            )
            if result.hint:
                console.print(Text(f"{'':>8} -> {result.hint}", "dim"), soft_wrap=True)
    if errors:
        raise typer.Exit(1)


OLDEST_PYTHON, NEWEST_PYTHON = (3, 11), (3, 13)
MAX_PACKAGES_SHOWN = 6
GB = 2**30
CGROUP = Path("/sys/fs/cgroup")
NVIDIA_DRIVER = Path("/proc/driver/nvidia/version")
FREE_DISK_HINT = (
    "prefect deployment run clean/clean-weekly. Without the flows: git fetch --tags, then dvc gc --all-tags"
    " --all-branches while no run is in progress: it removes from DVC's cache what no branch or tag uses (add"
    " --all-experiments to keep experiments). Never only --workspace: that deletes the registered models."
)


def check_machine(root: Path) -> Iterator[DoctorResult]:
    """Yield the results for the interpreter, programs and packages, for cores, memory and disk, and for the int8 model."""
    import psutil

    from tuneline.core.machine import available_cores, cpu_quota

    yield check_python(sys.version_info[:2])
    yield check_programs(Path(sys.prefix), shutil.which("python"), shutil.which("dvc"))
    yield check_packages(root / "requirements.txt", installed_packages())
    yield check_cores(available_cores(), cpu_quota(), os.environ.get("OMP_NUM_THREADS"))
    yield check_memory(min(psutil.virtual_memory().available, available_in_container(CGROUP)))
    yield check_disk(root, shutil.disk_usage(root).free)
    yield from check_int8(root / ONNX)


def check_python(version: tuple[int, ...]) -> DoctorResult:
    """Check that the Python version, as ``(major, minor)``, is supported by the pinned requirements."""
    name = ".".join(map(str, version))
    if OLDEST_PYTHON <= version <= NEWEST_PYTHON:
        return ok(f"Python {name}")
    return error(
        f"Python {name} is not supported: 3.11 to 3.13 are", "make clean && make setup PYTHON=python3.12"
    )


def check_programs(prefix: Path, *programs: str | None) -> DoctorResult:
    """Check that PATH finds the programs of this environment, because ``dvc repro`` starts stages by PATH; ``None``: not found."""
    bin_folder = (prefix / "bin").resolve()
    elsewhere = [
        path or "none" for path in programs if path is None or Path(path).parent.resolve() != bin_folder
    ]
    if not elsewhere:
        return ok(f"python and dvc are in {bin_folder}")
    return warning(
        f"PATH finds {', '.join(elsewhere)} before {bin_folder}",
        f"source {bin_folder}/activate   (make run does this itself)",
    )


def installed_packages() -> dict[str, str]:
    """Return the version of every package in this environment by canonical name."""
    from packaging.utils import canonicalize_name

    return {canonicalize_name(package.name): package.version for package in distributions() if package.name}


def check_packages(lock: Path, versions: Mapping[str, str]) -> DoctorResult:
    """Check that every pinned package is installed in its pinned version; local builds such as ``+cpu`` count as the same version."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name
    from packaging.version import Version as PackageVersion

    if not lock.exists():
        return error(f"{lock} is missing", "Run this in the root of the project.")
    pins = [
        Requirement(line.rstrip("\\"))
        for line in lock.read_text(encoding="utf-8").splitlines()
        if line[:1].isalnum()
    ]
    required = {
        canonicalize_name(pin.name): str(pin.specifier)[2:]
        for pin in pins
        if pin.marker is None or pin.marker.evaluate()
    }
    wrong = [
        f"{name} {versions.get(name, 'missing')} (pinned: {version})"
        for name, version in required.items()
        if name not in versions or PackageVersion(versions[name]).public != PackageVersion(version).public
    ]
    if not wrong:
        return ok(f"{len(required)} packages as pinned")
    more = f", and {len(wrong) - MAX_PACKAGES_SHOWN} more" if len(wrong) > MAX_PACKAGES_SHOWN else ""
    return error(f"not as pinned in {lock.name}: {', '.join(wrong[:MAX_PACKAGES_SHOWN])}{more}", "make setup")


def check_cores(cores: int, quota: float | None, threads: str | None) -> DoctorResult:
    """Check that no more threads, the value of ``OMP_NUM_THREADS``, run than there are cores.

    A process may compute on ``cores`` physical ones; ``quota`` is what the container may use at a time,
    ``None`` for no limit.
    """
    limit = f" (the container may use {quota:g} at a time)" if quota is not None else ""
    if threads and threads.isdecimal() and int(threads) > cores:
        return warning(
            f"OMP_NUM_THREADS is {threads}, but only {cores} cores are available{limit}",
            "unset OMP_NUM_THREADS",
        )
    return ok(f"{cores} cores{limit}, {threads or cores} threads" + " (OMP_NUM_THREADS)" * bool(threads))


def available_in_container(cgroup: Path) -> float:
    """Return the bytes of memory that the container may still use (cgroup v2); infinite if it is not limited."""
    try:
        limit = (cgroup / "memory.max").read_text().strip()
        used = int((cgroup / "memory.current").read_text())
    except (OSError, ValueError):
        return float("inf")
    return float("inf") if limit == "max" else max(int(limit) - used, 0)


def check_memory(available: float) -> DoctorResult:
    """Check that the default pipeline fits into the available bytes: torch and its libraries take about 1 GB."""
    if available < 1.5 * GB:
        return warning(
            f"{available / GB:.1f} GB of memory are free; the pipeline needs 1.5 GB",
            "Close programs, or use a larger machine.",
        )
    return ok(f"{available / GB:.1f} GB of memory free")


def check_disk(root: Path, free: int) -> DoctorResult:
    """Check that the free bytes suffice for data, checkpoints and DVC's cache."""
    message = f"{free / GB:.1f} GB free on the disk of {root.resolve()}"
    if free < 0.5 * GB:
        return error(message, f"Free some space: {FREE_DISK_HINT}")
    if free < 5 * GB:
        return warning(f"{message}; checkpoints of a bert-base take 1.3 GB each", FREE_DISK_HINT)
    return ok(f"{free / GB:,.0f} GB of disk free")


def check_int8(folder: Path) -> Iterator[DoctorResult]:
    """Check that the exported int8 model computes the same on every processor; yield nothing if there is none."""
    record = UsageRecord.read_if_exists(folder / EXPORT_RECORD)
    model = record.models.get("int8") if record else None
    if model is None:
        return
    from tuneline.onnx.session import SAFE_WEIGHT_BITS, processor_saturates

    if model.weight_bits == SAFE_WEIGHT_BITS:
        yield ok("the int8 model computes the same on every processor (7-bit weights)")
        return
    saturates = "and this processor saturates their products: it has no VNNI"
    effect = f", {saturates}" if processor_saturates() else ": it needs a processor with VNNI, like this one"
    hint = "Set export.int8.reduce_range: true and run `dvc repro`."
    yield warning(f"{folder / model.file} has 8-bit weights{effect}", hint)


OUTPUT_FOLDERS = ("data", "models", "metrics", "plots", "reports", "checkpoints")


def check_checkout(root: Path) -> Iterator[DoctorResult]:
    """Yield the result of each check of the checkout in ``root``."""
    if not (root / "dvc.yaml").exists() or not (root / PARAMS).exists():
        problem = "is not a checkout of Tuneline: dvc.yaml or params.yaml is missing"
        yield error(f"{root.resolve()} {problem}", "Change to the root of the project.")
        return
    yield from check_git(root)
    try:
        require_own_repository(root)
    except StageError as problem:
        yield error(problem.problem, problem.hint or "")
    try:
        params = load_params(root / PARAMS)
    except ParamsError as invalid:
        yield error(str(invalid), "The comments in params.yaml describe every key.")
    else:
        yield ok("params.yaml is valid")
        yield check_launch_of_machine(root, params.train)
        yield check_source(root, params)
        yield check_base_model(root, params)
    yield check_corrections(root)
    yield check_partial_files(root)
    if not (root / ".dvc").is_dir():
        yield error("the folder .dvc is missing", "git checkout .dvc, or dvc init")
        return
    yield check_partial_copies(root)
    yield check_site_cache(root)
    special = check_special_files(root)
    yield special
    yield check_files_versioned(root)
    yield check_committed(root)
    yield from check_branch(root)
    if special.level == "ok":
        yield from check_data_and_outs(root)


def check_data_and_outs(root: Path) -> Iterator[DoctorResult]:
    """Check that the user's data is that of the ``.dvc`` files in git; if so, that every out is up to date.

    ``dvc status`` would take the data of another commit for changes, and its remedy, ``dvc repro``, would
    lose rows.
    """
    others = other_versions(root)
    for refusal in map(OtherVersion.error, others):
        yield error(refusal.problem, refusal.hint)
    if not others:
        yield check_pipeline(root)
    elif not git_hook.is_installed(root):
        yield warning(
            "in this clone, git pull and git switch bring no data",
            "python -m tuneline.project.git_hook   has git bring it, too",
        )


def check_branch(root: Path) -> Iterator[DoctorResult]:
    """Check the branch that flow ``ingest`` commits to, and that no labelled file waits for it."""
    try:
        ingest = load_settings(root).ingest
    except ParamsError as invalid:
        yield error(invalid.problem, invalid.hint)
        return
    for problem in (rewritten(root, ingest.branch), parted(root, ingest.branch)):
        if problem is not None:
            yield warning(problem.message, problem.hint)
    folders = [source.folder for source in ingest.sources if source.folder is not None]
    for folder in folders:
        late = [
            path
            for path in labelled_files(root / folder)
            if time.time() - path.lstat().st_ctime > LONGEST_WAIT
        ]
        if late:
            waiting = (
                f"{folder}/{late[0].name} has waited to be ingested for more than {LONGEST_WAIT // 3600}"
                " hours"
            )
            yield warning(
                waiting,
                "prefect deployment run ingest/ingest-daily --watch; its state says what it waits for",
            )


LONGEST_WAIT = 36 * 3600
"""Seconds after which a file of a drop folder should have been read: flow ``ingest`` runs once a day."""


def check_git(root: Path) -> Iterator[DoctorResult]:
    """Check that git is installed, and that the repository has a full history and a committer identity."""
    try:
        shallow = _run(root, "git", "rev-parse", "--is-shallow-repository")
    except FileNotFoundError:
        yield error("git is not installed", "apt-get install git")
        return
    if shallow.returncode:
        problem = (shallow.stderr.strip().splitlines() or ["not a repository"])[-1]
        yield error(f"git: {problem}", "DVC and the report need a git repository: git init, or clone again.")
        return
    if shallow.stdout.strip() == "true":
        effect = "the report may have no commit to compare with"
        yield warning(f"this clone is shallow: {effect}", "git fetch --unshallow   (in CI: fetch-depth: 0)")
    if _run(root, "git", "var", "GIT_COMMITTER_IDENT").returncode:
        yield warning(
            "git has no committer name or email: commits will fail",
            "git config user.name ...; git config user.email ...",
        )
    yield ok("git")


def check_launch_of_machine(root: Path, params: TrainParams) -> DoctorResult:
    """Check that the launch configuration exists, suits the machine and leaves no GPU unused; say what ``auto`` chooses."""
    from tuneline.core import launch, machine

    try:
        with contextlib.chdir(root):
            is_for_gpu = launch.needs_gpu(params.launch)
            launch.check_launch(params.launch, params.optimizer)
            if params.launch == launch.AUTO:
                return check_choice(
                    launch.find_devices(), params, installed_packages().get("torch"), NVIDIA_DRIVER.exists()
                )
    except ParamsError as invalid:
        return error(invalid.problem, invalid.hint)
    if not is_for_gpu and machine.why_no_accelerator() is None and sys.platform != "darwin":
        return warning(
            f"train.launch {params.launch} does not use the GPU of this machine",
            "tuneline run train.launch=auto",
        )
    return ok(f"train.launch {params.launch}")


def check_choice(devices: "Devices", params: TrainParams, torch: str | None, driver: bool) -> DoctorResult:
    """Say what ``train.launch: auto`` chooses, and check that it does not overlook a GPU, of which the NVIDIA driver tells."""
    from tuneline.core.launch import choose_processes

    choice = choose_processes(devices, params.global_batch_size, params.mixed_precision)
    message = f"train.launch auto chooses {choice}" + (f" ({devices.why_cpu})" if devices.why_cpu else "")
    if driver and torch is not None and torch.endswith("+cpu"):
        return warning(
            message,
            "This machine has a GPU. Install the CUDA build of torch: README.md, 'torch with or without"
            " CUDA'.",
        )
    return ok(message)


def check_source(root: Path, params: Params) -> DoctorResult:
    """Check that the data set named by ``data`` can be read: the files exist, or the hub may be contacted."""
    if params.data.source == "hub" and os.environ.get("HF_HUB_OFFLINE", "0") not in {"", "0"}:
        return warning(
            "data.source is hub and HF_HUB_OFFLINE is set: only data in the local cache can be read",
            "unset HF_HUB_OFFLINE",
        )
    if params.data.source != "files":
        return ok(f"data.source: {params.data.source}")
    if is_url(params.data.path or ""):
        try:
            refuse_address("data.path", str(params.data.path))
        except DataError as refused:
            return error(refused.problem, refused.hint)
        return ok(f"data.source: files in {shown(str(params.data.path))}")
    folder = root / SOURCE / (params.data.path or "")
    specs = params.data.source_specs.values()
    names = sorted({name for spec in specs for name in re.findall(r"(?:^|\+)\s*(\w+)", spec)})
    files = [path.name for path in folder.glob("*")] if folder.is_dir() else []
    missing = [
        name
        for name in names
        if not any(file.startswith(f"{name}.") and not file.endswith(".dvc") for file in files)
    ]
    if not missing:
        return ok(f"data.source: files in {folder}")
    return error(
        f"{folder} has no file for {' and '.join(missing)}",
        "tuneline init FILE.csv; if DVC tracks the files: dvc pull",
    )


def check_corrections(root: Path) -> DoctorResult:
    """Check that the corrections of the data are there, can be read, and are committed."""
    from tuneline.analysis.corrections import Corrections

    if not (root / CORRECTIONS).is_dir():
        return error(
            f"{CORRECTIONS}/ is missing, and the stage download depends on it", f"git checkout {CORRECTIONS}"
        )
    try:
        corrections = Corrections.read(root / CORRECTIONS)
    except DataError as invalid:
        return error(invalid.problem, invalid.hint or f"git diff {CORRECTIONS}")
    if changed := _run(root, "git", "status", "--porcelain", "--", f"{CORRECTIONS}/*.csv").stdout.split():
        problem = f"{changed[-1]} is not committed: only this checkout trains on the corrected data"
        return warning(problem, f"git add {CORRECTIONS}, and commit")
    return ok(
        f"{CORRECTIONS}: {corrections.labels.num_rows:,} labels, {corrections.dropped.num_rows:,} dropped"
        " rows"
    )


def check_special_files(root: Path) -> DoctorResult:
    """Check that ``data/source`` has only files and folders: DVC hashes all that is there, and waits for a pipe without end."""
    for path in sorted((root / SOURCE).rglob("*")):
        if not path.is_dir() and (problem := not_a_file(path)):
            name, effect = (
                path.relative_to(root),
                "waits for it without end" if path.is_fifo() else "cannot hash it",
            )
            return error(f"{name} {problem}: DVC {effect}", f"rm '{name}'")
    return ok(f"{SOURCE}: only files and folders")


def check_files_versioned(root: Path) -> DoctorResult:
    """Check that git or DVC has the files of the user: experiments, queues and other machines get no other ones."""
    if paths := unversioned(root):
        names = " ".join(f"'{path}'" for path in paths)
        return warning(
            f"neither git nor DVC has {', '.join(map(str, paths))}: experiments and other machines lack it",
            f"dvc add {names}",
        )
    return ok(f"{SOURCE}, {BASE_SOURCE}: git or DVC has all files")


def check_committed(root: Path) -> DoctorResult:
    """Check that git has all that a result was made of."""
    names = uncommitted(root)
    if not names:
        return ok("git has all files of the result")
    others = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    problem = (
        f"git does not have {', '.join(names[:MOST_NAMES])}{others}: nobody can repeat a commit without them"
    )
    return warning(problem, COMMIT)


MOST_NAMES = 3
"""Files that are named one by one."""


def check_base_model(root: Path, params: Params) -> DoctorResult:
    """Check that the checkpoint and tokenizer can be read: the folder exists, or the hub may be contacted or is not needed."""
    names = {"model.checkpoint": params.model.checkpoint, "tokenize.tokenizer": params.tokenize.tokenizer}
    for key, name in names.items():
        if name and is_folder(name) and not (root / name / "config.json").exists():
            hint = f"save_pretrained('{name}'); if DVC tracks the folder: dvc pull {name}"
            return error(f"{key}: {root / name} has no config.json", hint)
    base = BaseSource.read_if_valid(root / BASE_RECORD)
    present = {source.name for source in (base.checkpoint, base.tokenizer) if source} if base else set()
    missing = [name for name in names.values() if name and not is_folder(name) and name not in present]
    if missing and os.environ.get("HF_HUB_OFFLINE", "0") not in {"", "0"}:
        return warning(
            f"{missing[0]} is not in {BASE}, and HF_HUB_OFFLINE is set",
            "unset HF_HUB_OFFLINE, or dvc pull base",
        )
    return ok(f"model.checkpoint: {params.model.checkpoint or 'none, trained from scratch'}")


def check_partial_files(root: Path) -> DoctorResult:
    """Check that no killed run left partially written files."""
    patterns = (".*.partial", ".*.former", ".*.resumable")
    partial = [
        path for folder in OUTPUT_FOLDERS for pattern in patterns for path in (root / folder).rglob(pattern)
    ]
    if not partial:
        return ok("no partially written files")
    names = ", ".join(str(path.relative_to(root)) for path in partial[:3])
    return warning(
        f"a run was killed while it wrote {names}",
        "Harmless: the next run of that stage continues or removes it.",
    )


def check_partial_copies(root: Path) -> DoctorResult:
    """Check that DVC left no half copy in its cache, which a full disk or a kill leaves and nothing removes."""
    copies = [
        path
        for pattern in ("*/.*.tmp", "*/*/.*.tmp")
        for path in (root / ".dvc" / "cache" / "files").glob(pattern)
    ]
    if not copies:
        return ok("no partial copies in DVC's cache")
    size = sum(path.stat().st_size for path in copies)
    return warning(
        f"{len(copies)} partial copies in DVC's cache take {decimal(size)}: it was ended, or the disk was"
        " full",
        "When no dvc is running: find .dvc/cache/files -name '.*.tmp' -delete",
    )


def check_cache(root: Path) -> Iterator[DoctorResult]:
    """Compare the objects of DVC's cache that ``dvc.lock`` names with their hashes: DVC itself takes them for what they were."""
    from tuneline.project.dvc import cached_objects, is_intact, read_lock

    objects = {stored: path for path, stored in cached_objects(root, read_lock(root))}
    damaged = [stored for stored in objects if not is_intact(stored)]
    for stored in damaged:
        hint = (
            f"rm -f {stored}; then dvc pull, or without a DVC remote, dvc repro -f STAGE for the stage that"
            " writes it"
        )
        yield error(f"DVC's cache is damaged: {stored} is not {objects[stored]} as it was stored", hint)
    if not damaged:
        size = decimal(sum(stored.stat().st_size for stored in objects))
        yield ok(f"DVC's cache has what dvc.lock names undamaged: {len(objects)} files, {size}")


def check_site_cache(root: Path) -> DoctorResult:
    """Check that no other user can write to DVC's site cache: DVC unpickles it, so whoever writes there runs code as who runs DVC."""
    from dvc.config import Config
    from dvc.dirs import site_cache_dir

    folder = Path(site_cache_dir(Config(dvc_dir=str(root / ".dvc"))["core"].get("site_cache_dir"))).absolute()
    if not _open_to_others(folder):
        return ok("DVC's site cache is closed to other users")
    return warning(
        f"other users of this machine can write to DVC's site cache in {folder}, and run code as you when you"
        " run DVC",
        "make setup   (without make: python -m tuneline.project.site_cache)",
    )


def _open_to_others(folder: Path) -> bool:
    """Return True if others than the owner and the group may change what DVC puts there.

    DVC makes a missing folder writable for all.
    """
    for path in (*reversed(folder.parents), folder):
        if not path.exists():
            return True
        status = path.stat()
        if status.st_uid not in {0, os.getuid()} or (
            status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX
        ):
            return True
        if not status.st_mode & stat.S_IXOTH:
            return False
    return True


def check_pipeline(root: Path) -> DoctorResult:
    """Check with ``dvc status`` that every out is up to date with its inputs."""
    done = _run(root, sys.executable, "-m", "dvc", "status", "--json")
    if not done.returncode:
        changed = list(json.loads(done.stdout or "{}"))
        hint = "make run, or dvc repro; if another machine has pushed these results: dvc pull"
        return (
            warning(f"not up to date: {', '.join(changed)}", hint)
            if changed
            else ok("the pipeline is up to date")
        )
    if "dvc.lock' validation failed" in done.stderr or "dvc.lock' is invalid" in done.stderr:
        hint = (
            "git checkout dvc.lock (rm, if it was never committed), then dvc repro: DVC's cache has what"
            " finished stages made."
        )
        return error("dvc.lock is damaged: DVC was ended, or the disk was full, while it wrote it", hint)
    if "Unable to acquire lock" in done.stderr or "is being blocked by" in done.stderr:
        hint = "Wait until it ends. `dvc repro` fails while the lock is held."
        return warning("DVC is locked: a pipeline run is in progress, or was killed a moment ago", hint)
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return error(f"dvc status: {lines[0] if lines else 'failed'}", "dvc status -v prints the details")


def _run(root: Path, *command: str, timeout: float | None = None) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "DVC_NO_ANALYTICS": "1", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    return subprocess.run(
        command, cwd=root, capture_output=True, text=True, check=False, env=env, timeout=timeout
    )


HINT = "With a git remote `origin` and a default DVC remote: python -m flows.promotion publish"
LOST_HINT = (
    "If another machine has them, there: python -m flows.promotion publish. Else: python -m flows.promotion"
    " rollback --to VERSION"
)


def check_registry(root: Path) -> Iterator[DoctorResult]:
    """Check each version that is in a stage: that its files are somewhere, with a second copy, and that a gate decided about it."""
    for artifact, tags in registries(root).items():
        for stage in tags.stages:
            if version := tags.in_stage(stage):
                yield check_copies(root, artifact, stage, version)
                if ungated := why_no_gate(root, tags, stage):
                    yield warning(
                        ungated,
                        f"If nobody meant it: python -m flows.promotion rollback. gto history {artifact}",
                    )


def check_copies(root: Path, artifact: str, stage: str, version: Version) -> DoctorResult:
    """Check that the files of a version are in DVC's cache or remote, and that it has a second copy: of its tag, in ``origin``."""
    message = f"{artifact} {version.name}, which is in {stage}"
    not_here, not_there = (
        why_not_in_cache(root, artifact, version.commit),
        why_not_in_dvc_remote(root, artifact, version.commit),
    )
    if not_here and not_there:
        return error(f"{message}, cannot be fetched: {not_here}, and {not_there}", LOST_HINT)
    missing = list(filter(None, (not_there, _why_not_in_origin(root, artifact, version))))
    if missing:
        return warning(f"{message}, has no second copy: {'; '.join(missing)}", HINT)
    return ok(f"{message}, is in the DVC remote and in origin")


def _why_not_in_origin(root: Path, artifact: str, version: Version) -> str | None:
    """Return why ``origin`` does not have the tag of a version, as far as is known; ``None`` if it has it."""
    if "origin" not in git(root, "remote").split():
        return "there is no git remote origin"
    try:
        done = _run(
            root,
            "git",
            "ls-remote",
            "origin",
            f"refs/tags/{artifact}@{version.name}*",
            timeout=REMOTE_TIMEOUT,
        )
    except subprocess.TimeoutExpired:
        return f"origin did not answer within {REMOTE_TIMEOUT:g} seconds"
    if done.returncode:
        return f"origin cannot be asked ({done.stderr.strip().splitlines()[0]})"
    return None if version.commit in done.stdout else "origin does not have its tag"
