"""The outs of commits that DVC stores, by path, hash and size, read from git's objects.

DVC itself takes a third of a second for a commit, which is minutes for a registry of hundreds of versions.
Most commits of a project differ in ``dvc.lock`` alone, so one process of git reads them all, and what is the
same in several commits is read once. What is written here about DVC's files holds for what DVC writes by
itself; a commit with anything else (templates in the paths of outs, ``foreach``, ``wdir``, nested pipelines)
is read by DVC.
"""

import posixpath
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Self, cast

from ruamel.yaml.error import YAMLError

from tuneline.paths import PIPELINE
from tuneline.repository.dvc import load_yaml


@dataclass(frozen=True)
class StoredOut:
    """An out that DVC stores: a file, or a folder with a list of its files.

    Attributes:
        path: Path in the repository.
        md5: Hash of the file, or of the list of a folder's files, which ends with ``.dir``.
        size: Bytes of the file, or of all files of the folder; ``None`` if unknown.
    """

    path: str
    md5: str
    size: int | None


def stored_outs(root: Path, commits: Sequence[str]) -> Iterator[list[StoredOut]]:
    """Yield the outs of each commit that DVC stores and pushes, in the order of the commits.

    Imported data (``dvc import``) is stored by the repository that it is imported from, and left out.

    Raises:
        DvcException: DVC cannot read a commit.
        LookupError: There is no such commit.
    """
    with GitObjects.open(root) as objects:
        reader = _CommitReader(objects)
        for commit in commits:
            outs = reader.outs(commit)
            if outs is None:
                outs = outs_by_dvc(root, commit)
            yield outs


def outs_by_dvc(root: Path, commit: str = "") -> list[StoredOut]:
    """Return the outs of a commit, else of the working tree, that DVC stores and pushes, as DVC reads them.

    Raises:
        DvcException: DVC cannot read them.
    """
    from dvc.repo import Repo

    outs = []
    revs = [commit] if commit else None
    with Repo(str(root)) as repo:
        for _ in repo.brancher(revs=revs, workspace=not commit):  # in the block, `repo` is at the commit
            for out in repo.index.outs:
                is_pushed = out.use_cache and out.can_push and not out.stage.is_repo_import
                if is_pushed and out.hash_info:
                    outs.append(StoredOut(str(out), str(out.hash_info.value), out.meta.size))
    return outs


class GitObjects:
    """Objects of git, read by one process."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        self._names = cast("IO[bytes]", process.stdin)
        self._contents = cast("IO[bytes]", process.stdout)

    @classmethod
    def open(cls, root: Path) -> Self:
        """Start the process in a repository; the block of ``with`` ends it."""
        command = ["git", "cat-file", "--batch"]
        return cls(subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def read(self, name: str) -> tuple[str, bytes]:
        """Return the hash and the content of an object, by its hash or another name, as ``HEAD^{tree}``.

        Raises:
            LookupError: There is no such object.
        """
        self._names.write(f"{name}\n".encode())
        self._names.flush()

        header = self._contents.readline().decode().split()
        if len(header) != 3:  # "NAME missing"; nothing, if git has ended
            raise LookupError(f"git has no object {name}.")
        content = self._contents.read(int(header[2]))
        self._contents.read(1)  # a line end
        return header[0], content


LOCK_NAME = "dvc.lock"
IGNORE = ".dvcignore"


class _CommitReader:
    """Reads outs of commits; ``None`` as a result means that DVC is to read it."""

    def __init__(self, objects: GitObjects) -> None:
        self._objects = objects
        self._trees: dict[str, dict[str, str]] = {}
        self._pipelines: dict[str, dict[str, set[str]] | None] = {}
        self._sources: dict[tuple[str, str], list[StoredOut] | None] = {}

    def outs(self, commit: str) -> list[StoredOut] | None:
        """Return the outs of a commit."""
        tree, content = self._objects.read(f"{commit}^{{tree}}")
        files = self._files_of_dvc(tree, content)
        ignored = self._ignored(files)
        if ignored is None:
            return None

        outs = []
        for path, blob in files.items():
            folder, name = posixpath.split(path)
            if name in {LOCK_NAME, IGNORE} or ignored(path):
                continue
            if name != PIPELINE.name:
                stored = self._outs_of_source(path, blob)
            elif folder:
                return None
            else:
                stored = self._outs_of_stages(blob, files.get(LOCK_NAME))
            if stored is None:
                return None
            outs += stored
        return outs

    def _files_of_dvc(self, tree: str, content: bytes | None = None) -> dict[str, str]:
        """Return the hash of each file of DVC in a tree of git, by its path in the tree."""
        if tree in self._trees:
            return self._trees[tree]
        if content is None:
            _, content = self._objects.read(tree)

        # An entry of a tree is its mode and name, a zero byte, and the bytes of the hash.
        files = {}
        length = len(tree) // 2
        position = 0
        while position < len(content):
            end = content.index(b"\0", position)
            mode, _, raw_name = content[position:end].partition(b" ")
            name = raw_name.decode(errors="surrogateescape")
            position = end + 1 + length
            entry = content[end + 1 : position].hex()

            if mode == b"40000":
                for path, blob in self._files_of_dvc(entry).items():
                    files[f"{name}/{path}"] = blob
            elif name in {PIPELINE.name, LOCK_NAME, IGNORE} or name.endswith(".dvc"):
                files[name] = entry
        self._trees[tree] = files
        return files

    def _ignored(self, files: Mapping[str, str]) -> Callable[[str], bool] | None:
        """Return a function that tells if DVC ignores a path; ``None`` if a folder has a ``.dvcignore``."""
        from dvc.ignore import DvcIgnorePatterns

        nested = [path for path in files if path.endswith(f"/{IGNORE}")]
        if nested:
            return None
        lines = []
        if IGNORE in files:
            for line in self._text(files[IGNORE]).splitlines():
                pattern = line.strip()
                if pattern and not pattern.startswith("#"):
                    lines.append(pattern)
        patterns = DvcIgnorePatterns(lines, "/", "/")

        def ignored(path: str) -> bool:
            # DVC looks into no folder that it ignores.
            folder = "/"
            *parents, name = path.split("/")
            for parent in parents:
                if patterns.matches(folder, parent, is_dir=True):
                    return True
                folder = posixpath.join(folder, parent)
            return bool(patterns.matches(folder, name))

        return ignored

    def _outs_of_source(self, path: str, blob: str) -> list[StoredOut] | None:
        """Return the outs of a ``.dvc`` file."""
        if (path, blob) not in self._sources:
            self._sources[path, blob] = _outs_of_source(path, self._text(blob))
        return self._sources[path, blob]

    def _outs_of_stages(self, pipeline: str, lock: str | None) -> list[StoredOut] | None:
        """Return the outs of the stages of ``dvc.yaml`` that ran."""
        if pipeline not in self._pipelines:
            self._pipelines[pipeline] = stored_paths(self._text(pipeline))
        stages = self._pipelines[pipeline]
        if stages is None:
            return None
        if lock is None:  # no stage ran
            return []
        locked = LockedOuts(self._text(lock)).stages
        if locked is None:
            return None

        outs = []
        for stage, paths in stages.items():
            outs += [out for out in locked.get(stage, []) if out.path in paths]
        return outs

    def _text(self, blob: str) -> str:
        _, content = self._objects.read(blob)
        return content.decode(errors="replace")


def stored_paths(pipeline: str) -> dict[str, set[str]] | None:
    """Return the paths of the outs that DVC stores and pushes, by stage, from the content of a ``dvc.yaml``.

    ``None`` if only DVC can tell: templates in paths, ``foreach``, ``matrix``, ``wdir``.
    """
    loaded = _loaded(pipeline)
    if loaded is None:
        return None
    stored = {}
    for name, stage in (loaded.get("stages") or {}).items():
        if {"foreach", "matrix", "wdir"} & stage.keys():
            return None
        paths = set()
        for kind in ("outs", "metrics", "plots"):
            for entry in stage.get(kind) or []:
                path, options = _path_and_options(entry)
                if "${" in path or posixpath.normpath(path) != path:
                    return None
                if options.get("cache", True) and options.get("push", True):
                    paths.add(path)
        stored[name] = paths
    return stored


def _path_and_options(entry: Any) -> tuple[str, Mapping[str, Any]]:
    """Return what an entry of ``outs`` says: a path, or a path with its options."""
    if isinstance(entry, str):
        return entry, {}
    ((path, options),) = entry.items()
    return path, options or {}


def _outs_of_source(path: str, text: str) -> list[StoredOut] | None:
    """Return the outs of a ``.dvc`` file that DVC stores and pushes; ``None`` if only DVC can tell."""
    loaded = _loaded(text)
    if loaded is None or "wdir" in loaded:
        return None
    for dep in loaded.get("deps") or []:
        if "repo" in dep:  # imported: stored by the other repository
            return []

    outs = []
    for out in loaded.get("outs") or []:
        if not out.get("cache", True) or not out.get("push", True):
            continue
        if out.get("hash") != "md5" or "md5" not in out:
            return None
        name = posixpath.join(posixpath.dirname(path), out["path"])
        outs.append(StoredOut(name, out["md5"], out.get("size")))
    return outs


def _loaded(text: str) -> dict[str, Any] | None:
    """Return the content of a YAML file with a mapping; ``None`` if it is no such file."""
    try:
        loaded = load_yaml(text)
    except YAMLError:
        return None
    if not isinstance(loaded, dict):
        return None
    return loaded


@dataclass(frozen=True)
class LockedOuts:
    """The outs in the content of a ``dvc.lock``.

    YAML takes a tenth of a second for it, so what DVC writes is read by its lines. A path in quotes, or on
    several lines, is read as YAML.
    """

    text: str

    _HEAD = "schema: '2.0'\nstages:\n"
    _STAGE = re.compile(r"^  ([\w-]+):\n((?:    .*\n)*)", re.MULTILINE)
    _OUTS = re.compile(r"^    outs:\n((?:    - .*\n|      .*\n)+)", re.MULTILINE)
    _OUT = re.compile(
        r"    - path: ([^\s'\"].*)\n      hash: md5\n      md5: ([0-9a-f]{32}(?:\.dir)?)\n"
        r"(?:      size: (\d+)\n)?(?:      nfiles: \d+\n)?(?:      isexec: true\n)?"
    )

    @cached_property
    def stages(self) -> dict[str, list[StoredOut]] | None:
        """The outs with a hash, by stage; ``None`` if only DVC can tell."""
        by_lines = self._by_lines()
        if by_lines is not None:
            return by_lines

        loaded = _loaded(self.text)
        if loaded is None:
            return None
        stages = {}
        for name, stage in (loaded.get("stages") or {}).items():
            outs = []
            for out in stage.get("outs") or []:
                if out.get("hash") != "md5" or "md5" not in out:
                    return None
                outs.append(StoredOut(out["path"], out["md5"], out.get("size")))
            stages[name] = outs
        return stages

    def _by_lines(self) -> dict[str, list[StoredOut]] | None:
        """Return the outs if every line is as expected."""
        if not self.text.startswith(self._HEAD):
            return None
        content = self.text[len(self._HEAD) :]
        stages = {}
        end = 0
        for stage in self._STAGE.finditer(content):
            if stage.start() != end:  # a line between two stages
                return None
            end = stage.end()
            outs = []
            for block in self._OUTS.finditer(stage[2]):
                matches = list(self._OUT.finditer(block[1]))
                if sum(len(match[0]) for match in matches) != len(block[1]):
                    return None
                for match in matches:
                    size = int(match[3]) if match[3] else None
                    outs.append(StoredOut(match[1], match[2], size))
            stages[stage[1]] = outs
        if end != len(content):
            return None
        return stages
