"""Collection of DVC's cache: remove the objects that no version and no working tree uses.

``python -m tuneline.repository.garbage OPTIONS`` in the root of a project. ``OPTIONS`` are the arguments of
``collect_garbage`` as a JSON object, the last line of the output is its result. Exit code ``BUSY``: the last
lines say what uses the cache.

It is a program of its own, because it inherits a lock from flow ``clean``: if the flow is killed, no run
starts before the collection has ended.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tuneline.repository.dvc import NoRemoteError, is_weights
from tuneline.repository.dvc_locks import RWLOCK, is_rwlock_damaged, stage_processes
from tuneline.runtime.terminal import say, visible

BUSY = 75
"""Exit code of a collection if another program uses DVC in one of the working trees."""


class CacheInUseError(Exception):
    """A program uses DVC in a working tree."""


class UnknownContentError(Exception):
    """It is unknown which objects a version uses, so nothing is removed."""


def main() -> None:
    """Run the command line."""
    from dvc.exceptions import DvcException
    from dvc.lock import LockError

    options = json.loads(sys.argv[1])
    try:
        say(json.dumps(collect_garbage(Path.cwd(), **options)))
    except (CacheInUseError, LockError) as error:
        say(visible(str(error)))
        sys.exit(BUSY)
    except (DvcException, NoRemoteError, UnknownContentError) as error:
        sys.exit(visible(f"ERROR: {error}"))


def collect_garbage(
    root: Path, revs: Sequence[str], projects: Sequence[str], before: float, *, dry: bool, remote: bool
) -> dict[str, int]:
    """Remove the objects of the cache that nothing uses.

    ``dvc gc`` removes too much. A metrics file that is in git (``cache: false``) is in the cache for the run
    cache only, which no commit names: without it, DVC runs every stage with metrics again, the training too.
    And ``dvc gc`` takes DVC's lock while a stage runs, which then cannot store its outs. So this finds what
    is used as ``dvc gc`` does, and besides that keeps what an entry of the run cache names, if a version that
    is used has the outs of the entry; keeps what is young; and removes nothing while a program runs a stage
    in one of the working trees.

    Args:
        root: Working tree of the repository.
        revs: Commits whose outs are used.
        projects: Working trees besides ``root`` whose outs are used.
        before: Unix time in seconds; what is younger is kept.
        dry: Remove nothing.
        remote: Collect the default remote, too.

    Returns:
        How many objects there are (``objects``), their ``bytes``, and the objects of the ``remote``.

    Raises:
        CacheInUseError: A program runs a stage in one of the working trees.
        LockError: Another program holds DVC's lock in one of them.
        UnknownContentError: A version cannot be read; or ``remote`` is set, and the content of an out is
            unknown.
    """
    from dvc.repo import Repo

    with ExitStack() as stack:
        # All working trees are open before the first is locked; locked, no program starts a stage in one.
        repos = [stack.enter_context(Repo(str(root)))]
        for project in projects:
            repos.append(stack.enter_context(Repo(project)))
        for repo in repos:
            stack.enter_context(repo.lock)
            check_idle(Path(repo.root_dir))

        # What is used: by the commits, by each working tree, and by entries of the run cache that are kept.
        used = Used()
        used.add(repos[0], revs)
        for repo in repos[1:]:
            used.add(repo)
        if remote:
            _check_remote_is_known(repos[0], used)
        garbage = outdated_entries(repos[0], used, before)
        garbage += unused_objects(repos[0], used, before)

        size = sum(path.stat().st_size for path in garbage)
        if not dry:
            for path in garbage:
                path.unlink(missing_ok=True)
        removed_from_remote = 0
        if remote:
            removed_from_remote = collect_remote(repos[0], used, dry=dry)
        return {"objects": len(garbage), "bytes": size, "remote": removed_from_remote}


def check_idle(root: Path) -> None:
    """Check that no program runs a stage, else raise ``CacheInUseError``.

    DVC releases its lock meanwhile, and needs it within three seconds after the stage.
    """
    for process in stage_processes(root):
        if process.is_running:
            raise CacheInUseError(f"Process {process.pid} runs a stage in {root}.")

    # In a tree of a flow or an experiment, one program runs at a time: the one that damaged it has ended.
    is_own_tree = f"/{RWLOCK.parent}/" in f"{root}/"
    if is_rwlock_damaged(root) and not is_own_tree:
        raise CacheInUseError(
            f"{root / RWLOCK} is damaged, so it is unknown whether a program runs a stage there:"
            " `tuneline doctor` says what to do."
        )


@dataclass
class Used:
    """What versions and working trees use.

    Attributes:
        objects: Hashes of the objects.
        outs: Path and hash of each out, also of the outs that DVC does not cache.
        unknown: Outs that are folders whose list of files cannot be had from cache or remote, by a name for
            messages.
    """

    objects: set[str] = field(default_factory=set)
    outs: set[tuple[str, str]] = field(default_factory=set)
    unknown: dict[str, Any] = field(default_factory=dict)

    def add(self, repo: Any, revs: Sequence[str] = ()) -> None:
        """Add the outs of a working tree and of commits.

        Raises:
            UnknownContentError: One of them cannot be read.
        """
        root = repo.root_dir
        for rev in repo.brancher(revs=list(revs)):  # the working tree first, then the commits
            try:
                self.add_objects(repo.index.used_objs(force=True))
                for out in repo.index.outs:
                    self._add_out(out, rev or root)
            except Exception as error:  # whatever is wrong with a commit: what it uses must not be lost
                where = f"commit {rev}"
                if rev in {"", "workspace"}:
                    where = root
                raise UnknownContentError(f"What {where} uses is unknown: {error}") from error

    def _add_out(self, out: Any, where: str) -> None:
        if out.hash_info:
            self.outs.add((out.def_path, out.hash_info.value))
        is_cached_folder = out.use_cache and out.is_dir_checksum and not out.stage.is_repo_import
        if is_cached_folder and out.obj is None:
            self.unknown[f"{out.def_path} of {where}"] = out

    def add_objects(self, objects: Any) -> None:
        """Add what DVC's ``used_objs`` returned."""
        for hashes in objects.values():
            for hash_info in hashes:
                self.objects.add(hash_info.value)


def _check_remote_is_known(repo: Any, used: Used) -> None:
    """Check that the files of all folders in the default remote are known.

    Weights that were never pushed are not in the remote, so their files need not be known.

    Raises:
        UnknownContentError: The message names the folders.
    """
    remote = repo.cloud.get_remote_odb()
    unknown = []
    for name, out in used.unknown.items():
        if not is_weights(out.def_path) or remote.exists(out.hash_info.value):
            unknown.append(name)
    if unknown:
        listed = ", ".join(sorted(unknown))
        raise UnknownContentError(f"The remote is not collected, because the files of {listed} are unknown.")


def outdated_entries(repo: Any, used: Used, before: float) -> list[Path]:
    """Return the entries of the run cache that restore no version that is used.

    What the other entries name is added to ``used``.
    """
    from dvc.utils.serialize import load_yaml

    outdated = []
    kept = []
    for path in Path(repo.stage_cache.cache_dir).glob("*/*/*"):
        try:
            outs = {(out["path"], out["md5"]) for out in load_yaml(str(path))["outs"]}
            is_used = outs <= used.outs
        except Exception:  # a part of an entry, which a killed DVC left
            is_used = False
        if not is_used and _is_old(path, before):
            outdated.append(path)
        else:
            kept.append((path.parent.name, path.name))
    used.add_objects(repo.stage_cache.get_used_objs(kept, force=True))
    return outdated


def unused_objects(repo: Any, used: Used, before: float) -> list[Path]:
    """Return the unused objects of the cache, and the parts that a killed DVC left.

    Lists of the files of folders come before the files. An unused list that is young keeps its files.
    """
    folder = Path(repo.cache.local.path)
    unused = []
    for path in sorted(folder.glob("*/*"), key=lambda path: path.suffix != ".dir"):
        if path.parent.name + path.name in used.objects or not path.is_file():
            continue
        if _is_old(path, before):
            unused.append(path)
        elif path.suffix == ".dir":
            used.objects.update(_listed(path))
    return unused


def _is_old(path: Path, before: float) -> bool:
    try:
        return path.stat().st_mtime < before
    except FileNotFoundError:  # a temporary file of a program that fetches something
        return False


def _listed(path: Path) -> Iterator[str]:
    try:
        for entry in json.loads(path.read_bytes()):
            yield entry["md5"]
    except (ValueError, KeyError, TypeError):  # damaged
        return


def collect_remote(repo: Any, used: Used, *, dry: bool) -> int:
    """Remove the objects of the default remote that nothing uses, and return their number."""
    from dvc_data.hashfile.db import get_index
    from dvc_data.hashfile.gc import gc
    from dvc_data.hashfile.hash_info import HashInfo

    remote = repo.cloud.get_remote_odb(command="gc -c")
    removed = gc(remote, [HashInfo("md5", value) for value in used.objects], dry=dry)
    if removed and not dry:
        get_index(remote).clear()
    return int(removed)


if __name__ == "__main__":
    main()
