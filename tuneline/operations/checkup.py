"""Checks of this machine and this checkout, with the fix for each problem: what ``tuneline doctor`` prints.

They look at what neither DVC nor git says: the programs, the disk, data that only this tree has or that is of
another commit, and whether what is in production can be fetched.
"""

import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from tuneline.core.params.loading import load_params
from tuneline.core.paths import ONNX, PARAMS
from tuneline.core.repository.git import (
    git,
    model_tags,
    require_own_repository,
    unversioned,
    why_not_in_cache,
)
from tuneline.core.repository.registry import Version
from tuneline.core.repository.source_versions import set_back
from tuneline.core.repository.worktrees import why_not_in_dvc_remote
from tuneline.core.runtime.errors import StageError
from tuneline.core.settings import load_settings

CheckLevel = Literal["ok", "warning", "error"]
GB = 2**30
FREE_DISK_HINT = (
    "prefect deployment run clean/clean-weekly. Without the flows: git fetch --tags, then dvc gc --all-tags"
    " --all-branches while no run is in progress: it removes from DVC's cache what no branch or tag uses (add"
    " --all-experiments to keep experiments). Never only --workspace: that deletes the registered models."
)
COPY_HINT = (
    "With a git remote `origin` and a default DVC remote: dvc push --all-tags && git push origin --tags"
)
LOST_HINT = (
    "If another machine has them, there: dvc push --all-tags. Else: python -m flows.promotion"
    " rollback --to VERSION"
)


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


def all_results(root: Path) -> Iterator[DoctorResult]:
    """Yield the results of all checks; what a check cannot look at ends them."""
    try:
        yield check_programs(Path(sys.prefix), shutil.which("python"), shutil.which("dvc"))
        yield check_disk(shutil.disk_usage(root).free)
        yield from check_checkout(root)
        yield from check_registry(root)
    except StageError as problem:
        yield error(problem.problem, problem.hint)


def check_programs(prefix: Path, *programs: str | None) -> DoctorResult:
    """Check that PATH finds the programs of this environment, because ``dvc repro`` starts stages by PATH.

    Args:
        prefix: Folder of this environment.
        programs: What PATH finds for each program; ``None`` if it finds nothing.
    """
    bin_folder = (prefix / "bin").resolve()
    for path in programs:
        if path is None or Path(path).parent.resolve() != bin_folder:
            return warning(
                f"PATH finds {path or 'none'} before {bin_folder}",
                f"source {bin_folder}/activate   (make run does this itself)",
            )
    return ok(f"python and dvc are in {bin_folder}")


def check_disk(free: int) -> DoctorResult:
    """Check that the free bytes suffice for data, checkpoints and DVC's cache."""
    message = f"{free / GB:,.1f} GB of disk free"
    if free < 5 * GB:
        return warning(f"{message}; checkpoints of a bert-base take 1.3 GB each", FREE_DISK_HINT)
    return ok(message)


def check_checkout(root: Path) -> Iterator[DoctorResult]:
    """Check parameters, settings and data of the checkout in ``root``.

    Raises:
        StageError: It is no checkout, is a part of another repository, or its parameters or settings are
            invalid.
    """
    if not (root / "dvc.yaml").exists() or not (root / PARAMS).exists():
        raise StageError(
            f"{root.resolve()} is not a checkout of Tuneline: dvc.yaml or params.yaml is missing",
            "Change to the root of the project.",
        )
    require_own_repository(root)
    load_params(root / PARAMS)
    load_settings(root)

    paths = unversioned(root)
    if paths:
        names = " ".join(f"'{path}'" for path in paths)
        yield warning(
            f"neither git nor DVC has {', '.join(map(str, paths))}: experiments and other machines lack it",
            f"dvc add {names}",
        )
    else:
        yield ok("git or DVC has all files of the data")
    # `dvc status` would take the data of another commit for changes, and `dvc repro` would lose rows
    for refusal in set_back(root):
        yield error(refusal.problem, refusal.hint)


def check_registry(root: Path) -> Iterator[DoctorResult]:
    """Check each version that is in a stage.

    Its files are somewhere, with a second copy.
    """
    tags = model_tags(root)
    for stage in tags.stages:
        staged = tags.in_stage(stage)
        if staged:
            yield check_copies(root, stage, staged)


def check_copies(root: Path, stage: str, version: Version) -> DoctorResult:
    """Check that the files of a version are in DVC's cache or remote, and that it has a second copy.

    The second copy of its tag is in ``origin``.
    """
    message = f"{ONNX.name} {version.name}, which is in {stage}"
    not_here = why_not_in_cache(root, version.commit)
    not_in_remote = why_not_in_dvc_remote(root, version.commit)
    if not_here and not_in_remote:
        return error(f"{message}, cannot be fetched: {not_here}, and {not_in_remote}", LOST_HINT)

    missing = []
    if not_in_remote:
        missing.append(not_in_remote)
    tags = f"refs/tags/{ONNX.name}@{version.name}*"  # an annotated tag has two lines: the tag and its commit
    if version.commit not in git(root, "ls-remote", "origin", tags):
        missing.append("git remote origin is missing, cannot be asked, or does not have its tag")
    if missing:
        return warning(f"{message}, has no second copy: {'; '.join(missing)}", COPY_HINT)
    return ok(f"{message}, is in the DVC remote and in origin")
