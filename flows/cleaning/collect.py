"""Collects DVC's cache: removes the objects that nothing names. ``flows/cleaning/cache.py`` starts it as a script in the repository.

``dvc gc`` removes too much. A metrics file that is in git (``cache: false``) is in the cache for the run cache only, which no commit
names: without it, DVC runs every stage with metrics again, the training too. And ``dvc gc`` takes DVC's lock while a stage runs, which
then cannot store its outs. So this program finds what is used as ``dvc gc`` does, and besides that

- keeps what an entry of the run cache names, if a version that is used has the outs of the entry;
- keeps what is younger than some days, and removes nothing while a program runs a stage in one of the working trees;
- prints how many bytes there are.

The only argument is a JSON object: ``revs``, commits whose outs are used; ``projects``, working trees besides this one; ``before``, Unix
time: younger objects are kept; ``dry``, true to remove nothing; ``remote``, true to collect the default remote as well. The last line
of the output is a JSON object: ``objects``, ``bytes``, ``remote``. Exit code ``BUSY``: the last lines say what uses the cache.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

BUSY = 75
"""Exit code if another program uses DVC in one of the working trees."""


class InUseError(Exception):
    """A program uses DVC in a working tree."""


class UnknownContentError(Exception):
    """It is unknown which objects a version uses, so nothing is removed."""


@dataclass
class Used:
    """What versions and working trees use.

    Attributes:
        objects: Hashes of objects.
        outs: Path and hash of each out, those that DVC does not cache as well.
        unknown: Folders whose list of files is in neither cache nor remote.
    """

    objects: set[str] = field(default_factory=set)
    outs: set[tuple[str, str]] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)

    def add(self, repo: Any, revs: Sequence[str] = ()) -> None:
        """Add the outs of a working tree and of commits.

        Raises:
            UnknownContentError: The files of DVC cannot be read in one of them.
        """
        root = repo.root_dir
        for rev in repo.brancher(revs=[*revs]):
            try:
                self.add_objects(repo.index.used_objs(force=True))
                for out in repo.index.outs:
                    if out.hash_info:
                        self.outs.add((out.def_path, out.hash_info.value))
                    if out.use_cache and out.is_dir_checksum and not out.stage.is_repo_import and out.obj is None:
                        self.unknown.add(f"{out.def_path} of {rev or repo.root_dir}")
            except Exception as error:  # whatever is wrong with a commit: what it uses must not be lost
                where = root if rev in {"", "workspace"} else f"commit {rev}"
                raise UnknownContentError(f"What {where} uses is unknown: {error}") from error

    def add_objects(self, objects: Any) -> None:
        """Add what DVC's ``used_objs`` returned."""
        self.objects.update(one.value for found in objects.values() for one in found)


def main() -> None:
    """Collect, and print what was removed."""
    from dvc.exceptions import DvcException
    from dvc.lock import LockError

    try:
        sys.stdout.write(json.dumps(collect(Path.cwd(), **json.loads(sys.argv[1]))) + "\n")
    except (InUseError, LockError) as error:
        sys.stdout.write(f"{error}\n")
        sys.exit(BUSY)
    except (DvcException, UnknownContentError) as error:
        sys.exit(f"ERROR: {error}")


def collect(root: Path, revs: Sequence[str], projects: Sequence[str], before: float, *, dry: bool, remote: bool) -> dict[str, int]:
    """Remove the objects of the cache that nothing uses.

    Raises:
        InUseError: A program runs a stage in one of the working trees.
        LockError: Another program holds DVC's lock in one of them.
        UnknownContentError: A version cannot be read; or ``remote`` is set, and the content of an out is unknown.
    """
    from dvc.repo import Repo

    with ExitStack() as stack:
        repos = [stack.enter_context(Repo(str(path))) for path in (root, *projects)]
        for repo in repos:
            stack.enter_context(repo.lock)
            check_idle(Path(repo.root_dir))
        used = Used()
        used.add(repos[0], revs)
        for repo in repos[1:]:
            used.add(repo)
        if remote and used.unknown:
            raise UnknownContentError(f"The remote is not collected, because the files of {', '.join(sorted(used.unknown))} are unknown.")
        entries = outdated_entries(repos[0], used, before)
        garbage = [*entries, *unused_objects(repos[0], used, before)]
        size = sum(path.stat().st_size for path in garbage)
        for path in () if dry else garbage:
            path.unlink(missing_ok=True)
        return {"objects": len(garbage), "bytes": size, "remote": collect_remote(repos[0], used, dry=dry) if remote else 0}


def check_idle(root: Path) -> None:
    """Check that no program runs a stage: DVC releases its lock meanwhile, and needs it within three seconds after the stage.

    Raises:
        InUseError: One does.
    """
    try:
        held = json.loads((root / ".dvc" / "tmp" / "rwlock").read_bytes())
    except (OSError, ValueError):
        return
    owners = [*held.get("write", {}).values(), *(one for many in held.get("read", {}).values() for one in many)]
    for owner in owners:
        if psutil.pid_exists(owner["pid"]):
            raise InUseError(f"Process {owner['pid']} runs a stage in {root}.")


def outdated_entries(repo: Any, used: Used, before: float) -> list[Path]:
    """Return the entries of the run cache that restore no version that is used, and add to ``used`` what the others name."""
    from dvc.utils.serialize import load_yaml

    outdated, kept = [], []
    for path in Path(repo.stage_cache.cache_dir).glob("*/*/*"):
        try:
            named = {(out["path"], out["md5"]) for out in load_yaml(str(path))["outs"]} <= used.outs
        except Exception:  # a part of an entry, which a killed DVC left
            named = False
        if not named and _is_old(path, before):
            outdated.append(path)
        else:
            kept.append((path.parent.name, path.name))
    used.add_objects(repo.stage_cache.get_used_objs(kept, force=True))
    return outdated


def unused_objects(repo: Any, used: Used, before: float) -> list[Path]:
    """Return the unused objects of the cache and the parts that a killed DVC left; lists of a folder's files before the files.

    An unused list that is young keeps its files.
    """
    folder, unused = Path(repo.cache.local.path), []
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
        yield from (entry["md5"] for entry in json.loads(path.read_bytes()))
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
