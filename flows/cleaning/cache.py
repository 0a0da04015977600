"""DVC's cache: what no ref, stash or working tree names any more."""

import json
import sys
import time
from collections.abc import Collection
from pathlib import Path

from flows.cleaning.collect import BUSY
from flows.cleaning.rows import Cleaning, Row
from flows.runs.checkout import CHECKOUTS_WAIT, active
from flows.runs.processes import ProgramError, Programs
from flows.runs.repository import Repository, dvc_config, locked

COLLECT = Path(__file__).with_name("collect.py")
POLL = 20.0
"""Seconds between two looks whether the cache is in use."""


def clean_cache(cleaning: Cleaning, removed: Collection[str]) -> Row:
    """Remove the objects that nothing names.

    Runs store and restore objects before a commit names them, so this waits until none is active, and holds the lock without which
    none starts.

    Args:
        cleaning: The cleaning.
        removed: Branches and checkouts that count as removed: a dry run has not removed them.
    """
    repository, retention = cleaning.repository, cleaning.retention
    if retention.cache_days is None:
        return Row("objects of DVC's cache")
    if not retention.own_cache and (folder := _cache(repository)) and not folder.is_relative_to(repository.root.resolve()):
        return Row("objects of DVC's cache", note=f"left: other clones may use {folder} (retention.own_cache)")
    until = time.monotonic() + (0 if cleaning.dry_run else retention.cache_wait_minutes * 60)
    while True:
        with locked(repository.state / "checkouts.lock", wait=CHECKOUTS_WAIT) as lock:
            runs = active(repository)
            in_use = f"run {runs[0]} is active" if runs else ""
            if not in_use:
                try:
                    return _collect(cleaning, removed, lock)
                except ProgramError as error:
                    if error.code != BUSY:
                        raise
                    in_use = error.last[-1]
        if time.monotonic() > until:
            return Row("objects of DVC's cache", note=f"left: {in_use}")
        cleaning.log(f"Waiting to collect DVC's cache: {in_use}")
        time.sleep(POLL)


def _collect(cleaning: Cleaning, removed: Collection[str], lock: int) -> Row:
    """Run the program, which inherits the lock: if this process is killed, no run starts before the program has ended."""
    repository, retention = cleaning.repository, cleaning.retention
    gone = {(repository.state / name).resolve() for name in removed}
    trees = {path: head for path, head in worktrees(repository).items() if path not in gone}
    others = [path for path in trees if path != repository.root.resolve() and (path / ".dvc").is_dir()]
    options = {
        "revs": used_commits(repository, removed, trees.values(), everything=retention.remote),
        "projects": [str(path) for path in others],
        "before": cleaning.before(retention.cache_days),
        "dry": cleaning.dry_run,
        "remote": retention.remote,
    }
    with Programs(repository.root, "clean", lock=lock, preload=False) as programs:
        command = [sys.executable, "-P", str(COLLECT), json.dumps(options)]
        *messages, found = programs.run(command, "Collecting DVC's cache", lambda _line: None, keep=1000)
    for line in messages:
        cleaning.log(line)
    found = json.loads(found)
    return Row("objects of DVC's cache", bytes=found["bytes"], count=found["objects"], note=_remote_note(found["remote"]))


def _remote_note(objects: int) -> str:
    return f"{objects} objects of the DVC remote" if objects else ""


def _cache(repository: Repository) -> Path:
    folder = dvc_config(repository.root).get("cache", {}).get("dir")
    return Path(folder or repository.root / ".dvc" / "cache").resolve()


def worktrees(repository: Repository) -> dict[Path, str]:
    """Return the working trees of a repository, with the commits they are at."""
    found: dict[Path, str] = {}
    path = Path()
    for line in repository.git("worktree", "list", "--porcelain").splitlines():
        key, _, value = line.partition(" ")
        if key == "worktree":
            path = Path(value).resolve()
        elif key == "HEAD" and int(value, 16):  # a branch without a commit has none
            found[path] = value
    return found


def used_commits(repository: Repository, without: Collection[str], heads: Collection[str], *, everything: bool) -> list[str]:
    """Return the commits whose outs are used: of refs (branches, tags, DVC's experiments), of stashes, and ``heads``.

    Args:
        repository: The clone.
        without: Branches that do not count.
        heads: More commits.
        everything: Count what runs of other clones have pushed, too. The DVC remote has its outs, so this cache need not.
    """
    excluded = [f"refs/heads/{name}" for name in without] + ([] if everything else ["refs/remotes/*/runs/*"])
    patterns = (f"--exclude={pattern}" for pattern in excluded)
    named = repository.git("rev-list", "--no-walk", "--single-worktree", *patterns, "--all", *heads)
    return list(dict.fromkeys([*named.split(), *repository.git("stash", "list", "--format=%H").split()]))
