"""``tuneline doctor``: check this machine and this checkout, and name the fix for each problem.

Libraries that only the checks need are imported in them: every ``tuneline`` command imports this module.
"""

import contextlib
import getpass
import json
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import distributions
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer
from rich.filesize import decimal
from rich.text import Text

import tuneline
from tuneline.checkpoints.lfs_pointers import is_lfs_pointer
from tuneline.cli.console import Console
from tuneline.core.base_source import BaseSource
from tuneline.onnx.usage import EXPORT_RECORD, UsageRecord
from tuneline.params import Params, TrainParams
from tuneline.params.loading import load_params
from tuneline.params.model import is_folder
from tuneline.paths import BASE, BASE_RECORD, BASE_SOURCE, CORRECTIONS, ONNX, PARAMS, SOURCE
from tuneline.readers.files import is_url, not_a_file, refuse_address, shown
from tuneline.repository import git_hook
from tuneline.repository.branches import parted, rewritten
from tuneline.repository.dvc_locks import DVC_LOCK, RWLOCK, is_rwlock_damaged, processes_with, stage_processes
from tuneline.repository.git import (
    COMMIT,
    REMOTE_TIMEOUT,
    ForeignRepositoryError,
    git,
    refuse_foreign,
    registries,
    require_own_repository,
    uncommitted,
    unversioned,
    why_no_gate,
    why_not_in_cache,
    why_not_in_dvc_remote,
)
from tuneline.repository.programs import dvc_error
from tuneline.repository.registry import Version, deletion
from tuneline.repository.source_versions import other_versions
from tuneline.runtime.errors import DataError, ParamsError, StageError
from tuneline.runtime.terminal import visible
from tuneline.runtime.wording import first_of
from tuneline.settings import load_settings

if TYPE_CHECKING:
    from tuneline.core.launch import Devices

CheckLevel = Literal["ok", "warning", "error"]
COLOURS: Final = {"ok": "green", "warning": "yellow", "error": "bold red"}


@dataclass(frozen=True)
class DoctorResult:
    """Result of one check.

    Attributes:
        level: ``error``: the pipeline cannot run. ``warning``: it runs, but slowly or with a limit.
        hint: How to fix it; ``None`` if nothing is wrong.
    """

    level: CheckLevel
    message: str
    hint: str | None = None


ok = partial(DoctorResult, "ok")
warning = partial(DoctorResult, "warning")
error = partial(DoctorResult, "error")


def command(
    data: Annotated[
        bool, typer.Option("--data", help="Read DVC's cache of what dvc.lock names, to find damage")
    ] = False,
) -> None:
    """Check this machine and this checkout, and say how to fix what is wrong.

    Exit code 1 if there is an error.
    """
    checks = [check_machine, check_checkout, check_registry]
    if data:
        checks.append(check_cache)

    console = Console()
    has_error = False
    for result in all_results(checks, Path()):  # printed as they come: some checks take seconds
        if result.level == "error":
            has_error = True
        level = Text(f"{result.level:>8}", COLOURS[result.level])
        console.print(level, Text(result.message), soft_wrap=True)
        if result.hint:
            console.print(Text(f"{'':>8} -> {result.hint}", "dim"), soft_wrap=True)
    if has_error:
        raise typer.Exit(1)


def all_results(
    checks: Sequence[Callable[[Path], Iterator[DoctorResult]]], root: Path
) -> Iterator[DoctorResult]:
    """Yield the results of checks. Of a repository that git does not read, no facts are known."""
    try:
        for check in checks:
            yield from check(root)
    except ForeignRepositoryError as foreign:
        yield error(foreign.problem, foreign.hint)


OLDEST_PYTHON = (3, 11)
NEWEST_PYTHON = (3, 13)
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
    """Check the interpreter, programs and packages, cores, memory and disk, and the int8 model."""
    import psutil

    from tuneline.core.machine import available_cores, cpu_quota

    yield check_python(sys.version_info[:2])
    yield check_programs(Path(sys.prefix), shutil.which("python"), shutil.which("dvc"))
    yield check_packages(root / "requirements.txt", installed_packages())
    yield check_cores(available_cores(), cpu_quota(), os.environ.get("OMP_NUM_THREADS"))
    yield check_memory(min(psutil.virtual_memory().available, available_in_container(CGROUP)))
    yield check_disk(root, shutil.disk_usage(root).free)
    yield from check_user()
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
    """Check that PATH finds the programs of this environment, because ``dvc repro`` starts stages by PATH.

    Args:
        prefix: Folder of this environment.
        programs: What PATH finds for each program; ``None`` if it finds nothing.
    """
    bin_folder = (prefix / "bin").resolve()
    elsewhere = []
    for path in programs:
        if path is None:
            elsewhere.append("none")
        elif Path(path).parent.resolve() != bin_folder:
            elsewhere.append(path)
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
    """Check that every pinned package is installed in its pinned version.

    Local builds such as ``+cpu`` count as the same version.
    """
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name
    from packaging.version import Version as PackageVersion

    if not lock.exists():
        return error(f"{lock} is missing", "Run this in the root of the project.")

    # The other lines are comments and hashes
    lines = lock.read_text(encoding="utf-8").splitlines()
    pins = [Requirement(line.rstrip("\\")) for line in lines if line[:1].isalnum()]
    required = {}
    for pin in pins:
        if pin.marker is None or pin.marker.evaluate():
            required[canonicalize_name(pin.name)] = str(pin.specifier)[2:]  # without ==

    wrong = []
    for name, version in required.items():
        if name not in versions:
            wrong.append(f"{name} missing (pinned: {version})")
        elif PackageVersion(versions[name]).public != PackageVersion(version).public:
            wrong.append(f"{name} {versions[name]} (pinned: {version})")
    if not wrong:
        return ok(f"{len(required)} packages as pinned")

    packages = first_of(wrong, MAX_PACKAGES_SHOWN)
    return error(f"not as pinned in {lock.name}: {packages}", "make setup")


def check_cores(cores: int, quota: float | None, threads: str | None) -> DoctorResult:
    """Check that no more threads run than there are cores.

    Args:
        cores: Physical cores on which a process may compute.
        quota: Cores that the container may use at a time; ``None`` for no limit.
        threads: Value of ``OMP_NUM_THREADS``.
    """
    limit = ""
    if quota is not None:
        limit = f" (the container may use {quota:g} at a time)"
    if threads and threads.isdecimal() and int(threads) > cores:
        return warning(
            f"OMP_NUM_THREADS is {threads}, but only {cores} cores are available{limit}",
            "unset OMP_NUM_THREADS",
        )
    if threads:
        return ok(f"{cores} cores{limit}, {threads} threads (OMP_NUM_THREADS)")
    return ok(f"{cores} cores{limit}, {cores} threads")


def available_in_container(cgroup: Path) -> float:
    """Return the bytes of memory that the container may still use (cgroup v2); infinite without a limit."""
    try:
        limit = (cgroup / "memory.max").read_text().strip()
        used = int((cgroup / "memory.current").read_text())
    except (OSError, ValueError):
        return float("inf")
    if limit == "max":  # no limit
        return float("inf")
    return max(int(limit) - used, 0)


def check_memory(available: float) -> DoctorResult:
    """Check that the default pipeline fits into memory: torch and its libraries take about 1 GB."""
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


def check_user() -> Iterator[DoctorResult]:
    """Check that the user has a name, which DVC asks for, and a home folder that can be written."""
    name = getpass.getuser()
    home = Path("~").expanduser()
    can_write = home.is_dir() and os.access(home, os.W_OK)
    if not tuneline.USER_HAS_NAME:
        yield warning(
            f'the system has no name for user {os.getuid()}: `dvc` ends in "unexpected error - getpwuid()"'
            " (tuneline and make set USER themselves)",
            "export USER=$(id -u)",
        )
    if not can_write:
        yield warning(
            f"the home folder {home} cannot be written: git, torch and the hub keep settings and files there",
            "export HOME=FOLDER, a folder of this user",
        )
    if tuneline.USER_HAS_NAME and can_write:
        yield ok(f"user {name}, home folder {home}")


def check_int8(folder: Path) -> Iterator[DoctorResult]:
    """Check that the exported int8 model, if there is one, computes the same on every processor."""
    record = UsageRecord.read_if_exists(folder / EXPORT_RECORD)
    model = record.models.get("int8") if record else None
    if model is None:
        return
    # Only here: importing onnxruntime takes time
    from tuneline.onnx.session import SAFE_WEIGHT_BITS, processor_saturates

    if model.weight_bits == SAFE_WEIGHT_BITS:
        yield ok("the int8 model computes the same on every processor (7-bit weights)")
        return
    effect = ": it needs a processor with VNNI, like this one"
    if processor_saturates():
        effect = ", and this processor saturates their products: it has no VNNI"
    hint = "Set export.int8.reduce_range: true and run `dvc repro`."
    yield warning(f"{folder / model.file} has 8-bit weights{effect}", hint)


OUTPUT_FOLDERS = ("data", "models", "metrics", "plots", "reports", "checkpoints")


def check_checkout(root: Path) -> Iterator[DoctorResult]:
    """Yield the result of each check of the checkout in ``root``."""
    if not (root / "dvc.yaml").exists() or not (root / PARAMS).exists():
        problem = "is not a checkout of Tuneline: dvc.yaml or params.yaml is missing"
        yield error(f"{root.resolve()} {problem}", "Change to the root of the project.")
        return

    # git, and the parameters: the checks of what they name need valid ones
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

    # files and DVC
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
    # `dvc status` would wait for a pipe without end
    if special.level == "ok":
        yield from check_data_and_outs(root)


def check_data_and_outs(root: Path) -> Iterator[DoctorResult]:
    """Check that git's ``.dvc`` files describe the user's data; if so, that every out is up to date.

    ``dvc status`` would take the data of another commit for changes, and its remedy, ``dvc repro``, would
    lose rows.
    """
    versions = other_versions(root)
    for version in versions:
        refusal = version.error()
        yield error(refusal.problem, refusal.hint)
    if not versions:
        yield check_pipeline(root)
    elif not git_hook.is_installed(root):
        yield warning(
            "in this clone, git pull and git switch bring no data",
            "python -m tuneline.repository.git_hook   has git bring it, too",
        )


def check_branch(root: Path) -> Iterator[DoctorResult]:
    """Check the branch that flow ``ingest`` commits to."""
    try:
        ingest = load_settings(root).ingest
    except ParamsError as invalid:
        yield error(invalid.problem, invalid.hint)
        return
    for problem in (rewritten(root, ingest.branch), parted(root, ingest.branch)):
        if problem is not None:
            yield warning(problem.message, problem.hint)


def check_git(root: Path) -> Iterator[DoctorResult]:
    """Check that git is installed, and that the repository has a full history and a committer identity."""
    try:
        shallow = _run(root, "git", "rev-parse", "--is-shallow-repository")
    except FileNotFoundError:
        yield error("git is not installed", "apt-get install git")
        return
    if shallow.returncode:
        refuse_foreign(shallow.stderr)
        lines = shallow.stderr.strip().splitlines()
        problem = lines[-1] if lines else "not a repository"
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
    pointers = large_file_pointers(root)
    if pointers:
        listed = ", ".join(pointers[:MOST_NAMES])
        yield error(
            f"{len(pointers)} files have a pointer of Git LFS instead of their content: {listed}",
            "apt-get install git-lfs; git lfs install --local && git lfs pull",
        )
    yield ok("git")


def large_file_pointers(root: Path) -> list[str]:
    """Return the files of Git LFS that nobody has fetched, as after a clone without ``git-lfs``."""
    pointers = []
    for name in git(root, "ls-files", "-z", "--", ":(attr:filter=lfs)").split("\0"):
        path = root / name
        if name and path.is_file() and is_lfs_pointer(path):
            pointers.append(name)
    return pointers


def check_launch_of_machine(root: Path, params: TrainParams) -> DoctorResult:
    """Check that the launch configuration exists, suits the machine and leaves no GPU unused.

    Of ``auto``, say what it chooses.
    """
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
            "Set train.launch: auto in params.yaml.",
        )
    return ok(f"train.launch {params.launch}")


def check_choice(devices: "Devices", params: TrainParams, torch: str | None, driver: bool) -> DoctorResult:
    """Say what ``train.launch: auto`` chooses, and check that it does not overlook a GPU.

    Args:
        devices: The devices that torch finds.
        params: Parameters of the training.
        torch: Version of torch.
        driver: The NVIDIA driver is installed, so there is a GPU.
    """
    from tuneline.core.launch import choose_processes

    choice = choose_processes(devices, params.global_batch_size, params.mixed_precision)
    message = f"train.launch auto chooses {choice}"
    if devices.why_cpu:
        message += f" ({devices.why_cpu})"
    if driver and torch is not None and torch.endswith("+cpu"):
        return warning(
            message,
            "This machine has a GPU. Install the CUDA build of torch: README.md, 'torch with or without"
            " CUDA'.",
        )
    return ok(message)


def check_source(root: Path, params: Params) -> DoctorResult:
    """Check that the data set named by ``data`` can be read: the files exist, or the hub may be contacted."""
    if params.data.source == "hub" and _is_offline():
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

    # The names of files in the specifications of the splits, such as train[:90%]+validation
    names = set()
    for spec in params.data.source_specs.values():
        names.update(re.findall(r"(?:^|\+)\s*(\w+)", spec))

    folder = root / SOURCE / (params.data.path or "")
    files = [path.name for path in folder.glob("*")] if folder.is_dir() else []
    data_files = [file for file in files if not file.endswith(".dvc")]
    missing = []
    for name in sorted(names):
        if not any(file.startswith(f"{name}.") for file in data_files):
            missing.append(name)
    if not missing:
        return ok(f"data.source: files in {folder}")
    return error(
        f"{folder} has no file for {' and '.join(missing)}",
        "tuneline init FILE.csv; if DVC tracks the files: dvc pull",
    )


def _is_offline() -> bool:
    """Return True if the environment forbids to contact the Hugging Face hub."""
    return os.environ.get("HF_HUB_OFFLINE", "0") not in {"", "0"}


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
    status = _run(root, "git", "status", "--porcelain", "--", f"{CORRECTIONS}/*.csv").stdout.split()
    if status:
        last_path = status[-1]
        problem = f"{last_path} is not committed: only this checkout trains on the corrected data"
        return warning(problem, f"git add {CORRECTIONS}, and commit")
    return ok(
        f"{CORRECTIONS}: {corrections.labels.num_rows:,} labels, {corrections.dropped.num_rows:,} dropped"
        " rows"
    )


def check_special_files(root: Path) -> DoctorResult:
    """Check that ``data/source`` has only files and folders.

    DVC hashes all that is there, and waits for a pipe without end.
    """
    for path in sorted((root / SOURCE).rglob("*")):
        if path.is_dir():
            continue
        problem = not_a_file(path)
        if problem:
            name = path.relative_to(root)
            effect = "waits for it without end" if path.is_fifo() else "cannot hash it"
            return error(f"{name} {problem}: DVC {effect}", f"rm '{name}'")
    return ok(f"{SOURCE}: only files and folders")


def check_files_versioned(root: Path) -> DoctorResult:
    """Check that git or DVC has the files of the user: experiments and other machines get no others."""
    paths = unversioned(root)
    if not paths:
        return ok(f"{SOURCE}, {BASE_SOURCE}: git or DVC has all files")
    names = " ".join(f"'{path}'" for path in paths)
    return warning(
        f"neither git nor DVC has {', '.join(map(str, paths))}: experiments and other machines lack it",
        f"dvc add {names}",
    )


def check_committed(root: Path) -> DoctorResult:
    """Check that git has all that a result was made of."""
    names = uncommitted(root)
    if not names:
        return ok("git has all files of the result")
    named = first_of(names, MOST_NAMES)
    return warning(f"git does not have {named}: nobody can repeat a commit without them", COMMIT)


MOST_NAMES = 3
"""Files that are named one by one."""


def check_base_model(root: Path, params: Params) -> DoctorResult:
    """Check that the checkpoint and tokenizer can be read.

    The folder exists, or the hub may be contacted or is not needed.
    """
    names = {"model.checkpoint": params.model.checkpoint, "tokenize.tokenizer": params.tokenize.tokenizer}
    for key, name in names.items():
        if name and is_folder(name) and not (root / name / "config.json").exists():
            hint = f"save_pretrained('{name}'); if DVC tracks the folder: dvc pull {name}"
            return error(f"{key}: {root / name} has no config.json", hint)

    # What the stage base has fetched needs no hub
    base = BaseSource.read_if_valid(root / BASE_RECORD)
    fetched = set()
    if base:
        fetched = {source.name for source in (base.checkpoint, base.tokenizer) if source}
    missing = [name for name in names.values() if name and not is_folder(name) and name not in fetched]
    if missing and _is_offline():
        return warning(
            f"{missing[0]} is not in {BASE}, and HF_HUB_OFFLINE is set",
            "unset HF_HUB_OFFLINE, or dvc pull base",
        )
    return ok(f"model.checkpoint: {params.model.checkpoint or 'none, trained from scratch'}")


def check_partial_files(root: Path) -> DoctorResult:
    """Check that no killed run left partially written files."""
    partial_files: list[Path] = []
    for folder in OUTPUT_FOLDERS:
        for pattern in (".*.partial", ".*.former", ".*.resumable"):
            partial_files += (root / folder).rglob(pattern)
    if not partial_files:
        return ok("no partially written files")
    names = first_of([str(path.relative_to(root)) for path in partial_files], MOST_NAMES)
    return warning(
        f"a run was killed while it wrote {names}",
        "Harmless: the next run of that stage continues or removes it.",
    )


def check_partial_copies(root: Path) -> DoctorResult:
    """Check that DVC left no partial copy in its cache, as after a full disk: nothing else removes it."""
    folder = root / ".dvc" / "cache" / "files"
    copies = [*folder.glob("*/.*.tmp"), *folder.glob("*/*/.*.tmp")]
    if not copies:
        return ok("no partial copies in DVC's cache")
    size = sum(path.stat().st_size for path in copies)
    return warning(
        f"{len(copies)} partial copies in DVC's cache take {decimal(size)}: it was ended, or the disk was"
        " full",
        "When no dvc is running: find .dvc/cache/files -name '.*.tmp' -delete",
    )


def check_cache(root: Path) -> Iterator[DoctorResult]:
    """Compare the objects of DVC's cache that ``dvc.lock`` names with their hashes.

    DVC itself takes them for what they were.
    """
    from tuneline.repository.dvc import cached_objects, is_intact, read_lock

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
    """Check that no other user can write to DVC's site cache.

    DVC unpickles it, so whoever writes there runs code as who runs DVC.
    """
    from dvc.config import Config
    from dvc.dirs import site_cache_dir

    config = Config(dvc_dir=str(root / ".dvc"))
    folder = Path(site_cache_dir(config["core"].get("site_cache_dir"))).absolute()
    if not _open_to_others(folder):
        return ok("DVC's site cache is closed to other users")
    return warning(
        f"other users of this machine can write to DVC's site cache in {folder}, and run code as you when you"
        " run DVC",
        "make setup   (without make: python -m tuneline.repository.site_cache)",
    )


def _open_to_others(folder: Path) -> bool:
    """Return True if others than the owner and the group may change what DVC puts there.

    DVC makes a missing folder writable for all.
    """
    for path in (*reversed(folder.parents), folder):
        if not path.exists():
            return True
        status = path.stat()
        if status.st_uid not in {0, os.getuid()}:
            return True
        # With the sticky bit, as /tmp has it, others may add files and not replace these
        is_writable = status.st_mode & stat.S_IWOTH
        is_sticky = status.st_mode & stat.S_ISVTX
        if is_writable and not is_sticky:
            return True
        if not status.st_mode & stat.S_IXOTH:  # nobody else gets below this folder
            return False
    return True


def check_pipeline(root: Path) -> DoctorResult:
    """Check with ``dvc status`` that every out is up to date with its inputs."""
    done = _run(root, sys.executable, "-m", "dvc", "status", "--json")
    if not done.returncode:
        changed = list(json.loads(done.stdout or "{}"))
        if not changed:
            return ok("the pipeline is up to date")
        hint = "make run, or dvc repro; if another machine has pushed these results: dvc pull"
        return warning(f"not up to date: {', '.join(changed)}", hint)

    # DVC has no codes for its errors
    if "dvc.lock' validation failed" in done.stderr or "dvc.lock' is invalid" in done.stderr:
        hint = (
            "git checkout dvc.lock (rm, if it was never committed), then dvc repro: DVC's cache has what"
            " finished stages made."
        )
        return error("dvc.lock is damaged: DVC was ended, or the disk was full, while it wrote it", hint)
    if "Unable to acquire lock" in done.stderr or "is being blocked by" in done.stderr:
        return check_lock(root)
    if is_rwlock_damaged(root):
        return error(
            f"{RWLOCK} is damaged: DVC was killed, or the disk was full, while it wrote it",
            NO_DVC_RUNS_HINT,
        )
    reason = dvc_error(done.stderr) or "failed"
    return error(f"dvc status: {reason.splitlines()[0]}", "dvc status -v prints the details")


NO_DVC_RUNS_HINT = (
    f"If no dvc runs in this folder, also not in another container or on another machine: rm {RWLOCK}"
)


def check_lock(root: Path) -> DoctorResult:
    """Say which process DVC waits for: one that runs, or one that has the number of a killed one."""
    for holder in stage_processes(root):
        if holder.is_running:
            return warning(
                f"DVC is locked: {RWLOCK} names process {holder.pid} ({_shown(holder.command)}), which runs a"
                " stage",
                f"Wait until it ends, or: kill {holder.pid}. `dvc repro` fails while the lock is held.",
            )
        if holder.is_another:
            return error(
                f"DVC is locked by a process that has ended: {RWLOCK} names process {holder.pid}"
                f" ({holder.recorded}), but that is now {_shown(holder.command)}",
                NO_DVC_RUNS_HINT,
            )
    for pid, command in processes_with(root / DVC_LOCK):
        return warning(
            f"DVC is locked: process {pid} ({_shown(command)}) holds {DVC_LOCK}",
            f"Wait until it ends, or: kill {pid}. `dvc repro` fails while the lock is held.",
        )
    return warning(
        f"DVC is locked: a process that is not seen here holds {DVC_LOCK}, of another user, container or"
        " machine; or it has ended a moment ago",
        "Wait until it ends. `dvc repro` fails while the lock is held.",
    )


def _shown(command: Sequence[str] | None) -> str:
    """Return a command in words, cut if it is long."""
    text = visible(" ".join(command or ())) or "another program"
    if len(text) > LONGEST_COMMAND:
        return f"{text[:LONGEST_COMMAND]}..."
    return text


LONGEST_COMMAND = 80
"""Characters of a command in a message."""


def _run(root: Path, *command: str, timeout: float | None = None) -> subprocess.CompletedProcess[str]:
    # No question for a password, and messages in English: checks look for words in them
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
    """Check that a commit has one version, and each version that is in a stage.

    Its files are somewhere, with a second copy, and a gate decided about it.
    """
    for artifact, tags in registries(root).items():
        for version, surplus in tags.duplicates().items():
            yield warning(
                f"{artifact} {version.name} ({version.commit[:12]}) has a second version:"
                f" {', '.join(surplus)}. gto ends with an error, for everybody",
                deletion(surplus),
            )
        for stage in tags.stages:
            staged = tags.in_stage(stage)
            if not staged:
                continue
            yield check_copies(root, artifact, stage, staged)
            ungated = why_no_gate(root, tags, stage)
            if ungated:
                yield warning(
                    ungated,
                    f"If nobody meant it: python -m flows.promotion rollback. gto history {artifact}",
                )


def check_copies(root: Path, artifact: str, stage: str, version: Version) -> DoctorResult:
    """Check that the files of a version are in DVC's cache or remote, and that it has a second copy.

    The second copy of its tag is in ``origin``.
    """
    message = f"{artifact} {version.name}, which is in {stage}"
    not_here = why_not_in_cache(root, artifact, version.commit)
    not_in_remote = why_not_in_dvc_remote(root, artifact, version.commit)
    if not_here and not_in_remote:
        return error(f"{message}, cannot be fetched: {not_here}, and {not_in_remote}", LOST_HINT)

    reasons = (not_in_remote, _why_not_in_origin(root, artifact, version))
    missing = [reason for reason in reasons if reason]
    if missing:
        return warning(f"{message}, has no second copy: {'; '.join(missing)}", HINT)
    return ok(f"{message}, is in the DVC remote and in origin")


def _why_not_in_origin(root: Path, artifact: str, version: Version) -> str | None:
    """Return why ``origin`` does not have the tag of a version, as far as is known; ``None`` if it has it."""
    if "origin" not in git(root, "remote").split():
        return "there is no git remote origin"
    tags = f"refs/tags/{artifact}@{version.name}*"  # an annotated tag has two lines: the tag and its commit
    try:
        done = _run(root, "git", "ls-remote", "origin", tags, timeout=REMOTE_TIMEOUT)
    except subprocess.TimeoutExpired:
        return f"origin did not answer within {REMOTE_TIMEOUT:g} seconds"
    if done.returncode:
        return f"origin cannot be asked ({done.stderr.strip().splitlines()[0]})"
    if version.commit not in done.stdout:
        return "origin does not have its tag"
    return None
