"""Atomic writes: a file or folder is written beside its target and renamed, so that no reader ever sees a part of it.

It has reached the disk before it is renamed, and the rename has when the block ends: a power cut leaves the
old one or the new one.

Each writer has a file or folder of its own, ``.NAME.TOKEN.partial``, and holds a lock on it (flock), which
the system releases when the process ends, in whichever container it runs. What has no lock was left by a
killed process: the next writer of the target removes it.

A resumable folder, ``.NAME.resumable`` beside the target and outside the outs of DVC, is left for the next
process instead. It has a folder named after the key of its content, a hash of everything that the content
depends on: with another key nothing of the old folder is of use, and it is removed. So a target has at most
one leftover, which lasts until its next writer ends, or until the flow ``clean`` finds it a week old.
"""

import errno
import glob
import hashlib
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from rich.filesize import decimal

from tuneline.core.errors import DiskError, ParamsError, StageError
from tuneline.core.locks import BusyError, lock, locked

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_AWAY = (errno.EIO, errno.ESTALE, errno.ENOTCONN, errno.ENODEV, errno.EHOSTDOWN)
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG)
_TEXTS = {
    os.strerror(errno.ENOSPC): errno.ENOSPC,
    os.strerror(errno.EDQUOT): errno.EDQUOT,
    os.strerror(errno.EFBIG): errno.EFBIG,
    "Not enough free space to write": errno.ENOSPC,  # numpy
    "unable to write file": errno.ENOSPC,  # git, which does not say why
    "No usable temporary directory found": errno.ENOSPC,  # tempfile has tried to write to each
}
_LITTLE = 64 * 1024
"""Bytes. An error of a writer whose file system has less left is taken for a full disk."""


@contextmanager
def explain_disk_errors(place: Path | None = None) -> Iterator[None]:
    """Replace an error of a disk by one for the user, who is told what is written (default: what the error names); others pass.

    Raises:
        DiskError: A file system is full or away, does not let this user read or write, or has no names or
            files of that length.
    """
    try:
        yield
    except StageError:
        raise
    except Exception as error:
        if number := full_disk(error):
            raise full_disk_error(number, place or _place(error), error) from error
        if isinstance(error, OSError) and error.errno in _FORBIDDEN and error.filename:
            hint = (
                "A name has at most 255 bytes."
                if error.errno == errno.ENAMETOOLONG
                else _look_at(Path(error.filename))
            )
            raise DiskError(f"{error.filename}: {error.strerror}.", hint) from error
        if isinstance(error, OSError) and error.errno in _AWAY:
            hint = (
                "A disk is damaged, or a network folder or terminal is gone (`findmnt`). Then run the same"
                " command again."
            )
            raise DiskError(
                f"{error.filename or place or 'A file'} cannot be read or written: {error.strerror}.", hint
            ) from error
        raise


def full_disk(error: BaseException, folder: Path | None = None) -> int | None:
    """Return ``errno.ENOSPC`` or ``errno.EDQUOT`` if a full disk or quota caused an error, while ``folder`` was written; else ``None``."""
    if isinstance(error, StageError) and not isinstance(error, DiskError):
        return None
    for cause in _causes(error):
        if isinstance(cause, OSError) and cause.errno in _FULL:
            return cause.errno
        if number := next((number for text, number in _TEXTS.items() if text in str(cause)), None):
            return number
    return errno.ENOSPC if folder is not None and _free(folder) < _LITTLE else None


def full_disk_error(number: int, place: Path, cause: Exception) -> DiskError:
    """Return the error of a full disk or quota (``number``); the cause is shown if it says nothing of a full disk."""
    existing = _existing(place).resolve()
    mounted = next(path for path in (existing, *existing.parents) if path.is_mount())
    shown = (
        ""
        if any(os.strerror(number) in str(error) for error in _causes(cause))
        else f" ({type(cause).__name__}: {cause})"
    )
    room = _describe_room(mounted, number)
    problem = f"{place} cannot be written: {os.strerror(number)}{shown}."
    remedy = "Raise the limit of this process, which `ulimit -f` shows"
    if number != errno.EFBIG:
        problem += f" On its file system, mounted at {mounted}, {room}."
        remedy = f"Make room there (`du -xhd 3 {mounted} | sort -h | tail` lists its largest folders)"
    error = DiskError(problem, f"{remedy}, then run the same command again.")
    error.device = existing.stat().st_dev
    return error


def cannot_write(place: Path, error: OSError) -> DiskError:
    """Return the error of a file or folder that cannot be made."""
    if error.errno in _FULL:
        return full_disk_error(error.errno, place, error)
    return DiskError(f"{place} cannot be written: {error.strerror or error}.", _look_at(place))


def _describe_room(mounted: Path, number: int) -> str:
    status = os.statvfs(mounted)
    if number == errno.EDQUOT:
        return "your quota is used up (`quota -s` shows it)"
    if status.f_files and not status.f_favail:
        return "no inode is free (`df -i` counts them: there are too many files)"
    return (
        f"{decimal(_free(mounted))} of {decimal(status.f_blocks * status.f_frsize)} are free, and it needs"
        " more"
    )


def _look_at(place: Path) -> str:
    existing = _existing(place)
    return (
        f"`ls -ld {existing}` shows what is there and who may write, `findmnt -T {existing}` whether its file"
        " system is read-only."
    )


def _existing(place: Path) -> Path:
    """Return a file or folder, or the nearest folder above it that exists."""
    return next(
        path for path in (place.absolute(), *place.absolute().parents) if os.access(path, os.F_OK)
    )  # False without permission


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and those that caused it."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)


def _place(error: BaseException) -> Path:
    """Return the file that an error names, else the folder with the least free space of those in which any program writes."""
    named = [
        cause.filename2 or cause.filename for cause in _causes(error) if isinstance(cause, OSError)
    ]  # of a copy, the target
    if names := [name for name in named if isinstance(name, (str, os.PathLike))]:
        return Path(names[0])
    cache = Path(os.environ.get("HF_HOME", "~/.cache/huggingface")).expanduser()
    temporary = Path(tempfile.tempdir or os.environ.get("TMPDIR", "/tmp"))  # noqa: S108 - gettempdir() would try to write there
    places = [Path.cwd(), temporary, cache, Path("/dev/stdout").resolve()]
    return min((place for place in places if os.access(place, os.F_OK)), key=_free)


def _free(place: Path) -> int:
    """Return the bytes that this user may still write; a file system reserves some for root."""
    status = os.statvfs(place)
    return (status.f_bavail if os.geteuid() else status.f_bfree) * status.f_frsize


LONGEST_NAME = 255
"""Bytes of a file name that Linux allows."""


@contextmanager
def replace_file(target: Path) -> Iterator[Path]:
    """Yield an empty file to write to, which replaces ``target`` when the block ends without an error and is deleted otherwise.

    Raises:
        DiskError: The disk is full, the folder cannot be created or written, or ``target`` is a folder.
    """
    if target.is_dir():
        raise DiskError(f"{target} is a folder.", "Name a file in it.")
    with _partial(target, lambda path: path.touch(exist_ok=False)) as partial:
        yield partial
        _sync(partial)
        partial.replace(target)
        _sync(target.parent)


@contextmanager
def replace_directory(target: Path) -> Iterator[Path]:
    """Yield an empty folder, which replaces ``target`` when the block ends without an error and is deleted otherwise.

    The previous folder is removed only after the new one is complete. Files get the permissions of the umask,
    because safetensors and ``tempfile`` create files that only their owner can read.

    Raises:
        DiskError: The disk is full, or the folder cannot be created or written.
    """
    with _partial(target, Path.mkdir) as partial:
        yield partial
        _publish(partial, target)


def _publish(folder: Path, target: Path) -> None:
    """Let a complete folder replace another one of the same file system, once all of it has reached the disk."""
    _apply_umask(folder)
    for path in (*folder.rglob("*"), folder):
        if not path.is_symlink():
            _sync(path)
    _rename_directory(folder, target)
    _sync(target.parent)


@contextmanager
def working_directory(place: Path) -> Iterator[Path]:
    """Yield an empty folder beside ``place``, which is removed when the block ends, or by the next process if it was killed."""
    with _partial(place, Path.mkdir) as partial:
        yield partial


@contextmanager
def temporary_directory() -> Iterator[Path]:
    """Yield a folder in the system's folder of temporary files, which is removed when the block ends."""
    folder = Path(tempfile.mkdtemp())
    with _removed(folder, folder):
        yield folder


RESUMABLE = ".resumable"


@contextmanager
def resumable_directory(target: Path, key: str) -> Iterator[Path]:
    """Yield a folder that replaces ``target`` when the block ends without an error, and stays for the next process otherwise.

    The folder has what a process with the same key has left, else it is empty. Each file in it must be
    written with ``replace_file``: then what is there is whole. What is no part of the target must be removed
    before the block ends.

    Raises:
        StageError: Another process is writing the target.
        DiskError: The folder cannot be created or written.
    """
    with ExitStack() as held:
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            remove_leftovers(target)
            outer = held.enter_context(_locked_folder(target))
        except OSError as error:
            raise cannot_write(target, error) from error
        for path in outer.iterdir():
            if path.name != key:
                shutil.rmtree(path)
        folder = outer / key
        folder.mkdir(exist_ok=True)
        _remove_parts(folder)
        with explain_disk_errors(target):
            yield folder
        _remove_parts(folder)  # of a worker that was killed meanwhile
        _publish(folder, target)
        shutil.rmtree(outer)


def content_key(*values: Any, files: Iterable[Path] = ()) -> str:
    """Return a hash of values of JSON (parameters, versions, a hash of the code) and of the names and bytes of the input files."""
    lines = [json.dumps(values, sort_keys=True)]
    lines += [f"{file_hash(path)}  {path.as_posix()}" for path in files]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:32]


@contextmanager
def _locked_folder(target: Path) -> Iterator[Path]:
    """Hold the lock of the folder beside the target."""
    outer = target.with_name(f".{target.name}{RESUMABLE}")
    with ExitStack() as held:
        while True:
            outer.mkdir(exist_ok=True)
            try:
                held.enter_context(locked(outer, wait=0, required=False))
                break
            except FileNotFoundError:  # its writer has just ended, and removed it
                continue
            except BusyError:
                raise StageError(
                    f"{target} is being written by another process.", "Wait until it has ended, or stop it."
                ) from None
        yield outer


def _remove_parts(folder: Path) -> None:
    """Remove the files and folders that killed processes were writing."""
    for path in list(folder.rglob(".*.partial")):
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """Write ``value`` as indented JSON with a final newline.

    NaN and infinity, which JSON does not have, are a ``ValueError``.
    """
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    with replace_file(path) as partial:
        partial.write_text(text + "\n", encoding="utf-8")


@contextmanager
def _partial(target: Path, create: Callable[[Path], None]) -> Iterator[Path]:
    """Yield a new, locked file or folder beside ``target``: a rename is atomic only within one file system."""
    partial = target.with_name(f"{_hidden(target)}.{secrets.token_hex(4)}.partial")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(target)
    except OSError as error:
        raise cannot_write(target, error) from error
    with (
        ExitStack() as held,
        _removed(partial, target),
    ):  # from before its creation: a signal may end the process right after that
        try:
            held.callback(os.close, _create_locked(partial, create))
        except OSError as error:
            raise cannot_write(target, error) from error
        yield partial


@contextmanager
def _removed(path: Path, place: Path) -> Iterator[None]:
    """Remove a file or folder when the block ends; if a full disk ended it, say so for ``place``."""
    failure: tuple[int, Exception] | None = None
    try:
        yield
    except Exception as error:
        other = isinstance(error, DiskError) and error.device not in {
            None,
            path.parent.stat().st_dev,
        }  # it filled another disk
        if other or (number := full_disk(error, path.parent)) is None:
            raise
        failure = number, error
    finally:
        with suppress(PermissionError):  # then it could not be created either
            _remove(path)
    if failure is not None:  # only here is the space of what was removed and closed free again
        number, cause = failure
        raise full_disk_error(number, place, cause) from cause


def _create_locked(partial: Path, create: Callable[[Path], None]) -> int:
    """Create a file or folder, and return the descriptor that locks it."""
    while True:
        create(partial)
        with suppress(FileNotFoundError):
            descriptor = os.open(partial, os.O_RDONLY)
            with suppress(
                OSError
            ):  # no locks on this file system: then nobody can take it for a leftover either
                lock(descriptor)
            if partial.exists():  # else another writer took it for a leftover, before it was locked
                return descriptor
            os.close(descriptor)


def _hidden(target: Path) -> str:
    """Return the start of the names beside ``target``; it is cut where the whole name would be too long."""
    longest = LONGEST_NAME - len("..00000000.partial")
    return "." + os.fsencode(target.name)[:longest].decode(errors="ignore")


def remove_leftovers(target: Path) -> None:
    """Remove what killed processes have left beside ``target``."""
    for path in target.parent.glob(f"{glob.escape(_hidden(target))}.*"):
        if path.suffix in {".partial", ".former"}:
            with (
                suppress(OSError, BusyError),
                locked(path, wait=0, create=False),
            ):  # else its writer is alive, or it is another user's
                _remove(path)


def _rename_directory(partial: Path, target: Path) -> None:
    """Rename a folder over another one, which takes two renames."""
    former = partial.with_suffix(".former")
    with suppress(FileNotFoundError):
        target.replace(former)
    try:
        partial.replace(target)
    except OSError as error:
        if error.errno not in {errno.ENOTEMPTY, errno.EEXIST}:
            with suppress(FileNotFoundError):
                former.replace(target)
            raise
        _remove(former)
        _rename_directory(partial, target)  # another writer came between the renames: the last one stays
    _remove(former)


def _sync(path: Path) -> None:
    """Return when a file, or the names in a folder, have reached the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that does not synchronize folders
            raise
    finally:
        os.close(descriptor)


def _remove(path: Path) -> None:
    """Remove a file or folder, if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _apply_umask(folder: Path) -> None:
    """Give all files in ``folder`` the mode of the folder, without the execute bits."""
    mode = folder.stat().st_mode & 0o666
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            path.chmod(mode)


def read_yaml(path: Path) -> Any:
    """Read YAML 1.2, as DVC does (``2e-5`` is a number); a ``ParamsError`` if the file is missing or is not valid YAML."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        return YAML(typ="safe", pure=True).load(path)
    except FileNotFoundError:
        raise ParamsError(f"{path} is missing.", "Run this in the root of the project.") from None
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else "?"
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        if marker := next(
            (number for number, text in enumerate(lines, start=1) if text.startswith("<<<<<<< ")), None
        ):
            hint = (
                "`tuneline upgrade` takes your version of its files; or keep one of the two, and git add it."
            )
            raise ParamsError(f"{path}, line {marker}: a merge left a conflict.", hint) from None
        raise ParamsError(
            f"{path}, line {line}: invalid YAML: {error.problem}.", "Correct that line."
        ) from None
    except (
        YAMLError,
        ValueError,
    ) as error:  # ValueError: not UTF-8, or a date without quotes that no calendar has
        raise ParamsError(f"{path}: invalid YAML: {error}") from None
    except RecursionError:
        raise ParamsError(f"{path}: invalid YAML: lists or mappings are nested too deep.") from None


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal.

    A file that has not been touched since the last call is not read again.
    """
    status = path.stat()
    return _hash(path, (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns))


@lru_cache(maxsize=1024)
def _hash(path: Path, status: tuple[int, ...]) -> str:  # noqa: ARG001 - the key of the cache
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
