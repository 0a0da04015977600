"""Facts from git, ``dvc.lock`` and DVC's cache: the version of the model, its commit and names in the registry, earlier results."""

import configparser
import hashlib
import json
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from tuneline.paths import RAW
from tuneline.registry import TAG_FORMAT, RegistryTags

EVALUATED = "metrics/evaluate.json"
CLASSIFIER = "models/classifier"
CODE = ("project/", "stages/", "tuneline/")
"""Folders with the code that stages depend on."""
_FIELDS = "%H%x1f%h%x1f%cs%x1f%s"


@lru_cache(maxsize=16)
def load_yaml(text: str) -> Any:
    """Return the content of a YAML file, which must not be changed: a run reads the same ``dvc.lock`` ten times.

    Parsed as DVC does, by the C library where it is installed: ``dvc.lock`` in 0.04 s instead of 0.17.

    Raises:
        YAMLError: It is not valid YAML.
    """
    return YAML(typ="safe").load(text)


def git(root: Path, *arguments: str) -> str:
    """Return what a git command prints; empty if it fails or git is not installed."""
    try:
        done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


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
    lines = git(root, "log", f"--format={_FIELDS}", *arguments).splitlines()
    return [Commit(*line.split("\x1f", 3)) for line in lines]


@dataclass(frozen=True)
class Lock:
    """One version of ``dvc.lock``: commands, parameters, and the hashes of dependencies and outs."""

    text: str = field(repr=False)

    @cached_property
    def stages(self) -> Mapping[str, Any]:
        """Stages by name; empty if the file is empty or invalid YAML."""
        try:
            loaded = load_yaml(self.text)
        except YAMLError:
            return {}
        return dict(loaded.get("stages") or {}) if isinstance(loaded, dict) else {}

    def out(self, path: str) -> str | None:
        """Return the hash of an out, as DVC writes it; ``None`` if no stage has that out."""
        return next((out["md5"] for stage in self.stages.values() for out in stage.get("outs", []) if out["path"] == path), None)

    def params(self) -> dict[str, Any]:
        """Return the parameters of all stages by dotted key, also where a stage lists a whole section."""
        listed = [item for stage in self.stages.values() for values in stage.get("params", {}).values() for item in values.items()]
        params = {}
        for key, value in listed:
            is_section = isinstance(value, dict) and "." not in key
            params.update({f"{key}.{name}": entry for name, entry in value.items()} if is_section else {key: value})
        return params

    def outs(self) -> dict[str, str]:
        """Return the hash of every out, by path."""
        return {out["path"]: out["md5"] for stage in self.stages.values() for out in stage.get("outs", [])}

    def reported_rows(self) -> tuple[str | None, Any]:
        """Return what determines the rows of ``reports/predictions.parquet``: the hash of the raw splits, and the reported split."""
        return self.out(RAW.as_posix()), self.params().get("evaluate.split")

    def inputs(self) -> dict[str, Any]:
        """Return command, parameters and hashes of external dependencies by stage: on one machine, they determine all outs."""
        outs = self.outs()
        return {
            name: (
                stage.get("cmd"),
                stage.get("params"),
                {dep["path"]: dep["md5"] for dep in stage.get("deps", []) if dep["path"] not in outs},
            )
            for name, stage in self.stages.items()
        }

    def code(self) -> dict[str, str]:
        """Return the hash of every file and folder of code that a stage ran with, by path."""
        code = {}
        for stage in self.stages.values():
            code.update({dep["path"]: dep["md5"] for dep in stage.get("deps", []) if dep["path"].startswith(CODE)})
        return dict(sorted(code.items()))


def read_lock(root: Path) -> Lock:
    """Return ``dvc.lock`` of the working tree; empty if there is none."""
    path = root / "dvc.lock"
    return Lock(path.read_text(encoding="utf-8") if path.exists() else "")


def lock_at(root: Path, revision: str) -> Lock:
    """Return ``dvc.lock`` of a commit; empty if it has none."""
    return Lock(git(root, "show", f"{revision}:dvc.lock"))


def changed_by_machine(current: Lock, committed: Lock) -> list[str]:
    """Return the paths of outs that differ although commands, parameters, code and data are equal; empty if any of those differ.

    The remaining cause is the machine: another kind of processor, number of threads, or build of torch.
    """
    if not committed.stages or current.inputs() != committed.inputs():
        return []
    committed_outs = committed.outs()
    return [path for path, md5 in current.outs().items() if committed_outs.get(path) != md5]


def metrics_at(root: Path, revision: str) -> dict[str, float]:
    """Return the metrics of a commit; empty if it has none."""
    try:
        return dict(json.loads(git(root, "show", f"{revision}:{EVALUATED}")))
    except ValueError:
        return {}


def commit_of(root: Path, version: str) -> Commit | None:
    """Return the commit that added a version of the model to ``dvc.lock``; ``None`` if HEAD does not have that version.

    Args:
        root: Root of the project.
        version: Hash of the model, as in ``dvc.lock``.
    """
    if version not in git(root, "show", "HEAD:dvc.lock"):
        return None
    return next(iter(commits(root, "-1", f"-S{version}", "--", "dvc.lock")), None)


def registered(root: Path, version: str, commit: Commit) -> list[str]:
    """Return the names of a model version in the registry (git tags of gto): its versions, and the stages it is in now.

    Args:
        root: Root of the project.
        version: Hash of the model, as in ``dvc.lock``.
        commit: The commit that added it.

    Returns:
        For example ``onnx@v0.2.0`` and ``onnx#production``. A commit has the model if its ``dvc.lock`` has the hash.
    """
    versions, stages = [], []
    descendants = set(git(root, "for-each-ref", f"--contains={commit.sha}", "--format=%(*objectname)", "refs/tags").split())
    with_model = {sha for sha in descendants if version in git(root, "show", f"{sha}:dvc.lock")}
    for artifact, tags in RegistryTags.parse(git(root, "for-each-ref", f"--format={TAG_FORMAT}", "refs/tags")).items():
        versions += [f"{artifact}@{one.name}" for one in tags.versions if one.commit in with_model]
        present = {stage: tags.in_stage(stage) for stage in tags.stages}
        stages += [f"{artifact}#{stage}" for stage, one in present.items() if one and one.commit in with_model]
    return [*sorted(versions), *sorted(stages)]


@dataclass(frozen=True)
class PreviousResult:
    """The result of another commit.

    Attributes:
        commit: The commit.
        metrics: Its ``metrics/evaluate.json``.
        comparable: True if it was measured on the same rows: same raw data, same split.
        lock: Its ``dvc.lock``.
        root: Root of the project.
    """

    commit: Commit
    metrics: dict[str, float]
    comparable: bool
    lock: Lock
    root: Path

    def file(self, path: str) -> Path | None:
        """Return where DVC's cache has a file of that commit; ``None`` if it is not in the cache. Nothing is fetched.

        Args:
            path: Relative to the root of the project.
        """
        return cached_out(self.root, self.lock, path)


def find_previous(root: Path, current: Mapping[str, float], reference: str | None = None) -> PreviousResult | None:
    """Return the result of ``reference``, by default of the newest commit with other metrics; ``None`` if there is none.

    Args:
        root: Root of the project.
        current: Metrics of the working tree.
        reference: Any git name of a commit.
    """
    candidates = commits(root, "-1", reference, "--") if reference else commits(root, "-100", "--", EVALUATED)
    for commit in candidates:
        metrics = metrics_at(root, commit.sha)
        if metrics and (reference or metrics != current):
            current_lock, lock = read_lock(root), lock_at(root, commit.sha)
            rows = lock.reported_rows()
            comparable = rows == current_lock.reported_rows() and None not in rows
            return PreviousResult(commit, metrics, comparable, lock, root)
    return None


def cached_out(root: Path, lock: Lock, path: str) -> Path | None:
    """Return where DVC's cache has a file that is an out, or is in a folder that is one; ``None`` if it is not in the cache.

    Args:
        root: Root of the project.
        lock: The version of ``dvc.lock`` that names the out.
        path: Of the file, relative to the root of the project.
    """
    if md5 := lock.out(path):
        return cached_file(root, md5)
    folder, _, name = path.rpartition("/")
    return (cached_folder(root, lock, folder) or {}).get(name)


def cached_folder(root: Path, lock: Lock, path: str) -> dict[str, Path | None] | None:
    """Return where DVC's cache has the files of a folder that is an out, by their names in it; ``None`` for a file it lacks.

    ``None`` instead of a mapping if the path is not such a folder, or the cache lacks its listing.
    """
    md5 = lock.out(path)
    listing = cached_file(root, md5) if md5 and md5.endswith(".dir") else None
    if listing is None:
        return None
    return {entry["relpath"]: cached_file(root, entry["md5"]) for entry in json.loads(listing.read_text(encoding="utf-8"))}


def is_intact(cached: Path) -> bool:
    """Return True if a file of DVC's cache has the content that its name, the MD5 of the content, says."""
    with cached.open("rb") as file:
        content = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    return content == f"{cached.parent.name}{cached.name}"


def cached_file(root: Path, md5: str | None) -> Path | None:
    """Return where DVC's cache has a file or a folder's listing with that hash; ``None`` if it is not in the cache."""
    if md5 is None:
        return None
    return next((path for cache in _caches(root) if (path := cache / "files/md5" / md5[:2] / md5[2:]).is_file()), None)


def _caches(root: Path) -> Iterator[Path]:
    for name in ("config.local", "config"):
        config = configparser.ConfigParser()
        try:
            config.read(root / ".dvc" / name, encoding="utf-8")
        except (configparser.Error, OSError):
            continue
        if folder := config.get("cache", "dir", fallback=None):
            yield root / ".dvc" / folder
    yield root / ".dvc/cache"
