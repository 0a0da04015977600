"""What a path is if it is no file: a name such as ``train.csv`` may be that of a folder, a pipe or a link to nowhere."""

import errno
import stat
from pathlib import Path

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFBLK: "a block device",
    stat.S_IFCHR: "a character device",
}


def not_a_file(path: Path) -> str | None:
    """Return the end of a sentence about a path that is neither a file nor a link to one, for example ``is a folder, not a file``.

    Nothing is opened, so a pipe is not waited for.
    """
    try:
        kind = _KINDS.get(stat.S_IFMT(path.stat().st_mode))
    except OSError as error:
        if error.errno == errno.ELOOP:
            return "is a link that leads to itself"
        if error.errno == errno.ENOENT:
            return f"is a link to {path.readlink()}, which does not exist" if path.is_symlink() else "does not exist"
        return f"cannot be reached: {error.strerror}"
    return f"is {kind}, not a file" if kind else None
