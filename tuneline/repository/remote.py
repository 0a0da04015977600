"""The DVC remote: what it lacks of a version, pushing, and fetching. Every copy is compared with what it is.

DVC takes an object for whole because there is one, and deletes a damaged one that it comes across in a
remote that is a folder, also where it only wants to read. So objects of the remote are listed, sent and
fetched here: a copy has the size of the object in the cache, or the files of a folder together have the size
in ``dvc.lock``; what is sent or fetched has the hash that its name says; and nothing is deleted.

Importing DVC takes a second, and a remote may not answer, so this is a program of its own, which flows and
``tuneline doctor`` start in the root of a project. ``python -m tuneline.repository.remote VERB``:

- ``push COMMIT...`` pushes the outs of commits to the default remote, also in place of damaged copies;
  without a commit, the outs of the working tree;
- ``push-result COMMIT...`` does the same without weights;
- ``lacks COMMIT OUT`` prints what the default remote lacks of an out, if anything;
- ``get COMMIT PATH TARGET`` writes a file or folder to a path;
- ``fetch FILE.dvc...`` brings the data of the working tree's ``.dvc`` files to the cache.
"""

import contextlib
import hashlib
import json
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from tuneline.repository.dvc import (
    Lock,
    NoRemoteError,
    cache_folder,
    file_in_cache,
    is_intact,
    is_weights,
    md5_of,
    require_remote,
)
from tuneline.repository.git import lock_at
from tuneline.repository.stored_outs import StoredOut, outs_by_dvc, stored_outs
from tuneline.runtime.atomic_files import replace_directory, replace_file
from tuneline.runtime.terminal import progress, say, visible
from tuneline.runtime.wording import first_of

SHOWN_PATHS = 5
"""Lost files that a message names."""
LISTED = 2000
"""Number of objects from which the remote lists all that it has, instead of answering for each."""


class UnavailableError(Exception):
    """The remote does not have an undamaged copy."""


def main() -> None:
    """Run the command line."""
    from dvc.exceptions import DvcException

    verb, *arguments = sys.argv[1:]
    root = Path()
    try:
        match verb:
            case "push" | "push-result":
                result = push(root, arguments, weights=verb == "push")
                for message in result.messages():
                    say(message)
            case "lacks":
                (commit, path) = arguments
                reason = lacks(root, commit, path)
                if reason:
                    say(reason)
            case "get":
                (commit, path, target) = arguments
                get(root, commit, path, Path(target))
            case "fetch":
                fetch(root, arguments)
            case _:
                sys.exit(f"{verb} is no verb of this program.")
    except (DvcException, LookupError, NoRemoteError, OSError, UnavailableError) as error:
        sys.exit(visible(f"ERROR: {error}"))


@dataclass(frozen=True)
class Copies:
    """The cache of a project, and its default remote.

    Attributes:
        cache: Folder of the cache.
        remote: DVC's object database of the remote.
    """

    cache: Path
    remote: Any

    @classmethod
    def of(cls, root: Path) -> "Copies":
        """Open the remote of a project.

        Raises:
            NoRemoteError: There is no remote.
        """
        from dvc.repo import Repo

        require_remote(root)
        with Repo(str(root)) as repo:
            return cls(cache_folder(root), repo.cloud.get_remote_odb())

    @cached_property
    def _listings(self) -> dict[str, dict[str, str] | None]:
        return {}

    @cached_property
    def _cached_sizes(self) -> dict[str, int | None]:
        return {}

    def cached(self, md5: str) -> Path | None:
        """Return the object in the cache; ``None`` if the cache lacks it."""
        return file_in_cache(self.cache, md5)

    def cached_size(self, md5: str) -> int | None:
        """Return the bytes of an object of the cache, as they were first; ``None`` if the cache lacks it."""
        if md5 not in self._cached_sizes:
            stored = self.cached(md5)
            self._cached_sizes[md5] = stored.stat().st_size if stored else None
        return self._cached_sizes[md5]

    def files(self, out: StoredOut) -> dict[str, str] | None:
        """Return the hash of each file of an out by its path in it; ``""`` for an out that is a file.

        ``None`` if neither the cache nor the remote has the list of a folder's files.
        """
        if not out.md5.endswith(".dir"):
            return {"": out.md5}
        if out.md5 not in self._listings:
            self.read_lists([out])
        return self._listings[out.md5]

    def read_lists(self, outs: Iterable[StoredOut]) -> None:
        """Read the lists of the files of folders, together those that the cache lacks."""
        paths = {}
        for md5 in {out.md5 for out in outs if out.md5.endswith(".dir")}:
            stored = self.cached(md5)
            if stored is not None and is_intact(stored):
                self._listings[md5] = _listed(stored.read_bytes())
            else:
                self._listings[md5] = None
                paths[self.remote.oid_to_path(md5)] = md5
        if not paths:
            return

        with progress(f"Reading {len(paths):,} lists of files in the DVC remote", unit=""):
            contents = self.remote.fs.fs.cat(list(paths), on_error="return")
        for path, content in contents.items():
            md5 = paths[path]
            if isinstance(content, FileNotFoundError):
                continue
            if isinstance(content, BaseException):
                raise content
            if _md5(content) == md5.removesuffix(".dir"):
                self._listings[md5] = _listed(content)

    def sizes(self, hashes: Iterable[str]) -> dict[str, int | None]:
        """Return the bytes of those objects that the remote has, by hash; ``None`` if it does not tell them.

        The objects are not read.
        """
        paths = {self.remote.oid_to_path(md5): md5 for md5 in set(hashes)}
        file_system = self.remote.fs
        with progress(f"Asking the DVC remote for {len(paths):,} files", unit=""):
            if file_system.protocol == "local":
                infos = _infos_of_files(paths)
            elif file_system.CAN_TRAVERSE and len(paths) >= LISTED:
                infos = file_system.fs.find(self.remote.path, detail=True)
            else:
                infos = self._infos(list(paths))

        sizes = {}
        for path, info in infos.items():
            if path in paths:
                sizes[paths[path]] = info.get("size")
        return sizes

    def _infos(self, paths: list[str]) -> dict[str, Any]:
        answers = self.remote.fs.info(paths, return_exceptions=True)
        infos = {}
        for path, info in zip(paths, answers, strict=True):
            if isinstance(info, FileNotFoundError):
                continue
            if isinstance(info, BaseException):
                raise info
            infos[path] = info
        return infos

    def download(self, md5: str, target: Path) -> None:
        """Write an object of the remote to a file.

        Raises:
            UnavailableError: The remote lacks it, or has a damaged copy.
        """
        path = self.remote.oid_to_path(md5)
        try:
            self.remote.fs.get_file(path, str(target))
        except FileNotFoundError:
            raise UnavailableError(f"the DVC remote does not have {path}") from None
        if md5_of(target) != md5.removesuffix(".dir"):
            raise UnavailableError(
                f"{path} in the DVC remote is damaged: it has {target.stat().st_size:,} bytes that are not"
                " what was pushed"
            )


def _infos_of_files(paths: Iterable[str]) -> dict[str, dict[str, int]]:
    """Return the size of each file that exists: DVC asks a folder one by one, in threads."""
    infos = {}
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            infos[path] = {"size": Path(path).stat().st_size}
    return infos


def _md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def _listed(content: bytes) -> dict[str, str]:
    return {entry["relpath"]: entry["md5"] for entry in json.loads(content)}


@dataclass
class PushResult:
    """What a push did.

    Attributes:
        repaired: Copies of the remote that were damaged, in words.
        lost: Paths of outs of which neither the remote nor the cache has an undamaged copy, by commit.
    """

    repaired: list[str] = field(default_factory=list)
    lost: dict[str, list[str]] = field(default_factory=dict)

    def messages(self) -> list[str]:
        """Return the result in words; what is lost begins with ``ERROR:``."""
        messages = [f"Damaged in the DVC remote, and now repaired: {copy}." for copy in self.repaired]
        for commit, paths in self.lost.items():
            messages.append(
                f"ERROR: of {commit[:12] or 'this result'}, neither the cache nor the DVC remote has an"
                f" undamaged {first_of(paths, SHOWN_PATHS)}"
            )
        return messages


def push(root: Path, commits: Sequence[str] = (), *, weights: bool = True) -> PushResult:
    """Push the outs of commits, else of the working tree, to the default remote.

    A copy that has another size than the object in the cache is replaced.

    Raises:
        NoRemoteError: There is no remote.
        UploadError: Some could not be uploaded.
    """
    copies = Copies.of(root)
    outs = _outs(root, commits)
    if not weights:
        for commit, stored in outs.items():
            outs[commit] = [out for out in stored if not is_weights(out.path)]

    # the objects, each with the out that it is of
    objects: dict[str, StoredOut] = {}
    copies.read_lists(chain(*outs.values()))
    for stored in outs.values():
        for out in stored:
            objects.setdefault(out.md5, out)
            for md5 in (copies.files(out) or {}).values():
                objects.setdefault(md5, out)
    sizes = copies.sizes(objects)

    # what is sent: what the remote lacks or has in another size, if the cache has it undamaged
    result = PushResult()
    sent: dict[str, Path] = {}
    for md5, out in objects.items():
        size = copies.cached_size(md5)
        is_whole = md5 in sizes and sizes[md5] in {size, None}
        if size is None or is_whole:
            continue
        stored_file = copies.cached(md5)
        if stored_file is None or not is_intact(stored_file):
            continue
        sent[md5] = stored_file
        if md5 in sizes:
            result.repaired.append(f"a file of {out.path} ({sizes[md5]:,} bytes instead of {size:,})")
        sizes.pop(md5, None)
    _send(copies, outs, sent, sizes)

    # what is lost: versions share most of their outs
    lacking = {out: _lacking(copies, out, sizes) for out in set(chain(*outs.values()))}
    for commit, stored in outs.items():
        lost = {out.path for out in stored if lacking[out]}
        if lost:
            result.lost[commit] = sorted(lost)
    return result


def _outs(root: Path, commits: Sequence[str]) -> dict[str, list[StoredOut]]:
    """Return the outs of commits; without a commit, the outs of the working tree by an empty name."""
    if not commits:
        return {"": outs_by_dvc(root)}
    outs = {}
    with progress(f"Reading {len(commits)} versions", len(commits), "versions") as step:
        for commit, stored in zip(commits, stored_outs(root, commits), strict=True):
            outs[commit] = stored
            step.advance(1)
    return outs


def _send(
    copies: Copies,
    outs: Mapping[str, list[StoredOut]],
    sent: Mapping[str, Path],
    sizes: dict[str, int | None],
) -> None:
    """Send objects of the cache, and add them to the ``sizes`` of what the remote has.

    The list of a folder's files comes after all its files, so that nobody takes a part for the whole.

    Raises:
        UploadError: Some could not be uploaded.
    """
    from dvc.exceptions import UploadError

    files = {md5: path for md5, path in sent.items() if not md5.endswith(".dir")}
    failed = _upload(copies, files)
    for md5, path in files.items():
        if md5 not in failed:
            sizes[md5] = path.stat().st_size

    # lists
    complete: dict[str, Path] = {}
    for stored in outs.values():
        for out in stored:
            if out.md5 in sent and out.md5.endswith(".dir"):
                hashes = (copies.files(out) or {}).values()
                if all(md5 in sizes for md5 in hashes):
                    complete[out.md5] = sent[out.md5]
    failed |= _upload(copies, complete)
    for md5, path in complete.items():
        if md5 not in failed:
            sizes[md5] = path.stat().st_size
    if failed:
        raise UploadError(len(failed))


def _upload(copies: Copies, objects: Mapping[str, Path]) -> set[str]:
    """Write objects of the cache to the remote; return the hashes of those that failed."""
    from dvc.fs import localfs

    if not objects:
        return set()
    failed: dict[str, BaseException] = {}
    with progress(f"Pushing {len(objects):,} files to the DVC remote", len(objects), "") as step:
        for hashes in _batches(list(objects)):
            copies.remote.add(
                [str(objects[md5]) for md5 in hashes],
                localfs,
                hashes,
                check_exists=False,
                on_error=failed.__setitem__,
            )
            step.advance(len(hashes))
    for md5, error in failed.items():
        say(f"{md5} was not pushed: {error}", error=True)
    return set(failed)


def _batches(hashes: list[str], size: int = 500) -> Iterable[list[str]]:
    for start in range(0, len(hashes), size):
        yield hashes[start : start + size]


def _lacking(copies: Copies, out: StoredOut, sizes: Mapping[str, int | None]) -> str | None:
    """Return what the remote lacks of an out, in words; ``None`` if it has all of it.

    ``sizes`` has the size of each object of the remote.
    """
    files = copies.files(out)
    if files is None or out.md5 not in sizes or not sizes.keys() >= set(files.values()):
        return "the DVC remote does not have its files"

    # the size of each object that the cache has, too
    for name, md5 in {**files, "its list of files": out.md5}.items():
        size = copies.cached_size(md5)
        if size is None or sizes[md5] in {size, None}:
            continue
        stored_file = copies.cached(md5)
        if stored_file is not None and is_intact(stored_file):
            return (
                f"{name or out.path} in the DVC remote is damaged: {sizes[md5]:,} bytes instead of {size:,}"
            )

    # the size of all
    together = 0
    for md5 in files.values():
        in_remote = sizes[md5]
        if in_remote is None:
            return None
        together += in_remote
    if out.size is not None and together != out.size:
        return (
            f"{out.path} in the DVC remote is damaged: its files have {together:,} bytes instead of"
            f" {out.size:,}"
        )
    return None


def lacks(root: Path, commit: str, path: str) -> str | None:
    """Return what the default remote lacks of an out of a commit, in words; ``None`` if it has all of it.

    Raises:
        LookupError: The commit has no such out.
        NoRemoteError: There is no remote.
    """
    out = _locked_out(lock_at(root, commit), commit, path)
    copies = Copies.of(root)
    hashes = {out.md5, *(copies.files(out) or {}).values()}
    return _lacking(copies, out, copies.sizes(hashes))


def _locked_out(lock: Lock, commit: str, path: str) -> StoredOut:
    md5 = lock.out(path)
    if md5 is None:
        raise LookupError(f"dvc.lock of {commit[:12]} does not list {path}.")
    return StoredOut(path, md5, lock.size(path))


def get(root: Path, commit: str, path: str, target: Path) -> None:
    """Write an out of a commit, or a file of an out that is a folder, from the cache or the remote.

    Raises:
        LookupError: The commit has no such out.
        NoRemoteError: There is no remote.
        UnavailableError: The remote lacks it, or has a damaged copy.
    """
    lock = lock_at(root, commit)
    folder, _, name = path.rpartition("/")
    is_part = lock.out(path) is None and lock.out(folder) is not None
    out = _locked_out(lock, commit, folder if is_part else path)
    copies = Copies.of(root)
    files = copies.files(out)
    if files is None:
        raise UnavailableError(f"the DVC remote does not have {path} of {commit[:12]}")

    if is_part or not out.md5.endswith(".dir"):
        key = name if is_part else ""
        if key not in files:
            raise LookupError(f"{folder} of {commit[:12]} has no file {name}.")
        with replace_file(target) as partial:
            _copy(copies, files[key], partial)
        return
    with replace_directory(target) as partial_folder:
        for relative, md5 in files.items():
            file = partial_folder / relative
            file.parent.mkdir(parents=True, exist_ok=True)
            _copy(copies, md5, file)


def _copy(copies: Copies, md5: str, target: Path) -> None:
    stored = copies.cached(md5)
    if stored is not None and is_intact(stored):
        shutil.copyfile(stored, target)
    else:
        copies.download(md5, target)


def fetch(root: Path, sources: Sequence[str]) -> None:
    """Bring the data of ``.dvc`` files of the working tree to the cache, as far as the remote has them.

    Raises:
        NoRemoteError: There is no remote.
        UnavailableError: The remote has a damaged copy.
    """
    from dvc.repo import Repo

    copies = Copies.of(root)
    with Repo(str(root)) as repo:
        cache = repo.cache.local
        wanted = []
        for source in sources:
            for out in repo.stage.load_one(str(root.resolve() / source)).outs:
                if out.use_cache and not out.stage.is_repo_import and out.hash_info:
                    wanted.append(StoredOut(str(out), str(out.hash_info.value), out.meta.size))

        for out in wanted:
            for md5 in (*(copies.files(out) or {}).values(), out.md5):
                _fetch_object(copies, cache, md5)


def _fetch_object(copies: Copies, cache: Any, md5: str) -> None:
    stored = copies.cached(md5)
    if stored is not None and is_intact(stored):
        return
    if not copies.remote.exists(md5):  # DVC says what is missing
        return
    target = Path(cache.oid_to_path(md5))
    cache.makedirs(str(target.parent))
    with replace_file(target) as partial:
        copies.download(md5, partial)
    cache.protect(str(target))


if __name__ == "__main__":
    main()
