"""What this project knows about DVC: ``dvc.lock``, the layout of the cache, its settings, the graph, the remote, and a collection.

Importing DVC takes a second, so a function imports what it needs of it, and what needs most of it is a
program of its own, which flows and ``tuneline doctor`` start in the root of a project:

- ``python -m tuneline.project.dvc graph`` prints the stages and sources of ``dvc.yaml``, each after those it
  depends on;
- ``push COMMIT...`` pushes the outs of commits to the default remote, ``push`` those of the working tree, and
  ``push-result`` those but the weights; ``has MD5`` ends with exit code 1 if the remote lacks an out;
- ``collect OPTIONS`` removes what nothing names from the cache. ``OPTIONS`` are the arguments of ``collect``
  as a JSON object, the last line of the output is its result. Exit code ``BUSY``: the last lines say what
  uses the cache.
"""

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from tuneline.core.paths import BASE, RAW
from tuneline.core.terminal import say, visible

CODE_FOLDERS = ("project/", "stages/", "tuneline/")
"""Folders with the code that stages depend on."""
BUSY = 75
"""Exit code of a collection if another program uses DVC in one of the working trees."""


@lru_cache(maxsize=16)
def load_yaml(text: str) -> Any:
    """Return the content of a YAML file, which must not be changed: a run reads the same ``dvc.lock`` ten times.

    Parsed as DVC does, by the C library where it is installed: ``dvc.lock`` in 0.04 s instead of 0.17.

    Raises:
        YAMLError: It is not valid YAML.
    """
    return YAML(typ="safe").load(text)


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
        return next(
            (
                out["md5"]
                for stage in self.stages.values()
                for out in stage.get("outs", [])
                if out["path"] == path
            ),
            None,
        )

    def dep(self, stage: str, path: str) -> str | None:
        """Return the hash of a dependency that a stage ran with, as DVC writes it; ``None`` if the stage has no such dependency."""
        return next(
            (dep["md5"] for dep in self.stages.get(stage, {}).get("deps", []) if dep["path"] == path), None
        )

    def params(self) -> dict[str, Any]:
        """Return the parameters of all stages by dotted key, also where a stage lists a whole section."""
        return by_key(values for stage in self.stages.values() for values in stage.get("params", {}).values())

    def outs(self) -> dict[str, str]:
        """Return the hash of every out, by path."""
        return {out["path"]: out["md5"] for stage in self.stages.values() for out in stage.get("outs", [])}

    def consistent(self) -> "Lock":
        """Return the lock without stages that ran on other outs than those listed, and without stages that need these."""
        made, stages = set(self.outs()), dict(self.stages)
        while dropped := _outdated(stages, made):
            for name in dropped:
                del stages[name]
        return self if len(stages) == len(self.stages) else Lock(json.dumps({"stages": stages}))

    def upstream(self, stage: str) -> set[str]:
        """Return a stage and all stages that it needs."""
        found, waiting = set(), [stage]
        while waiting:
            found.add(name := waiting.pop())
            deps = [f"{dep['path']}/" for dep in self.stages.get(name, {}).get("deps", [])]
            for other, entry in self.stages.items():
                outs = [f"{out['path']}/" for out in entry.get("outs", [])]
                if other not in found and any(
                    dep.startswith(out) or out.startswith(dep) for dep in deps for out in outs
                ):
                    waiting.append(other)
        return found

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
            code.update(
                {
                    dep["path"]: dep["md5"]
                    for dep in stage.get("deps", [])
                    if dep["path"].startswith(CODE_FOLDERS)
                }
            )
        return dict(sorted(code.items()))


def by_key(stages: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the parameters that stages list, by dotted key, also where a stage lists a whole section."""
    params: dict[str, Any] = {}
    for key, value in (item for listed in stages for item in listed.items()):
        is_section = isinstance(value, dict) and "." not in key
        params.update(
            {f"{key}.{name}": entry for name, entry in value.items()} if is_section else {key: value}
        )
    return params


def _outdated(stages: Mapping[str, Any], made: set[str]) -> list[str]:
    """List the stages that depend on an out, one of ``made``, whose hash is not that of the stages."""
    outs = {out["path"]: out["md5"] for stage in stages.values() for out in stage.get("outs", [])}
    ran_on = {
        name: [dep for dep in stage.get("deps", []) if dep["path"] in made] for name, stage in stages.items()
    }
    return [
        name for name, deps in ran_on.items() if any(outs.get(dep["path"]) != dep.get("md5") for dep in deps)
    ]


def read_lock(root: Path) -> Lock:
    """Return ``dvc.lock`` of the working tree; empty if there is none."""
    path = root / "dvc.lock"
    return Lock(path.read_text(encoding="utf-8") if path.exists() else "")


def changed_by_machine(current: Lock, committed: Lock) -> list[str]:
    """Return the paths of outs that differ although commands, parameters, code and data are equal; empty if any of those differ.

    The remaining cause is the machine: another kind of processor, number of threads, or build of torch.
    """
    if not committed.stages or current.inputs() != committed.inputs():
        return []
    committed_outs = committed.outs()
    return [path for path, md5 in current.outs().items() if committed_outs.get(path) != md5]


def is_lock(file: Path) -> bool:
    """Return True if a file has what DVC expects of ``dvc.lock``; a full disk leaves it empty."""
    from dvc.exceptions import DvcException
    from dvc.schema import COMPILED_LOCKFILE_SCHEMA
    from dvc.utils.strictyaml import load

    try:
        load(str(file), COMPILED_LOCKFILE_SCHEMA)
    except DvcException:
        return False
    return True


def dvc_config(root: Path) -> dict[str, Any]:
    """Return DVC's settings in a checkout: all levels merged, relative addresses resolved."""
    from dvc.config import Config  # takes a fifth of a second to import

    return dict(Config(dvc_dir=str(root / ".dvc")))


def default_remote(root: Path) -> str | None:
    """Return the name of the default remote; ``None`` if there is none."""
    name: str | None = dvc_config(root).get("core", {}).get("remote")
    return name


class NoRemoteError(Exception):
    """There is no DVC remote to push to."""


def require_remote(root: Path) -> None:
    """Check that there is a default remote to push to, else raise ``NoRemoteError``.

    DVC creates the folder of a disk that is not mounted, and what it stores there is not in the remote
    afterwards. So it is with an empty mount point: results on a branch of ``origin`` had their data pushed
    before, and a folder without any is not the one they went to.
    """
    if not default_remote(root):
        raise NoRemoteError(
            "DVC has no default remote. Set one (`dvc remote add --default NAME URL`), or run with"
            " push=false."
        )
    if (folder := remote_folder(root)) and not folder.is_dir():
        raise NoRemoteError(
            f"{folder}, the folder of the DVC remote, does not exist. Mount its disk, or create it: mkdir"
            f" {folder}"
        )
    if folder and not (stored := folder / "files").is_dir() and _has_pushed_results(root):
        new = f"If this is a new remote: mkdir {stored}"
        raise NoRemoteError(
            f"{folder}, the folder of the DVC remote, has no data, but origin has results. Mount its disk."
            f" {new}"
        )


def _has_pushed_results(root: Path) -> bool:
    command = ["git", "for-each-ref", "--count=1", "refs/remotes/origin/runs/"]
    return bool(subprocess.run(command, cwd=root, capture_output=True, check=False).stdout)


def remote_folder(root: Path) -> Path | None:
    """Return the folder of the default remote; ``None`` if there is no remote, or it is not a folder."""
    from dvc.fs import LocalFileSystem, get_cloud_fs

    if not (name := default_remote(root)):
        return None
    kind, _, path = get_cloud_fs(dvc_config(root), name=name)
    return Path(path) if kind is LocalFileSystem else None


def is_weights(path: str) -> bool:
    """Return True for an out that a training made, and can make again from its commit: not for the base model."""
    return Path(path).is_relative_to(BASE.parent) and not Path(path).is_relative_to(BASE)


def cache_folder(root: Path) -> Path:
    """Return the folder of the cache, which may be that of another clone."""
    return Path(dvc_config(root).get("cache", {}).get("dir") or root / ".dvc" / "cache")


def share_settings(root: Path, worktree: Path) -> None:
    """Write the local settings of a worktree: the cache of the repository, and its remotes with addresses that are valid from there."""
    settings = dvc_config(root)
    local = root / ".dvc" / "config.local"
    if local.exists():
        shutil.copy(local, worktree / ".dvc" / "config.local")
    with local_settings(worktree) as edited:
        edited.setdefault("cache", {})["dir"] = str(cache_folder(root))
        edited.setdefault("core", {})["check_update"] = False
        if default := settings["core"].get("remote"):  # a ref may be older than the remote
            edited["core"]["remote"] = default
        for name, remote in settings["remote"].items():
            edited.setdefault(f'remote "{name}"', {})["url"] = remote["url"]


@contextmanager
def local_settings(root: Path) -> Iterator[dict[str, Any]]:
    """Yield the sections of ``.dvc/config.local`` to change them, and write the file.

    ``dvc config`` writes ASCII, so it cannot write the path of a folder with any other letter.
    """
    from configobj import ConfigObj  # type: ignore[import-untyped]

    settings = ConfigObj(str(root / ".dvc" / "config.local"), encoding="utf-8", default_encoding="utf-8")
    yield settings
    settings.write()


def cached_out(root: Path, lock: Lock, path: str) -> Path | None:
    """Return where the cache has a file that is an out, or is in a folder that is one; ``None`` if it is not in the cache."""
    if md5 := lock.out(path):
        return cached_file(root, md5)
    folder, _, name = path.rpartition("/")
    return (cached_folder(root, lock, folder) or {}).get(name)


def cached_folder(root: Path, lock: Lock, path: str) -> dict[str, Path | None] | None:
    """Return where the cache has the files of a folder that is an out, by their names in it; ``None`` for a file it lacks.

    ``None`` instead of a mapping if the path is not such a folder, or the cache lacks its listing.
    """
    md5 = lock.out(path)
    listing = cached_file(root, md5) if md5 and md5.endswith(".dir") else None
    if listing is None:
        return None
    cache = cache_folder(root)
    return {
        entry["relpath"]: _in_cache(cache, entry["md5"])
        for entry in json.loads(listing.read_text(encoding="utf-8"))
    }


def cached_file(root: Path, md5: str) -> Path | None:
    """Return where the cache has a file or a folder's listing with that hash; ``None`` if it is not in the cache."""
    return _in_cache(cache_folder(root), md5)


def _in_cache(cache: Path, md5: str) -> Path | None:
    path = cache / "files" / "md5" / md5[:2] / md5[2:]
    return path if path.is_file() else None


def is_intact(cached: Path) -> bool:
    """Return True if a file of the cache has the content that its name, the MD5 of the content, says."""
    return md5_of(cached) == f"{cached.parent.name}{cached.name}".removesuffix(".dir")


def cached_objects(root: Path, lock: Lock) -> Iterator[tuple[str, Path]]:
    """Yield the objects of the cache that ``dvc.lock`` names, listings before their files, each with the path of what it holds."""
    cache = cache_folder(root)
    for path, md5 in lock.outs().items():
        if (stored := _in_cache(cache, md5)) is None:
            continue
        yield path, stored
        if stored.suffix == ".dir" and is_intact(stored):
            files = json.loads(stored.read_bytes())
            yield from (
                (f"{path}/{file['relpath']}", one) for file in files if (one := _in_cache(cache, file["md5"]))
            )


def folder_hash(folder: Path) -> str:
    """Return the hash that DVC gives a folder: the MD5 of the list of its files, each with the MD5 of its content."""
    paths = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    listing = json.dumps([{"md5": md5_of(paths[name]), "relpath": name} for name in sorted(paths)])
    return hashlib.md5(listing.encode(), usedforsecurity=False).hexdigest() + ".dir"


def md5_of(path: Path) -> str:
    """Return the hash that DVC gives a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def present_hashes(root: Path, files: Sequence[Path]) -> dict[Path, str]:
    """Return the hash that DVC gives what lies in the working tree, for each ``.dvc`` file; without those whose data is missing.

    DVC remembers hashes, so a large folder is read again only if it has changed.
    """
    if not files:
        return {}
    from dvc.repo import Repo

    found = {}
    with Repo(str(root)) as repo:
        for file in files:
            (out,) = repo.stage.load_one(str(root.resolve() / file)).outs
            if out.exists:
                found[file] = str(out.get_hash().value)
    return found


def main() -> None:
    """Run the command line."""
    from dvc.exceptions import DvcException
    from dvc.lock import LockError

    action, *arguments = sys.argv[1:]
    try:
        if action == "graph":
            say("\n".join(graph(Path())))
        elif action == "has":
            sys.exit(not has(Path(), *arguments))
        elif action in {"push", "push-result"}:
            for commit in arguments or [""]:
                if lost := push(Path(), commit, weights=action == "push"):
                    shown = ", ".join(lost[:5]) + " ..." * (len(lost) > 5)
                    say(
                        f"ERROR: of {commit[:12] or 'this result'}, neither the cache nor the DVC remote has"
                        f" {shown}"
                    )
        else:
            say(json.dumps(collect_garbage(Path.cwd(), **json.loads(*arguments))))
    except (CacheInUseError, LockError) as error:
        say(visible(str(error)))
        sys.exit(BUSY)
    except (DvcException, NoRemoteError, UnknownContentError) as error:
        sys.exit(visible(f"ERROR: {error}"))


def graph(root: Path) -> list[str]:
    """List what ``dvc.yaml`` and ``.dvc`` files define: ``stage NAME`` or ``source FILE``, each after those it depends on."""
    from dvc.repo import Repo

    with Repo(str(root)) as repo:
        edges = {stage: set(repo.index.graph.successors(stage)) for stage in repo.index.graph}
        return [
            f"{'source' if stage.is_data_source else 'stage'} {stage.addressing}"
            for stage in TopologicalSorter(edges).static_order()
        ]


def push(root: Path, commit: str = "", *, weights: bool = True) -> list[str]:
    """Push the outs of a commit, else of the working tree, to the default remote; return the paths that are neither there nor in the cache.

    Raises:
        NoRemoteError: There is no remote.
        UploadError: Some could not be uploaded.
    """
    from dvc.exceptions import UploadError
    from dvc.repo import Repo
    from dvc_data.hashfile.transfer import transfer

    require_remote(root)
    seen: list[Any] = []
    with Repo(str(root)) as repo:
        objects: dict[Any, str] = {}
        for _ in repo.brancher(revs=[commit] if commit else None, workspace=not commit):
            cached = (
                out
                for out in repo.index.outs
                if out.use_cache and out.can_push and not out.stage.is_repo_import and out.hash_info
            )
            for out in (out for out in cached if weights or not is_weights(out.def_path)):
                objects.update(
                    dict.fromkeys({out.hash_info}.union(*out.get_used_objs(force=True).values()), str(out))
                )
        # Not `repo.cloud.push`: DVC takes the files of a folder for stored where the list of them is.
        remote = repo.cloud.get_remote_odb(command="push")
        failed = transfer(repo.cache.local, remote, objects, validate_status=seen.append).failed
    missing = seen[0].missing
    if any(
        not (missing and entry.isdir) for entry in failed
    ):  # the list of a folder is not uploaded without its files
        raise UploadError(len(failed))
    return sorted({objects[lost] for lost in missing})


def has(root: Path, md5: str) -> bool:
    """Return True if the default remote has an out, with all files of a folder."""
    from dvc.repo import Repo
    from dvc_data.hashfile.hash_info import HashInfo
    from dvc_data.hashfile.tree import Tree

    require_remote(root)
    with Repo(str(root)) as repo:
        remote, objects = repo.cloud.get_remote_odb(), {md5}
        if not remote.exists(md5):
            return False
        if md5.endswith(".dir"):
            objects.update(entry.value for _, _, entry in Tree.load(remote, HashInfo("md5", md5)))
        return objects <= {*remote.oids_exist(objects)}


class CacheInUseError(Exception):
    """A program uses DVC in a working tree."""


class UnknownContentError(Exception):
    """It is unknown which objects a version uses, so nothing is removed."""


@dataclass
class Used:
    """What versions and working trees use.

    Attributes:
        outs: Path and hash of each out, those that DVC does not cache as well.
        unknown: Folders whose list of files cannot be had from cache or remote.
    """

    objects: set[str] = field(default_factory=set)
    outs: set[tuple[str, str]] = field(default_factory=set)
    unknown: dict[str, Any] = field(default_factory=dict)

    def add(self, repo: Any, revs: Sequence[str] = ()) -> None:
        """Add the outs of a working tree and of commits."""
        root = repo.root_dir
        for rev in repo.brancher(revs=[*revs]):
            try:
                self.add_objects(repo.index.used_objs(force=True))
                for out in repo.index.outs:
                    if out.hash_info:
                        self.outs.add((out.def_path, out.hash_info.value))
                    if (
                        out.use_cache
                        and out.is_dir_checksum
                        and not out.stage.is_repo_import
                        and out.obj is None
                    ):
                        self.unknown[f"{out.def_path} of {rev or root}"] = out
            except Exception as error:  # whatever is wrong with a commit: what it uses must not be lost
                where = root if rev in {"", "workspace"} else f"commit {rev}"
                raise UnknownContentError(f"What {where} uses is unknown: {error}") from error

    def add_objects(self, objects: Any) -> None:
        """Add what DVC's ``used_objs`` returned."""
        self.objects.update(one.value for found in objects.values() for one in found)


def collect_garbage(
    root: Path, revs: Sequence[str], projects: Sequence[str], before: float, *, dry: bool, remote: bool
) -> dict[str, int]:
    """Remove the objects of the cache that nothing uses, and say how many there are and their bytes.

    ``dvc gc`` removes too much. A metrics file that is in git (``cache: false``) is in the cache for the run
    cache only, which no commit names: without it, DVC runs every stage with metrics again, the training too.
    And ``dvc gc`` takes DVC's lock while a stage runs, which then cannot store its outs. So this finds what
    is used as ``dvc gc`` does, and besides that keeps what an entry of the run cache names, if a version that
    is used has the outs of the entry; keeps what is young; and removes nothing while a program runs a stage
    in one of the working trees. ``revs`` are the commits whose outs are used, ``projects`` working trees
    besides this one; what is younger than the Unix time ``before`` is kept.

    Raises:
        CacheInUseError: A program runs a stage in one of the working trees.
        LockError: Another program holds DVC's lock in one of them.
        UnknownContentError: A version cannot be read; or ``remote`` is set, and the content of an out is
            unknown.
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
        if remote and (unknown := unknown_in_remote(repos[0], used)):
            raise UnknownContentError(
                f"The remote is not collected, because the files of {', '.join(unknown)} are unknown."
            )
        entries = outdated_entries(repos[0], used, before)
        garbage = [*entries, *unused_objects(repos[0], used, before)]
        size = sum(path.stat().st_size for path in garbage)
        for path in () if dry else garbage:
            path.unlink(missing_ok=True)
        return {
            "objects": len(garbage),
            "bytes": size,
            "remote": collect_remote(repos[0], used, dry=dry) if remote else 0,
        }


def unknown_in_remote(repo: Any, used: Used) -> list[str]:
    """List the folders that may have unknown files in the default remote: not weights that were never pushed, so without their list."""
    remote = repo.cloud.get_remote_odb()
    return sorted(
        name
        for name, out in used.unknown.items()
        if not is_weights(out.def_path) or remote.exists(out.hash_info.value)
    )


def check_idle(root: Path) -> None:
    """Check that no program runs a stage, else raise ``CacheInUseError``.

    DVC releases its lock meanwhile, and needs it within three seconds after the stage.
    """
    import psutil

    try:
        held = json.loads((root / ".dvc" / "tmp" / "rwlock").read_bytes())
    except (OSError, ValueError):
        return
    owners = [
        *held.get("write", {}).values(),
        *(one for many in held.get("read", {}).values() for one in many),
    ]
    for owner in owners:
        if psutil.pid_exists(owner["pid"]):
            raise CacheInUseError(f"Process {owner['pid']} runs a stage in {root}.")


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
