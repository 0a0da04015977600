"""Checks of the checkout: git, parameters, launch configuration, source data and its corrections, partial files, DVC status."""

import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from rich.filesize import decimal
from ruamel.yaml import YAML

from tuneline.cli.doctor import DoctorResult, error, ok, warning
from tuneline.core.errors import DataError, ParamsError
from tuneline.core.launch import launch_file
from tuneline.core.paths import BASE, BASE_RECORD, CORRECTIONS, PARAMS, SITE_CACHE, SOURCE
from tuneline.core.provenance import BaseSource
from tuneline.params import Params
from tuneline.params.loading import load_params
from tuneline.params.model import is_folder
from tuneline.project.registry import Version
from tuneline.project.repo import git, lock_at, registries
from tuneline.readers.files import is_url, not_a_file, shown

OUTPUT_FOLDERS = ("data", "models", "metrics", "plots", "reports", "checkpoints")


def check_checkout(root: Path) -> Iterator[DoctorResult]:
    """Yield the result of each check of the checkout in ``root``."""
    if not (root / "dvc.yaml").exists() or not (root / PARAMS).exists():
        yield error(
            f"{root.resolve()} is not a checkout of Tuneline: dvc.yaml or params.yaml is missing", "Change to the root of the project."
        )
        return
    yield from check_git(root)
    try:
        params = load_params(root / PARAMS)
    except ParamsError as invalid:
        yield error(str(invalid), "The comments in params.yaml describe every key.")
    else:
        yield ok("params.yaml is valid")
        yield check_launch_file(root, params)
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
    if special.level == "ok":
        yield check_pipeline(root)


def check_git(root: Path) -> Iterator[DoctorResult]:
    """Check that git is installed, and that the repository has a full history and a committer identity."""
    try:
        shallow = _run(root, "git", "rev-parse", "--is-shallow-repository")
    except FileNotFoundError:
        yield error("git is not installed", "apt-get install git")
        return
    if shallow.returncode:
        lines = shallow.stderr.strip().splitlines()
        yield error(
            f"git: {lines[-1] if lines else 'not a repository'}", "DVC and the report need a git repository: git init, or clone again."
        )
        return
    if shallow.stdout.strip() == "true":
        yield warning(
            "this clone is shallow: the report may have no commit to compare with", "git fetch --unshallow   (in CI: fetch-depth: 0)"
        )
    identity = _run(root, "git", "var", "GIT_COMMITTER_IDENT")
    if identity.returncode:
        yield warning("git has no committer name or email: commits will fail", "git config user.name ...; git config user.email ...")
    yield ok("git")


def check_launch_file(root: Path, params: Params) -> DoctorResult:
    """Check that the launch configuration named by ``train.launch`` exists."""
    path = root / launch_file(params.train.launch)
    if path.exists():
        return ok(f"train.launch: {params.train.launch}")
    available = ", ".join(sorted(file.stem for file in path.parent.glob("*.yaml")))
    return error(f"train.launch: {path} does not exist", f"Set train.launch to one of: {available}")


def check_source(root: Path, params: Params) -> DoctorResult:
    """Check that the data set named by ``data`` can be read: the files exist, or the hub may be contacted."""
    if params.data.source == "hub" and os.environ.get("HF_HUB_OFFLINE", "0") not in {"", "0"}:
        return warning("data.source is hub and HF_HUB_OFFLINE is set: only data in the local cache can be read", "unset HF_HUB_OFFLINE")
    if params.data.source != "files":
        return ok(f"data.source: {params.data.source}")
    if is_url(params.data.path or ""):
        return ok(f"data.source: files in {shown(str(params.data.path))}")
    folder = root / SOURCE / (params.data.path or "")
    specs = params.data.source_specs.values()
    names = sorted({name for spec in specs for name in re.findall(r"(?:^|\+)\s*(\w+)", spec)})
    files = [path.name for path in folder.glob("*")] if folder.is_dir() else []
    missing = [name for name in names if not any(file.startswith(f"{name}.") and not file.endswith(".dvc") for file in files)]
    if not missing:
        return ok(f"data.source: files in {folder}")
    return error(f"{folder} has no file for {' and '.join(missing)}", "tuneline init FILE.csv; if DVC tracks the files: dvc pull")


def check_corrections(root: Path) -> DoctorResult:
    """Check that the corrections of the data are there, can be read, and are committed."""
    from tuneline.analysis.corrections import Corrections

    if not (root / CORRECTIONS).is_dir():
        return error(f"{CORRECTIONS}/ is missing, and the stage download depends on it", f"git checkout {CORRECTIONS}")
    try:
        corrections = Corrections.read(root / CORRECTIONS)
    except DataError as invalid:
        return error(invalid.problem, invalid.hint or f"git diff {CORRECTIONS}")
    if changed := _run(root, "git", "status", "--porcelain", "--", f"{CORRECTIONS}/*.csv").stdout.split():
        problem = f"{changed[-1]} is not committed: only this checkout trains on the corrected data"
        return warning(problem, f"git add {CORRECTIONS}, and commit")
    return ok(f"{CORRECTIONS}: {corrections.labels.num_rows:,} labels, {corrections.dropped.num_rows:,} dropped rows")


def check_special_files(root: Path) -> DoctorResult:
    """Check that ``data/source`` has only files and folders: DVC hashes all that is there, and waits for a pipe without end."""
    for path in sorted((root / SOURCE).rglob("*")):
        if not path.is_dir() and (problem := not_a_file(path)):
            name, effect = path.relative_to(root), "waits for it without end" if path.is_fifo() else "cannot hash it"
            return error(f"{name} {problem}: DVC {effect}", f"rm '{name}'")
    return ok(f"{SOURCE}: only files and folders")


def check_base_model(root: Path, params: Params) -> DoctorResult:
    """Check that the checkpoint and tokenizer can be read: the folder exists, or the hub may be contacted or is not needed."""
    names = {"model.checkpoint": params.model.checkpoint, "tokenize.tokenizer": params.tokenize.tokenizer}
    for key, name in names.items():
        if name and is_folder(name) and not (root / name / "config.json").exists():
            return error(
                f"{key}: {root / name} has no config.json", f"save_pretrained('{name}'); if DVC tracks the folder: dvc pull {name}"
            )
    base = BaseSource.read_if_valid(root / BASE_RECORD)
    present = {source.name for source in (base.checkpoint, base.tokenizer) if source} if base else set()
    missing = [name for name in names.values() if name and not is_folder(name) and name not in present]
    if missing and os.environ.get("HF_HUB_OFFLINE", "0") not in {"", "0"}:
        return warning(f"{missing[0]} is not in {BASE}, and HF_HUB_OFFLINE is set", "unset HF_HUB_OFFLINE, or dvc pull base")
    return ok(f"model.checkpoint: {params.model.checkpoint or 'none, trained from scratch'}")


def check_partial_files(root: Path) -> DoctorResult:
    """Check that no killed run left partially written files."""
    partial = [path for folder in OUTPUT_FOLDERS for pattern in (".*.partial", ".*.former") for path in (root / folder).rglob(pattern)]
    if not partial:
        return ok("no partially written files")
    names = ", ".join(str(path.relative_to(root)) for path in partial[:3])
    return warning(f"a run was killed while it wrote {names}", "Harmless: the next run of that stage removes it.")


def check_partial_copies(root: Path) -> DoctorResult:
    """Check that DVC left no half copy in its cache, which a full disk or a kill leaves and nothing removes."""
    copies = [path for pattern in ("*/.*.tmp", "*/*/.*.tmp") for path in (root / ".dvc" / "cache" / "files").glob(pattern)]
    if not copies:
        return ok("no partial copies in DVC's cache")
    size = sum(path.stat().st_size for path in copies)
    return warning(
        f"{len(copies)} partial copies in DVC's cache take {decimal(size)}: it was ended, or the disk was full",
        "When no dvc is running: find .dvc/cache/files -name '.*.tmp' -delete",
    )


def check_site_cache(root: Path) -> DoctorResult:
    """Check that no other user can write to DVC's site cache: DVC unpickles it, so whoever writes there runs code as who runs DVC."""
    from dvc.config import Config
    from dvc.dirs import site_cache_dir

    folder = Path(site_cache_dir(Config(dvc_dir=str(root / ".dvc"))["core"].get("site_cache_dir"))).absolute()
    if not _open_to_others(folder):
        return ok("DVC's site cache is closed to other users")
    private = root.resolve() / SITE_CACHE
    return warning(
        f"other users of this machine can write to DVC's site cache in {folder}, and run code as you when you run DVC",
        f'make setup   (without make: mkdir -p "{private}"; chmod 700 "{private}"; dvc config --local core.site_cache_dir "{private}")',
    )


def _open_to_others(folder: Path) -> bool:
    """Return True if others than the owner and the group may change what DVC puts there. DVC makes a missing folder writable for all."""
    for path in (*reversed(folder.parents), folder):
        if not path.exists():
            return True
        status = path.stat()
        if status.st_uid not in {0, os.getuid()} or (status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX):
            return True
        if not status.st_mode & stat.S_IXOTH:
            return False
    return True


def check_pipeline(root: Path) -> DoctorResult:
    """Check with ``dvc status`` that every out is up to date with its inputs."""
    done = _run(root, sys.executable, "-m", "dvc", "status", "--json")
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
        if "dvc.lock' validation failed" in done.stderr or "dvc.lock' is invalid" in done.stderr:
            return error(
                "dvc.lock is damaged: DVC was ended, or the disk was full, while it wrote it",
                "git checkout dvc.lock (rm, if it was never committed), then dvc repro: DVC's cache has what finished stages made.",
            )
        if "lock" in done.stderr:
            return warning(
                "DVC is locked: a pipeline run is in progress, or was killed a moment ago",
                "Wait until it ends. `dvc repro` fails while the lock is held.",
            )
        return error(f"dvc status: {lines[0] if lines else 'failed'}", "dvc status -v prints the details")
    changed = list(json.loads(done.stdout or "{}"))
    if not changed:
        return ok("the pipeline is up to date")
    return warning(f"not up to date: {', '.join(changed)}", "make run, or dvc repro; if another machine has pushed these results: dvc pull")


def _run(root: Path, *command: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "LC_ALL": "C"}
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, env=env)


TIMEOUT = 30.0
"""Seconds that ``origin`` and the DVC remote each have to answer."""
HINT = "With a git remote `origin` and a default DVC remote: python -m flows.promotion publish"


def check_registry(root: Path) -> Iterator[DoctorResult]:
    """Yield a result for each version that is in a stage: has it a second copy?"""
    for artifact, tags in registries(root).items():
        for stage in tags.stages:
            if version := tags.in_stage(stage):
                yield check_copies(root, artifact, stage, version)


def check_copies(root: Path, artifact: str, stage: str, version: Version) -> DoctorResult:
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
    done = _run_with_network(root, sys.executable, "-P", "-m", "tuneline.project.dvc", "has", md5)
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
    done = _run_with_network(root, "git", "ls-remote", "origin", f"refs/tags/{artifact}@{version.name}*")
    if done is None:
        return f"origin did not answer within {TIMEOUT:g} seconds"
    if done.returncode:
        return f"origin cannot be asked ({done.stderr.strip().splitlines()[0]})"
    return None if version.commit in done.stdout else "origin does not have its tag"


def _run_with_network(root: Path, *command: str) -> subprocess.CompletedProcess[str] | None:
    """Run a program that uses the network; return ``None`` if it does not end in time."""
    env = {**os.environ, "DVC_NO_ANALYTICS": "1", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    try:
        return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, env=env, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        return None
