"""What git and dvc.lock know: which version of the model this is, which commit has it, and what the registry calls it."""

import json
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

EVALUATED = "metrics/evaluate.json"
CLASSIFIER = "models/classifier"
_FIELDS = "%H%x1f%h%x1f%cs%x1f%s"


def git(root: Path, *words: str) -> str:
    """What git prints; empty where it fails or is not there."""
    try:
        done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


@dataclass(frozen=True)
class Commit:
    """A commit, in words."""

    sha: str
    short: str
    date: str
    subject: str

    def __str__(self) -> str:
        return f"{self.short} {self.date} {self.subject}"


def commits(root: Path, *words: str) -> list[Commit]:
    """Commits that ``git log`` gives, the newest first."""
    lines = git(root, "log", f"--format={_FIELDS}", *words).splitlines()
    return [Commit(*line.split("\x1f", 3)) for line in lines]


@dataclass(frozen=True)
class Lock:
    """One version of ``dvc.lock``: which files belong together."""

    text: str = field(repr=False)

    @cached_property
    def stages(self) -> Mapping[str, Any]:
        """Its stages; empty where it is empty or no YAML."""
        try:
            loaded = YAML(typ="safe", pure=True).load(self.text)
        except YAMLError:
            return {}
        return dict(loaded.get("stages") or {}) if isinstance(loaded, dict) else {}

    def out(self, path: str) -> str | None:
        """Hash of an out, as DVC writes it."""
        return next((out["md5"] for stage in self.stages.values() for out in stage.get("outs", []) if out["path"] == path), None)

    def params(self) -> dict[str, Any]:
        """Every parameter that a stage ran with, by dotted key."""
        found = {}
        for stage in self.stages.values():
            for values in stage.get("params", {}).values():
                found.update(values)
        return found

    def outs(self) -> dict[str, str]:
        """Hash of every out, by path."""
        return {out["path"]: out["md5"] for stage in self.stages.values() for out in stage.get("outs", [])}

    def inputs(self) -> dict[str, Any]:
        """Commands, parameters and hashes of dependencies that no stage makes: all that outs are a function of, on one machine."""
        made = self.outs()
        return {
            name: (
                stage.get("cmd"),
                stage.get("params"),
                {dep["path"]: dep["md5"] for dep in stage.get("deps", []) if dep["path"] not in made},
            )
            for name, stage in self.stages.items()
        }

    def code(self) -> dict[str, str]:
        """Hash of every code file or folder that a stage ran with."""
        found = {}
        for stage in self.stages.values():
            found.update({dep["path"]: dep["md5"] for dep in stage.get("deps", []) if dep["path"].startswith(("stages/", "tuneline/"))})
        return dict(sorted(found.items()))


def read_lock(root: Path) -> Lock:
    """``dvc.lock`` as it lies in the working tree; empty where it is not there."""
    path = root / "dvc.lock"
    return Lock(path.read_text(encoding="utf-8") if path.exists() else "")


def lock_at(root: Path, revision: str) -> Lock:
    """``dvc.lock`` of a commit."""
    return Lock(git(root, "show", f"{revision}:dvc.lock"))


def changed_by_machine(now: Lock, committed: Lock) -> list[str]:
    """Return the outs that differ although commands, parameters, code and data are the same; empty where any of those differ.

    What is left as the cause is the machine: another kind of processor, number of threads, or build of torch.
    """
    if not committed.stages or now.inputs() != committed.inputs():
        return []
    before = committed.outs()
    return [path for path, md5 in now.outs().items() if before.get(path) != md5]


def metrics_at(root: Path, revision: str) -> dict[str, float]:
    """The metrics of a commit; empty where it has none."""
    try:
        return dict(json.loads(git(root, "show", f"{revision}:{EVALUATED}")))
    except ValueError:
        return {}


def commit_of(root: Path, version: str) -> Commit | None:
    """The commit that brought a version of the model into ``dvc.lock``; ``None`` when it is not committed.

    Looks for the hash in HEAD first: a version that was replaced since belongs to no commit that one stands on.
    """
    if version not in git(root, "show", "HEAD:dvc.lock"):
        return None
    return next(iter(commits(root, "-1", f"-S{version}", "--", "dvc.lock")), None)


_VERSION = re.compile(r"[\w.-]+@v[\w.+-]+")
_STAGE = re.compile(r"(?P<slot>[\w.-]+#\w[\w-]*)#(?P<number>\d+)")


def registered(root: Path, version: str, commit: Commit) -> list[str]:
    """Names that the model registry (gto's git tags) has for a version of the model: its own, and the stages it is in now.

    Args:
        root: The project.
        version: Hash of the model, as ``dvc.lock`` has it.
        commit: That brought it.

    Returns:
        For example ``onnx@v0.2.0`` and ``onnx#production``. A tag belongs to the model when its commit's ``dvc.lock`` has it.
    """
    later = git(root, "tag", "--list", "--contains", commit.sha).splitlines()
    ours = {tag for tag in later if version in git(root, "show", f"{tag}^{{commit}}:dvc.lock")}
    newest: dict[str, int] = {}
    for tag in git(root, "tag", "--list").splitlines():
        if found := _STAGE.fullmatch(tag):
            newest[found["slot"]] = max(int(found["number"]), newest.get(found["slot"], 0))
    stages = [slot for slot, number in newest.items() if f"{slot}#{number}" in ours]
    return [*sorted(tag for tag in ours if _VERSION.fullmatch(tag)), *sorted(stages)]
