"""Check of the registry: a version that is in a stage has a copy elsewhere, of its files and of its commit."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from ruamel.yaml import YAML

from tuneline.cli.doctor import CheckResult, ok, warning
from tuneline.registry import TAG_FORMAT, RegistryTags, Version
from tuneline.repo import git, lock_at

TIMEOUT = 30.0
"""Seconds that ``origin`` and the DVC remote each have to answer."""
HINT = "With a git remote `origin` and a default DVC remote: python -m flows.promotion.publication"


def check_registry(root: Path) -> Iterator[CheckResult]:
    """Yield a result for each version that is in a stage: has it a second copy?"""
    for artifact, tags in RegistryTags.parse(git(root, "for-each-ref", f"--format={TAG_FORMAT}", "refs/tags")).items():
        for stage in tags.stages:
            if version := tags.in_stage(stage):
                yield check_copies(root, artifact, stage, version)


def check_copies(root: Path, artifact: str, stage: str, version: Version) -> CheckResult:
    """Check that the DVC remote has the files of a version, and ``origin`` its tag."""
    message = f"{artifact} {version.name}, which is in {stage}"
    missing = list(filter(None, (_why_not_in_dvc_remote(root, artifact, version.commit), _why_not_in_origin(root, artifact, version))))
    if missing:
        return warning(f"{message}, has no second copy: {'; '.join(missing)}", HINT)
    return ok(f"{message}, is in the DVC remote and in origin")


def _why_not_in_dvc_remote(root: Path, artifact: str, commit: str) -> str | None:
    """Return why the DVC remote does not have an artifact, as far as is known; ``None`` if it has it."""
    listed = (YAML(typ="safe", pure=True).load(git(root, "show", f"{commit}:dvc.yaml")) or {}).get("artifacts", {})
    md5 = lock_at(root, commit).out(str(listed.get(artifact, {}).get("path")))
    if md5 is None:
        return f"dvc.lock of {commit[:12]} does not list it"
    done = _run(root, sys.executable, "-P", "-m", "tuneline.dvc_remote", "has", md5)
    if done is None:
        return f"the DVC remote did not answer within {TIMEOUT:g} seconds"
    if done.returncode and (lines := done.stderr.strip().splitlines()):
        error = next((line for line in lines if line.startswith("ERROR")), lines[-1])
        return f"the DVC remote cannot be asked ({error.removeprefix('ERROR: ')})"
    return "the DVC remote does not have its files" if done.returncode else None


def _why_not_in_origin(root: Path, artifact: str, version: Version) -> str | None:
    """Return why ``origin`` does not have the tag of a version, as far as is known; ``None`` if it has it."""
    if "origin" not in git(root, "remote").split():
        return "there is no git remote origin"
    done = _run(root, "git", "ls-remote", "origin", f"refs/tags/{artifact}@{version.name}*")
    if done is None:
        return f"origin did not answer within {TIMEOUT:g} seconds"
    if done.returncode:
        return f"origin cannot be asked ({done.stderr.strip().splitlines()[0]})"
    return None if version.commit in done.stdout else "origin does not have its tag"


def _run(root: Path, *command: str) -> subprocess.CompletedProcess[str] | None:
    """Run a program that uses the network; return ``None`` if it does not end in time."""
    env = {**os.environ, "DVC_NO_ANALYTICS": "1", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    try:
        return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, env=env, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        return None
