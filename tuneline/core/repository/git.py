"""Facts from git: commits, the version of the model, its commit and names in the registry, earlier results.

And what is wrong in a working tree: metrics of another run, and data and weights of the user that neither git
nor DVC has.
"""

import json
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuneline.core.params.loading import read_yaml
from tuneline.core.params.params_file import get_value
from tuneline.core.params.train import is_folder
from tuneline.core.paths import BASE_SOURCE, ONNX, PARAMS, SOURCE
from tuneline.core.repository.dvc import Lock, by_key, cached_files, is_intact, md5_of
from tuneline.core.repository.registry import TAG_FORMAT, RegistryTags
from tuneline.core.runtime.errors import ParamsError, StageError
from tuneline.core.runtime.terminal import first_of, redacted, visible

EVALUATED = "metrics/evaluate.json"
CLASSIFIER_PATH = "models/classifier"
OF_A_RESULT = ("params.yaml", "dvc.lock", "metrics", "conf", "data", "models", "project")
"""What git has to have of a result, so that others can repeat it.

In ``data`` and ``models``, that is only what git does not ignore.
"""
COMMIT = f"git add {' '.join(OF_A_RESULT)} && git commit"
_FIELDS = "%H%x1f%h%x1f%cs%x1f%s"


class ForeignRepositoryError(StageError):
    """Git does not read a repository, because it belongs to another user.

    Its settings can name programs, which would run as this user.
    """


def refuse_foreign(message: str) -> None:
    """Raise an error if that is why a git command failed.

    Args:
        message: What git said, in English.

    Raises:
        ForeignRepositoryError: The hint has git's command with which this user trusts the repository.
    """
    advice = _SAFE_DIRECTORY.search(message)
    if advice is None:
        return
    raise ForeignRepositoryError(
        f"git does not read {advice['path']}, because another user owns it.",
        f"If you trust it: {advice['command']}   (or run this as its owner)",
    )


_SAFE_DIRECTORY = re.compile(
    r"(?P<command>git config --global --add safe\.directory '?(?P<path>.+?)'?)\s*$", re.MULTILINE
)


class GitError(Exception):
    """A git command failed; the message is git's, without the passwords of addresses."""

    def __init__(self, message: str) -> None:
        super().__init__(redacted(message))


MOST_SHOWN = 12
"""Arguments and lines of a failed command that a message has: a push may name thousands of tags."""
SIGNED = frozenset({"commit", "commit-tree", "merge", "stash", "var"})
"""Commands that name who ran them."""


def run_git(
    root: Path,
    *arguments: str,
    text: str | None = None,
    timeout: float | None = None,
) -> str:
    """Run git and return its output.

    Git asks for no password, runs no hooks of a person, and has an author for commits and tags.

    Raises:
        ForeignRepositoryError: Git refuses the repository, because it belongs to another user.
        GitError: Git fails for another reason, or takes more seconds than ``timeout``.
    """
    environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    if not SIGNED.isdisjoint(arguments):
        environment |= _author(root)
    try:
        done = subprocess.run(
            ["git", "-c", "core.hooksPath=/dev/null", *arguments],
            cwd=root,
            env=environment,
            input=text,
            capture_output=True,
            text=True,
            errors="surrogateescape",  # a file name may have any bytes
            check=False,
            timeout=timeout,
        )
    except subprocess.TimeoutExpired:
        raise GitError(visible(f"git {_shown(arguments)}: no answer in {timeout:g} s")) from None
    except FileNotFoundError:
        raise GitError(f"git is not installed, or {root} is no folder.") from None
    if done.returncode:
        refuse_foreign(done.stderr)
        printed = (done.stderr or done.stdout).strip().splitlines()[-MOST_SHOWN:]
        raise GitError(visible(f"git {_shown(arguments)}: " + "\n".join(printed)))
    return done.stdout.strip(" \n")


def _shown(arguments: Sequence[str]) -> str:
    return " ".join(arguments[:MOST_SHOWN])


def _author(root: Path) -> dict[str, str]:
    """Return variables with an author of commits and tags, unless git has one for this repository."""
    if "GIT_AUTHOR_EMAIL" in os.environ or git(root, "config", "user.email"):
        return {}
    author = {}
    for role in ("AUTHOR", "COMMITTER"):
        author[f"GIT_{role}_NAME"] = "Tuneline"
        author[f"GIT_{role}_EMAIL"] = "tuneline@localhost"
    return author


def git(root: Path, *arguments: str) -> str:
    """Return what a git command prints; empty if it fails or git is not installed.

    Raises:
        ForeignRepositoryError: Git refuses the repository, because it belongs to another user.
    """
    try:
        return run_git(root, *arguments)
    except GitError:
        return ""


def require_own_repository(root: Path) -> None:
    """Refuse a project that is a part of another git repository.

    Every result is traced to a commit of the project. Experiments and flows check out whole commits, and
    expect the project in their root.

    Raises:
        StageError: The project is in a subfolder, or is a submodule.
    """
    top = git(root, "rev-parse", "--show-toplevel")
    superproject = git(root, "rev-parse", "--show-superproject-working-tree")
    hint = "Clone it to a folder of its own, outside of another repository."
    if top and Path(top).resolve() != root.resolve():
        raise StageError(
            f"{root.resolve()} is a subfolder of the git repository {top}: a project is a repository of its"
            " own.",
            hint,
        )
    if superproject:
        raise StageError(
            f"{root.resolve()} is a submodule of {superproject}: a project is a repository of its own.", hint
        )


@dataclass(frozen=True)
class Commit:
    """A commit: its full and short hash, date (``YYYY-MM-DD``) and subject."""

    sha: str
    short: str
    date: str
    subject: str

    def __str__(self) -> str:
        return f"{self.short} {self.date} {self.subject}"


def commits(root: Path, *arguments: str) -> list[Commit]:
    """Return the commits that ``git log`` lists for the given arguments, newest first."""
    # not splitlines: a subject may have a separator that Unicode takes for the end of a line
    lines = git(root, "log", f"--format={_FIELDS}", *arguments).split("\n")
    return [Commit(*line.split("\x1f", 3)) for line in lines if line]


def lock_at(root: Path, revision: str) -> Lock:
    """Return ``dvc.lock`` of a commit; empty if it has none."""
    return Lock(git(root, "show", f"{revision}:dvc.lock"))


def why_not_in_cache(root: Path, commit: str) -> str | None:
    """Return why DVC's cache does not have the model of a commit; ``None`` if it has all files, undamaged."""
    for name, file in cached_files(root, lock_at(root, commit), ONNX.as_posix()).items():
        if file is None:
            return "DVC's cache does not have its files"
        if not is_intact(file):
            return f"{name} in DVC's cache is damaged ({file})"
    return None


def metrics_at(root: Path, revision: str, stage: str = "evaluate") -> dict[str, float]:
    """Return the metrics of a stage in a commit; empty if it has none."""
    try:
        return dict(json.loads(git(root, "show", f"{revision}:metrics/{stage}.json")))
    except ValueError:
        return {}


def commit_of(root: Path, version: str) -> Commit | None:
    """Return the commit that added a version of the model to ``dvc.lock``.

    ``None`` if HEAD does not have that version.
    """
    if version not in git(root, "show", "HEAD:dvc.lock"):
        return None
    # git's -S lists commits that change how often the hash occurs: the latest of them added it.
    changing = commits(root, "-1", f"-S{version}", "--", "dvc.lock")
    return changing[0] if changing else None


def model_tags(root: Path) -> RegistryTags:
    """Return the registry of the models; a user may have other artifacts."""
    return RegistryTags.parse(ONNX.name, git(root, "for-each-ref", f"--format={TAG_FORMAT}", "refs/tags"))


def registered(root: Path, commit: Commit) -> list[str]:
    """Return the names in the registry of the commit that added a model.

    They are its version, and the stages it is in now: ``onnx@v0.2.0`` and ``onnx#production``.
    """
    tags = model_tags(root)
    names = []
    version = tags.version_of(commit.sha)
    if version is not None:
        names.append(f"{tags.artifact}@{version.name}")
    for stage in tags.stages:
        in_stage = tags.in_stage(stage)
        if in_stage is not None and in_stage.commit == commit.sha:
            names.append(f"{tags.artifact}#{stage}")
    return names


MOST_KEYS = 5
RESULT_SECTIONS = ("data", "tokenize", "model", "train", "evaluate")
"""Sections of ``params.yaml`` that make a result another one; ``seed`` is a value of its own."""


def outdated(root: Path, lock: Lock) -> str | None:
    """Return one sentence about a result that is out of date; ``None`` if it is not.

    The metrics are of another model than the present one, dvc.lock is not that of the run, or parameters have
    changed since.
    """
    # The metrics of the working tree, and of the lock.
    recorded = lock.out(EVALUATED)
    path = root / EVALUATED
    if recorded and path.exists() and recorded != md5_of(path):
        return (
            f"{EVALUATED} is of another run than dvc.lock. Run `dvc repro`; or `git checkout {EVALUATED}"
            " dvc.lock`."
        )

    # The model that was scored, and the model of the lock.
    scored = lock.dep("evaluate", CLASSIFIER_PATH)
    if scored and scored != lock.out(CLASSIFIER_PATH):
        return "The metrics are of the model before this one, which is not evaluated yet. Run `dvc repro`."

    changed = changed_params(root, lock)
    if changed:
        names = first_of(changed, MOST_KEYS)
        return (
            f"This is the result of other parameters than those in {PARAMS} now ({names}). Run `dvc repro`."
        )
    return None


def changed_params(root: Path, lock: Lock) -> list[str]:
    """Return the keys whose values in ``params.yaml`` are not the values of the run.

    None if the file is missing or invalid.
    """
    try:
        params = read_yaml(root / PARAMS)
    except ParamsError:
        return []
    if not isinstance(params, dict):
        return []
    return other_params(params, lock)


def other_params(params: Mapping[str, Any], lock: Lock) -> list[str]:
    """Return the keys whose values in the content of a parameter file are not the values of a run."""
    # Only keys count that both have.
    now = {"seed": params.get("seed")}
    for name in RESULT_SECTIONS:
        section = params.get(name) or {}
        for key, value in section.items():
            now[f"{name}.{key}"] = value
    changed = []
    for stage in lock.stages.values():
        for key, value in by_key(stage.get("params", {}).values()).items():
            if key in now and now[key] != value and key not in changed:
                changed.append(key)
    return changed


def unversioned(root: Path) -> list[Path]:
    """List the files and folders in ``data/source`` and ``models/source`` that only this working tree has.

    Git and DVC together lack a part of them. None without DVC.
    """
    if not (root / ".dvc").is_dir():
        return []
    paths = []
    for folder in (SOURCE, BASE_SOURCE):
        for entry in sorted((root / folder).glob("*")):
            path = entry.relative_to(root)
            if path.suffix != ".dvc" and not _is_versioned(root, path):
                paths.append(path)
    return paths


def _is_versioned(root: Path, path: Path) -> bool:
    """Return True if DVC has each file of a path that git ignores; git has, or will have, the others."""
    options = ["--others", "--ignored", "--exclude-standard", "-z"]
    ignored = git(root, "ls-files", *options, "--", str(path)).split("\x00")
    return all(file_of_dvc(root, Path(name)) for name in ignored if name)


def file_of_dvc(root: Path, path: Path) -> Path | None:
    """Return the file or folder with a ``.dvc`` file that is a path or contains it; ``None`` if none does."""
    for tracked in (path, *path.parents):
        if tracked.name and (root / f"{tracked}.dvc").is_file():
            return tracked
    return None


def named(params: Mapping[str, Any]) -> list[Path]:
    """Return the user's files and folders that parameters name: data, and weights that are not of the hub."""
    paths = []
    name = get_value(params, "model.checkpoint")
    if isinstance(name, str) and is_folder(name):
        paths.append(Path(name))
    if get_value(params, "data.source") == "files":
        data_path = get_value(params, "data.path") or ""
        paths.append(SOURCE / str(data_path))
    return paths


def missing(root: Path, params: Mapping[str, Any]) -> list[Path]:
    """Return the files and folders that parameters name and that neither git nor DVC has."""
    needed = named(params)
    return [path for path in unversioned(root) if _overlaps(path, needed)]


def _overlaps(path: Path, needed: Sequence[Path]) -> bool:
    """Return True if a path is one of the others, in one of them, or contains one."""
    return any(path.is_relative_to(folder) or folder.is_relative_to(path) for folder in needed)
