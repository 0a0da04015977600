"""Flow ``clean``: removes what runs leave behind and nobody needs any more.

These are branches ``runs/*`` of old results, working trees that nobody uses, and objects of DVC's cache that
no branch, no tag, no experiment and no working tree names: ``dvc gc``. Prefect's server removes its own old
runs.
"""

import shutil
import time
from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger
from prefect.client.schemas import State

from tuneline.core.paths import CHECKPOINTS
from tuneline.core.repository.dvc import cache_folder, file_in_cache, load_yaml
from tuneline.core.repository.programs import Programs
from tuneline.core.runtime.files import locked
from tuneline.core.settings import Settings, load_settings
from tuneline.operations.alerts import ended
from tuneline.operations.promotion.registry import Registry
from tuneline.operations.runs.checkout import CHECKOUTS_WAIT, abandoned, active, remove_checkout, superfluous
from tuneline.operations.runs.commits import RUN_TRAILER
from tuneline.operations.runs.pipeline import Pipeline, log_line
from tuneline.operations.runs.repository import Repository
from tuneline.operations.server.worker import end_with_worker

DAY = 86400.0
CHECKPOINT_DAYS = 14
"""Days after which a training that was interrupted is not resumed any more."""
SMALL = 1_000_000
"""Bytes of a file of the cache that is kept because it may be the metrics of a stage."""
LOCK_WAIT = 900.0
"""Seconds to wait for a promotion."""
_FORMAT = "%1f".join(
    [
        "%(objectname)",
        "%(committerdate:unix)",
        "%(worktreepath)",
        f"%(contents:trailers:key={RUN_TRAILER},valueonly,separator=%2C)",
        "%(refname)",
    ]
)


@flow(name="clean", persist_result=False)
def clean() -> State[Any]:
    """Remove old branches of runs, working trees of failed runs, and what nothing names in DVC's cache.

    With `training.push`, also the branches of runs in `origin`.
    """
    repository = Repository.here(get_run_logger().warning)
    settings = load_settings(repository.root)
    end_with_worker()
    repository.state.mkdir(parents=True, exist_ok=True)

    # What fails is left for the next time.
    parts = []
    problems = []
    for what, step in (
        ("branches", clean_branches),
        ("working trees", clean_trees),
        ("DVC's cache", clean_cache),
    ):
        try:
            parts.append(f"{what}: {step(repository, settings)}")
        except Exception as error:
            problems.append(f"{what} are not cleaned, the next run tries again: {error}")
    message = f"Removed {'; '.join(parts)}"
    get_run_logger().info(message)
    return ended(message, problems)


def clean_branches(repository: Repository, settings: Settings) -> str:
    """Remove the branches of old results, with ``training.push`` from ``origin`` first.

    Branches stay that no run made, that a person committed to or has checked out, and whose model is in a
    stage.
    """
    if settings.retention.branch_days is None:
        return "all are kept"
    registry = Registry(repository)
    before = time.time() - settings.retention.branch_days * DAY
    with registry.locked(LOCK_WAIT):
        needed = {version.commit for version in registry.tags().staged}
        local = _old_branches(repository, "refs/heads/", before, needed)
        remote: dict[str, str] = {}
        if settings.training.push and repository.has_remote():
            tracked = "+refs/heads/runs/*:refs/remotes/origin/runs/*"
            repository.transfer("fetch", "--prune", "--no-tags", "origin", tracked)
            remote = _old_branches(repository, "refs/remotes/origin/", before, needed)
        _delete(repository, local, remote)
    return f"{', '.join(local) or 'none'} ({len(remote)} in origin)"


def _old_branches(repository: Repository, prefix: str, before: float, needed: set[str]) -> dict[str, str]:
    """Return the commits of old branches of runs, by their names from ``runs/`` on."""
    old = {}
    for line in repository.git("for-each-ref", f"--format={_FORMAT}", f"{prefix}runs/").splitlines():
        commit, date, worktree, run, ref = line.split("\x1f")
        if run and not worktree and float(date) < before and commit not in needed:
            old[ref.removeprefix(prefix)] = commit
    return old


def _delete(repository: Repository, local: dict[str, str], remote: dict[str, str]) -> None:
    """Delete branches, only if they still are at these commits."""
    if remote:
        leases = [f"--force-with-lease=refs/heads/{name}:{commit}" for name, commit in remote.items()]
        deletions = [f":refs/heads/{name}" for name in remote]
        repository.transfer("push", "--quiet", *leases, "origin", *deletions)
    lines = [f"delete refs/heads/{name} {commit}\n" for name, commit in local.items()]
    repository.git("update-ref", "--stdin", text="".join(lines))


def clean_trees(repository: Repository, settings: Settings) -> str:
    """Remove the working trees of failed runs but the last ones, what killed programs left, and checkpoints.

    A training that nobody has resumed for two weeks begins anew.
    """
    with locked(repository.state / "checkouts.lock", wait=CHECKOUTS_WAIT):
        names = superfluous(repository, settings.retention.checkouts)
        for name in names:
            remove_checkout(repository, name)
        versions = repository.root / ".dvc" / "tmp" / "versions"
        for tree in versions.glob("*"):
            if time.time() - tree.stat().st_mtime > DAY:
                shutil.rmtree(tree, ignore_errors=True)
        repository.git("worktree", "prune")
        # every checkpoint that a training writes changes the time of its folder
        for folder in (repository.root / CHECKPOINTS).glob("[!.]*/"):
            if time.time() - folder.stat().st_mtime > CHECKPOINT_DAYS * DAY:
                shutil.rmtree(folder)
    return ", ".join(names) or "none"


def clean_cache(repository: Repository, settings: Settings) -> str:
    """Remove the objects of the cache that nothing names, unless a run is active.

    A cache outside of the repository is left: other clones may use it.
    """
    root = repository.root
    if not settings.retention.cache:
        return "left (retention.cache)"
    if not cache_folder(root).resolve().is_relative_to(root.resolve()):
        return f"left: other clones may use {cache_folder(root)}"

    # No run starts while this holds the lock, and DVC's own lock keeps a person's commands out.
    with locked(repository.state / "checkouts.lock", wait=CHECKOUTS_WAIT) as lock:
        runs = active(repository)
        if runs:
            return f"left: run {runs[0]} is active"
        command = ["gc", "--force", "--workspace", "--all-branches", "--all-tags", "--all-experiments"]
        projects = [str(repository.state / name) for name in abandoned(repository)]
        if projects:
            command.append("--projects")
            command += projects
        pipeline = Pipeline(Programs(root, "clean", locks=[lock]), log_line, settings.lock_wait_seconds)
        metrics = _metrics_of_run_cache(root)
        printed = pipeline.dvc(*command, what="Collecting DVC's cache")
        for path, content in metrics.items():
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
                path.chmod(0o444)
    return " ".join(printed[-1:])


def _metrics_of_run_cache(root: Path) -> dict[Path, bytes]:
    """Return the small files of the cache by which DVC restores a stage that ran before.

    ``dvc gc`` takes metrics, which are in git, for unused. Without them, the next night would train again
    what it has.
    """
    cache = cache_folder(root)
    contents = {}
    for entry in cache.glob("runs/*/*/*"):
        for out in (load_yaml(entry.read_text(encoding="utf-8")) or {}).get("outs", []):
            file = file_in_cache(cache, out["md5"])
            if file is not None and file.stat().st_size <= SMALL:
                contents[file] = file.read_bytes()
    return contents
