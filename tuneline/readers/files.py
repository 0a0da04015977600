"""Files with rows, on disk and on storage that fsspec knows, such as ``s3://bucket/folder/train.parquet``.

Credentials come only from the environment.
"""

import errno
import io
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any, cast
from urllib.parse import unquote

from tuneline.paths import SOURCE
from tuneline.runtime.errors import DataError, StageError, UnreadableError
from tuneline.runtime.terminal import redacted

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFBLK: "a block device",
    stat.S_IFCHR: "a character device",
}


def not_a_file(path: Path) -> str | None:
    """Return what is wrong with a path that is neither a file nor a link to one, else ``None``.

    The result is the end of a sentence about the path, such as ``is a folder, not a file``. Nothing is
    opened, so a pipe is not waited for.
    """
    try:
        mode = path.stat().st_mode
    except OSError as error:
        if error.errno == errno.ELOOP:
            return "is a link that leads to itself"
        if error.errno != errno.ENOENT:
            return f"cannot be reached: {error.strerror}"
        if path.is_symlink():
            return f"is a link to {path.readlink()}, which does not exist"
        return "does not exist"

    kind = _KINDS.get(stat.S_IFMT(mode))
    if kind is None:
        return None
    return f"is {kind}, not a file"


EXTRAS = {"s3": "'.[s3]'", "s3a": "'.[s3]'", "gs": "gcsfs", "gcs": "gcsfs", "abfs": "adlfs", "az": "adlfs"}
"""What to install for a scheme."""
STORAGE_OPTIONS = {"s3": {"max_concurrency": 1}, "s3a": {"max_concurrency": 1}}
"""Options of fsspec for a scheme.

S3 sends one part of 50 MB at a time: ten would be in memory, and an upload that is cut off could not be
aborted while others are sent.
"""
READ_AHEAD = 4 << 20
"""Bytes of a text file that one request reads."""
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
# A colon that does not begin a port, before an @. A bucket has no @ at all.
_PASSWORD = re.compile(r"[^:]+://[^/?#@\s]*:(?!\d+(?:[/?#]|$))\S*@|s3a?://[^/]*@")
_PARAMETERS = re.compile(r"\?[^\s'\"]+")
"""What follows the ``?`` of a URL: tokens, signatures."""


def is_url(text: str) -> bool:
    """Return True if a text is an address such as ``s3://bucket/folder``, not a path."""
    return _URL.match(text) is not None


STORES = ("abfs://", "az://", "gcs://", "gs://", "s3://", "s3a://")
ADDRESSES = "TUNELINE_DATA_ADDRESSES"
"""Environment variable with the prefixes of addresses that parameters may name, instead of ``STORES``.

Each ends in ``/``.
"""


def refuse_address(parameter: str, url: str) -> None:
    """Refuse an address that is neither in an object store nor in what ``ADDRESSES`` allows.

    Who sets a parameter reads nothing else: ``file://``, ``http://`` and chains of file systems would read
    files of the machine and ask servers of its network.
    """
    allowed: tuple[str, ...] = STORES
    if ADDRESSES in os.environ:
        allowed = tuple(os.environ[ADDRESSES].split())

    is_chain = "::" in url
    leaves_folder = ".." in unquote(url).split("/")
    if not url.startswith(allowed) or is_chain or leaves_folder:
        prefixes = ", ".join(allowed) or "none"
        problem = (
            f"{parameter}: {shown(url)} is not an address that it may name: {prefixes}, and no '..' in it."
        )
        hint = (
            f"Files of this machine are in {SOURCE}/. Others are allowed by training.addresses in"
            f" conf/flows.yaml, or by {ADDRESSES}."
        )
        raise DataError(problem, hint)


def shown(text: str) -> str:
    """Return a text without what may be secret in its URLs.

    Secret are user names, passwords, and what follows a ``?`` (tokens, signatures).
    """
    return _PARAMETERS.sub("", redacted(text))


def version_of(info: Mapping[str, Any]) -> str | None:
    """Return what names the version of a file; ``None`` if the storage names none.

    HTTP, S3 and GCS have an ETag; others, such as a mounted folder, a time.
    """
    for key in ("ETag", "etag", "md5Hash", "Last-Modified", "LastModified", "mtime"):
        if info.get(key):
            return str(info[key])
    return None


@dataclass(frozen=True)
class RemoteFile:
    """A file of a storage, which the readers take like a ``Path``.

    Its address contains no password; its version is the ETag, or another name of it, or ``None``.
    """

    url: str
    size: int = 0
    version: str | None = None

    def __str__(self) -> str:
        return shown(self.url)

    @property
    def name(self) -> str:
        """Its name in its folder."""
        return self.url.partition("?")[0].rpartition("/")[2]

    @property
    def suffix(self) -> str:
        """End of its name, like the suffix of a ``Path``."""
        return PurePosixPath(self.name).suffix

    def is_file(self) -> bool:
        """Return True."""
        return True

    def open_bytes(self, *, in_order: bool = True) -> io.BufferedReader:
        """Open it for reading; ``in_order`` from start to end, so that each request may read ahead."""
        return io.BufferedReader(_RemoteBytes(self, in_order), 1 << 16)

    def fetch(self, copy: Path) -> None:
        """Fetch it, in parts, to a file of this machine.

        Raises:
            UnreadableError: The storage is away, or changed the file meanwhile.
        """
        with reaching(str(self)):
            files, path = file_system(self.url)
            files.get_file(path, str(copy))
        if copy.stat().st_size != self.size:
            raise UnreadableError(
                f"{self} changed, or was cut off, while it was fetched.", "Run the same command again."
            )

    def replace(self, content: Path) -> None:
        """Replace it by a file of this machine. Object stores show it when it is complete."""
        with reaching(str(self)):
            files, path = file_system(self.url)
            files.put_file(str(content), path)


DataFile = Path | RemoteFile
"""A file with rows."""


class _RemoteBytes(io.RawIOBase):
    """The bytes of a remote file. pyarrow and gzip let its errors pass."""

    def __init__(self, file: RemoteFile, in_order: bool) -> None:
        super().__init__()
        self._name = str(file)
        caching: dict[str, Any] = {"cache_type": "none"}
        if in_order:
            caching = {"cache_type": "readahead", "block_size": READ_AHEAD}
        with reaching(self._name):
            files, path = file_system(file.url)
            self._file = files.open(path, "rb", **caching)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        return cast("int", self._file.seek(offset, whence))

    def tell(self) -> int:
        return cast("int", self._file.tell())

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        with reaching(self._name):
            content = self._file.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)

    def close(self) -> None:
        # A file that could not be opened is closed as well, when it is collected as garbage.
        if not self.closed and hasattr(self, "_file"):
            self._file.close()
        super().close()


def file_system(url: str) -> tuple[Any, str]:
    """Return the file system of a URL, and the path in it.

    Raises:
        DataError: The URL contains a password or has an unknown scheme.
        StageError: The library for its scheme is not installed.
    """
    from fsspec.core import url_to_fs

    if _PASSWORD.match(url):
        raise DataError(
            f"{shown(url)} contains a password.",
            "Credentials come from the environment, for example AWS_ACCESS_KEY_ID.",
        )
    scheme = url.partition("://")[0]
    try:
        return cast("tuple[Any, str]", url_to_fs(url, **STORAGE_OPTIONS.get(scheme, {})))
    except ImportError as error:
        package = EXTRAS.get(scheme, "what fsspec needs for it")
        raise StageError(
            f"{shown(url)}: {scheme}:// is not installed: {error}", f"`pip install {package}`"
        ) from None
    except ValueError as error:
        raise DataError(
            f"{shown(url)}: {shown(str(error))}", "s3://, gs:// and other schemes of fsspec are read."
        ) from None


@contextmanager
def reaching(name: str) -> Iterator[None]:
    """Replace the errors of a storage by a ``DataError`` or ``UnreadableError`` that names what is read.

    Each storage has error types of its own, so every exception is replaced.
    """
    try:
        yield
    except StageError:
        raise
    except FileNotFoundError:
        raise DataError(
            f"{name} does not exist.", "Check the address; a missing bucket looks the same."
        ) from None
    except Exception as error:
        reason, _, rest = str(error).partition("\n")
        if reason.endswith(":"):
            second, _, _ = rest.partition("\n")
            reason = f"{reason} {second}"
        problem = f"{name} cannot be reached: {type(error).__name__}: {shown(reason)}"
        hint = "Check the network and the credentials in the environment, then run the same command again."
        raise UnreadableError(problem, hint) from None


def file_size(path: DataFile) -> int:
    """Return the size of a file in bytes."""
    if isinstance(path, RemoteFile):
        return path.size
    return path.stat().st_size


def list_files(url: str, depth: int = 1) -> list[RemoteFile]:
    """Return the files of a URL, sorted by name.

    A folder, which ends in ``/``, stands for the files in it; a pattern with ``*``, for the files that match;
    any other URL is one file.

    Args:
        url: Address of a folder, a pattern or a file.
        depth: 2 lists also the files of the folders in a folder.

    Raises:
        DataError: There is no file, or the URL contains a password.
    """
    with reaching(shown(url)):
        files, path = file_system(url)
        files.invalidate_cache()

        if "*" in path:
            before_star = path.partition("*")[0]
            root = before_star.rpartition("/")[0]
            pattern = path.removeprefix(f"{root}/").split("/")
            entries = dict(_matching(files, root, pattern))
        # Of HTTP, ``isdir`` would read the whole file.
        elif url.endswith("/") or (not url.startswith("http") and files.isdir(path)):
            entries = dict(_below(files, path, depth))
        else:
            return [_remote_file(files, path, files.info(path), url)]

        listed = []
        for name, info in sorted(entries.items()):
            # Object stores show a folder as an empty file whose name ends in a slash.
            if not name.endswith("/"):
                listed.append(_remote_file(files, name, info))
    if not listed:
        raise DataError(
            f"{shown(url)} has no files.",
            "Check the address; a folder ends in /, and * stands for any part of a name.",
        )
    return listed


def _below(files: Any, path: str, depth: int) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the files of a folder, and of the folders in it."""
    for info in files.ls(path, detail=True):
        if info["type"] == "file":
            yield info["name"], info
        elif depth > 1:
            yield from _below(files, info["name"], depth - 1)


def _matching(files: Any, path: str, pattern: Sequence[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the files in a folder whose paths match a pattern: one name for each level of folders.

    The name ``**`` stands for any number of folders.
    """
    if pattern == ["**"]:
        pattern = ["**", "*"]
    first = pattern[0]
    rest = pattern[1:]
    if first == "**":
        # no folder in its place
        yield from _matching(files, path, rest)

    below = pattern if first == "**" else rest
    for info in files.ls(path, detail=True):
        name = info["name"].rstrip("/").rpartition("/")[2]
        if not fnmatchcase(name, first):
            continue
        if info["type"] == "file" and not rest:
            yield info["name"], info
        elif info["type"] == "directory" and rest:
            yield from _matching(files, info["name"], below)


def _remote_file(files: Any, path: str, info: Mapping[str, Any], url: str | None = None) -> RemoteFile:
    """Return the file that a storage describes; ``url`` is its address, if the user wrote it."""
    if info["type"] != "file":
        raise DataError(f"{shown(url or path)} is a folder, not a file.", "Name a file in it.")
    address = url or files.unstrip_protocol(path)
    size = int(info.get("size") or 0)
    return RemoteFile(address, size, version_of(info))
