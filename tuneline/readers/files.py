"""Files with rows, on disk and on storage that fsspec knows, such as ``s3://bucket/folder/train.parquet``.

Credentials come only from the environment.
"""

import errno
import io
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
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


STORAGE_OPTIONS = {"s3": {"max_concurrency": 1}, "s3a": {"max_concurrency": 1}}
"""Options of fsspec for a scheme.

S3 sends one part of 50 MB at a time: ten would be in memory, and an upload that is cut off could not be
aborted while others are sent.
"""
READ_AHEAD = 4 << 20
"""Bytes of a text file that one request reads."""
STORES = ("abfs://", "az://", "gcs://", "gs://", "s3://", "s3a://")
"""Addresses that parameters may name."""
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_PARAMETERS = re.compile(r"\?[^\s'\"]+")
"""What follows the ``?`` of a URL: tokens, signatures."""


def is_url(text: str) -> bool:
    """Return True if a text is an address such as ``s3://bucket/folder``, not a path."""
    return _URL.match(text) is not None


def refuse_address(parameter: str, url: str) -> None:
    """Refuse an address that is not in an object store.

    Who sets a parameter reads nothing else: ``file://``, ``http://`` and chains of file systems would read
    files of the machine and ask servers of its network.
    """
    leaves_folder = ".." in unquote(url).split("/")
    if not url.startswith(STORES) or "::" in url or leaves_folder:
        raise DataError(
            f"{parameter}: {shown(url)} is not an address in an object store ({', '.join(STORES)}).",
            f"Files of this machine are in {SOURCE}/.",
        )


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

    @contextmanager
    def open_bytes(self) -> Iterator[Any]:
        """Open it for reading, each request ahead of what is needed."""
        with reaching(str(self)):
            files, path = file_system(self.url)
            file = files.open(path, "rb", cache_type="readahead", block_size=READ_AHEAD)
        with file:
            yield io.BufferedReader(file)

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


def file_system(url: str) -> tuple[Any, str]:
    """Return the file system of a URL, and the path in it.

    Raises:
        DataError: The URL contains a password or has an unknown scheme.
        StageError: The library for its scheme is not installed.
    """
    from fsspec.core import url_to_fs

    if redacted(url) != url:
        raise DataError(
            f"{shown(url)} contains a password.",
            "Credentials come from the environment, for example AWS_ACCESS_KEY_ID.",
        )
    scheme = url.partition("://")[0]
    try:
        return cast("tuple[Any, str]", url_to_fs(url, **STORAGE_OPTIONS.get(scheme, {})))
    except ImportError as error:
        raise StageError(
            f"{shown(url)}: {scheme}:// is not installed: {error}", "For s3:// `pip install '.[s3]'`."
        ) from None
    except ValueError as error:
        raise DataError(f"{shown(url)}: {shown(str(error))}") from None


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
        reason, *_ = str(error).splitlines() or [""]
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
            entries = files.glob(path, detail=True)
        # Of HTTP, ``isdir`` would read the whole file.
        elif url.endswith("/") or (not url.startswith("http") and files.isdir(path)):
            entries = files.find(path, maxdepth=depth, detail=True, on_error="raise")
        else:
            info = files.info(path)
            return [RemoteFile(url, int(info.get("size") or 0), version_of(info))]

        listed = []
        for name, info in sorted(entries.items()):
            # Object stores show a folder as an empty file whose name ends in a slash.
            if info["type"] == "file" and not name.endswith("/"):
                address = files.unstrip_protocol(name)
                listed.append(RemoteFile(address, int(info.get("size") or 0), version_of(info)))
    if not listed:
        raise DataError(
            f"{shown(url)} has no files.",
            "Check the address; a folder ends in /, and * stands for any part of a name.",
        )
    return listed
