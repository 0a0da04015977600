"""DVC's cache: what no ref, stash or working tree names any more."""

import json
import sys
import time
from collections.abc import Collection

from flows.cleaning.removals import Cleaning, Removed
from flows.runs.checkout import CHECKOUTS_WAIT, active
from flows.runs.processes import ProgramError, Programs
from flows.runs.repository import Repository
from tuneline.core.locks import locked
from tuneline.project.dvc import BUSY, cache_folder

POLL = 20.0
"""Seconds between two looks whether the cache is in use."""


def clean_cache(cleaning: Cleaning, removed: Collection[str]) -> Removed:
    """Remove the objects that nothing names.

    Runs store and restore objects before a commit names them, so this waits until none is active, and holds the lock without which
    none starts.

    Args:
        cleaning: The cleaning.
        removed: Branches and checkouts that count as removed: a dry run has not removed them.
    """
    repository, retention = cleaning.repository, cleaning.retention
    if retention.cache_days is None:
        return Removed("objects of DVC's cache")
    if not retention.own_cache and not (folder := cache_folder(repository.root).resolve()).is_relative_to(repository.root.resolve()):
        return Removed("objects of DVC's cache", note=f"left: other clones may use {folder} (retention.own_cache)")
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
            return Removed("objects of DVC's cache", note=f"left: {in_use}")
        cleaning.log(f"Waiting to collect DVC's cache: {in_use}")
        time.sleep(POLL)


def _collect(cleaning: Cleaning, removed: Collection[str], lock: int) -> Removed:
    """Run the program, which inherits the lock: if this process is killed, no run starts before the program has ended."""
    repository, retention = cleaning.repository, cleaning.retention
    gone = {(repository.state / name).resolve() for name in removed}
    heads = {tree.path.resolve(): tree.head for tree in repository.worktrees() if tree.head.strip("0")}  # else without a commit
    trees = {path: head for path, head in heads.items() if path not in gone}
    others = [path for path in trees if path != repository.root.resolve() and (path / ".dvc").is_dir()]
    options = {
        "revs": used_commits(repository, removed, trees.values(), everything=retention.remote),
        "projects": [str(path) for path in others],
        "before": cleaning.before(retention.cache_days),
        "dry": cleaning.dry_run,
        "remote": retention.remote,
    }
    programs = Programs(repository.root, "clean", locks=[lock])
    command = [sys.executable, "-P", "-m", "tuneline.project.dvc", "collect", json.dumps(options)]
    *messages, found = programs.run(command, "Collecting DVC's cache", lambda _line: None, keep=1000)
    for line in messages:
        cleaning.log(line)
    found = json.loads(found)
    return Removed("objects of DVC's cache", bytes=found["bytes"], count=found["objects"], note=_remote_note(found["remote"]))


def _remote_note(objects: int) -> str:
    return f"{objects} objects of the DVC remote" if objects else ""


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
