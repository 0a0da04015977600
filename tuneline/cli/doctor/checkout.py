"""The checkout: git, DVC, parameters, source data, and what a killed run may have left."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tuneline.cli.doctor.finding import Finding, error, ok, warning
from tuneline.errors import ParamsError
from tuneline.params import Params
from tuneline.params.loading import load_params
from tuneline.paths import PARAMS, SOURCE

WRITTEN = ("data", "models", "metrics", "plots", "reports", "checkpoints")


def look(root: Path) -> Iterator[Finding]:
    """Looks at the checkout."""
    if not (root / "dvc.yaml").exists() or not (root / PARAMS).exists():
        yield error(f"{root.resolve()} is no checkout of Tuneline: dvc.yaml or params.yaml is missing", "cd to its root.")
        return
    yield from git(root)
    try:
        params = load_params(root / PARAMS)
    except ParamsError as fault:
        yield error(str(fault), "docs/parameters.md has every key.")
    else:
        yield ok("params.yaml is valid")
        yield launch_file(root, params)
        yield source(root, params)
    yield leftovers(root)
    yield line(root)


def git(root: Path) -> Iterator[Finding]:
    """Whether git can say which commit a model belongs to."""
    try:
        shallow = _run(root, "git", "rev-parse", "--is-shallow-repository")
    except FileNotFoundError:
        yield error("git is not there", "apt-get install git")
        return
    if shallow.returncode:
        said = shallow.stderr.strip().splitlines()
        yield error(f"git: {said[-1] if said else 'no repository'}", "DVC and the report want a git repository: git init, or clone again.")
        return
    if shallow.stdout.strip() == "true":
        yield warning("this clone is shallow: there may be no commit to compare with", "git fetch --unshallow   (in CI: fetch-depth: 0)")
    identity = _run(root, "git", "var", "GIT_COMMITTER_IDENT")
    if identity.returncode:
        yield warning("git does not know who you are: commits will fail", "git config user.name ...; git config user.email ...")
    yield ok("git")


def launch_file(root: Path, params: Params) -> Finding:
    """Whether the launch configuration is there."""
    path = root / f"conf/accelerate/{params.train.launch}.yaml"
    known = ", ".join(sorted(file.stem for file in path.parent.glob("*.yaml")))
    if path.exists():
        return ok(f"train.launch: {params.train.launch}")
    return error(f"train.launch: {path} is not there", f"One of: {known}")


def source(root: Path, params: Params) -> Finding:
    """Whether the data that ``data`` names can be there."""
    if params.data.source == "hub" and os.environ.get("HF_HUB_OFFLINE", "0") not in {"", "0"}:
        return warning("data.source is hub, and HF_HUB_OFFLINE is set: only what was fetched before can be read", "unset HF_HUB_OFFLINE")
    if params.data.source != "files":
        return ok(f"data.source: {params.data.source}")
    folder = root / SOURCE / (params.data.path or "")
    specs = params.data.splits.model_dump().values()
    names = sorted({name for spec in specs for name in re.findall(r"(?:^|\+)\s*(\w+)", spec)})
    there = [path.name for path in folder.glob("*")] if folder.is_dir() else []
    missing = [name for name in names if not any(file.startswith(f"{name}.") and not file.endswith(".dvc") for file in there)]
    if not missing:
        return ok(f"data.source: files of {folder}")
    return error(f"no file of {' and '.join(missing)} in {folder}", "tuneline init FILE.csv; or `dvc pull` where they are tracked")


def leftovers(root: Path) -> Finding:
    """Whether a killed run left something half-written."""
    found = [path for folder in WRITTEN for pattern in (".*.partial", ".*.former") for path in (root / folder).rglob(pattern)]
    if not found:
        return ok("nothing half-written")
    names = ", ".join(str(path.relative_to(root)) for path in found[:3])
    return warning(f"a run was killed while it wrote: {names}", "Harmless: the next run of the stage removes it.")


def line(root: Path) -> Finding:
    """Whether what the line made is that of its inputs, as DVC sees it."""
    if not (root / ".dvc").is_dir():
        return error(".dvc is not there", "git checkout .dvc, or dvc init")
    done = _run(root, sys.executable, "-m", "dvc", "status", "--json")
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        if "lock" in done.stderr:
            return warning(
                "DVC is at work: a run of the line is going on, or died a moment ago", "Wait for it. `dvc repro` waits for nobody."
            )
        return error(f"dvc status: {said[0] if said else 'failed'}", "dvc status -v says more")
    stale = list(json.loads(done.stdout or "{}"))
    if not stale:
        return ok("the line is up to date")
    return warning(f"not up to date: {', '.join(stale)}", "make run, or dvc repro; where a machine ran it before: dvc pull")


def _run(root: Path, *command: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "DVC_NO_ANALYTICS": "1", "LC_ALL": "C"}
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, env=env)
