"""``tuneline doctor``: check this machine and this checkout, and name the fix for each problem.

It looks at what neither DVC nor git says: packages against the lock, the disk, data that only this tree has
or that is of another commit, and whether what is in production can be fetched.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import distributions
from pathlib import Path
from typing import Final, Literal

import typer
from rich.text import Text

from tuneline.cli.console import Console
from tuneline.params.loading import load_params
from tuneline.paths import BASE_SOURCE, PARAMS, SOURCE
from tuneline.repository.branches import parted, rewritten
from tuneline.repository.git import (
    COMMIT,
    ForeignRepositoryError,
    git,
    registries,
    require_own_repository,
    uncommitted,
    unversioned,
    why_no_gate,
    why_not_in_cache,
)
from tuneline.repository.programs import dvc_error
from tuneline.repository.registry import Version
from tuneline.repository.source_versions import other_versions
from tuneline.repository.worktrees import REMOTE_TIMEOUT, why_not_in_dvc_remote
from tuneline.runtime.errors import ParamsError, StageError
from tuneline.runtime.wording import first_of
from tuneline.settings import load_settings

CheckLevel = Literal["ok", "warning", "error"]
COLOURS: Final = {"ok": "green", "warning": "yellow", "error": "bold red"}


@dataclass(frozen=True)
class DoctorResult:
    """Result of one check.

    Attributes:
        level: ``error``: the pipeline cannot run. ``warning``: it runs, but with a limit.
        hint: How to fix it; ``None`` if nothing is wrong.
    """

    level: CheckLevel
    message: str
    hint: str | None = None


ok = partial(DoctorResult, "ok")
warning = partial(DoctorResult, "warning")
error = partial(DoctorResult, "error")


def command() -> None:
    """Check this machine and this checkout, and say how to fix what is wrong.

    Exit code 1 if there is an error.
    """
    console = Console()
    has_error = False
    for result in all_results([check_machine, check_checkout, check_registry], Path()):
        has_error = has_error or result.level == "error"
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


MAX_SHOWN = 4
"""Packages or files that are named one by one."""
GB = 2**30
FREE_DISK_HINT = (
    "prefect deployment run clean/clean-weekly. Without the flows: git fetch --tags, then dvc gc --all-tags"
    " --all-branches while no run is in progress: it removes from DVC's cache what no branch or tag uses (add"
    " --all-experiments to keep experiments). Never only --workspace: that deletes the registered models."
)


def check_machine(root: Path) -> Iterator[DoctorResult]:
    """Check the programs and packages of this environment, and the disk."""
    yield check_programs(Path(sys.prefix), shutil.which("python"), shutil.which("dvc"))
    yield check_packages(root / "requirements.txt", installed_packages())
    yield check_disk(root, shutil.disk_usage(root).free)


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

    packages = first_of(wrong, MAX_SHOWN)
    return error(f"not as pinned in {lock.name}: {packages}", "make setup")


def check_disk(root: Path, free: int) -> DoctorResult:
    """Check that the free bytes suffice for data, checkpoints and DVC's cache."""
    message = f"{free / GB:.1f} GB free on the disk of {root.resolve()}"
    if free < 0.5 * GB:
        return error(message, f"Free some space: {FREE_DISK_HINT}")
    if free < 5 * GB:
        return warning(f"{message}; checkpoints of a bert-base take 1.3 GB each", FREE_DISK_HINT)
    return ok(f"{free / GB:,.0f} GB of disk free")


def check_checkout(root: Path) -> Iterator[DoctorResult]:
    """Yield the result of each check of the checkout in ``root``."""
    if not (root / "dvc.yaml").exists() or not (root / PARAMS).exists():
        problem = "is not a checkout of Tuneline: dvc.yaml or params.yaml is missing"
        yield error(f"{root.resolve()} {problem}", "Change to the root of the project.")
        return
    try:
        require_own_repository(root)
    except StageError as problem:
        yield error(problem.problem, problem.hint)
        return
    try:
        load_params(root / PARAMS)
        branch = load_settings(root).ingest.branch
    except ParamsError as invalid:
        yield error(invalid.problem, invalid.hint)
    else:
        yield from check_branch(root, branch)
    if not (root / ".dvc").is_dir():
        yield error("the folder .dvc is missing", "git checkout .dvc, or dvc init")
        return
    yield check_files_versioned(root)
    yield check_committed(root)
    yield from check_data_and_outs(root)


def check_branch(root: Path, branch: str) -> Iterator[DoctorResult]:
    """Check the branch that flow ``ingest`` commits to."""
    for problem in (rewritten(root, branch), parted(root, branch)):
        if problem is not None:
            yield warning(problem.message, problem.hint)


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
    named = first_of(names, MAX_SHOWN)
    return warning(f"git does not have {named}: nobody can repeat a commit without them", COMMIT)


def check_pipeline(root: Path) -> DoctorResult:
    """Check with ``dvc status`` that every out is up to date with its inputs."""
    done = _run(root, sys.executable, "-m", "dvc", "status", "--json")
    if not done.returncode:
        changed = list(json.loads(done.stdout or "{}"))
        if not changed:
            return ok("the pipeline is up to date")
        hint = "make run, or dvc repro; if another machine has pushed these results: dvc pull"
        return warning(f"not up to date: {', '.join(changed)}", hint)
    reason = dvc_error(done.stderr) or "failed"
    return error(f"dvc status: {reason.splitlines()[0]}", "docs/doctor.md says what to do about DVC's locks.")


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
    """Check each version that is in a stage.

    Its files are somewhere, with a second copy, and a gate decided about it.
    """
    for artifact, tags in registries(root).items():
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
